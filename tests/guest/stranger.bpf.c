// SPDX-License-Identifier: GPL-2.0-only
/*
 * The least that is a sched_ext scheduler: a name. What it leaves out the kernel does, all tasks in one queue. Stands in for anybody else's.
 */
struct sched_ext_ops {
	char name[128];
};

__attribute__((section(".struct_ops.link"), used)) struct sched_ext_ops stranger = { .name = "stranger" };

__attribute__((section("license"), used)) char _license[] = "GPL";
