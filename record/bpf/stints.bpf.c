// SPDX-License-Identifier: GPL-2.0-only
/*
 * When one process wants the CPU, and when it has it.
 *
 * The problem: what a program needs cannot be asked of it, and /proc tells only how much it used. The idea: each time one of its threads leaves
 * a CPU, write down since when it had it, what for it was woken, and whether it went to sleep. What is made of that: spec/src/suggest.rs.
 *
 * It is apart from the scheduler, so it works with any, and costs nothing while nobody asks: it is loaded for the one who asks and gone with them.
 * What it costs then: two comparisons at each switch and each wake-up of the machine, and some hundred instructions at those of the process.
 *
 * What it is bad at: a thread that is woken before it has come to sleep and is preempted later shows the wake-up then. That is rare, and moves
 * the begin of one burst.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "../../abi/include/record_abi.h"

char _license[] SEC("license") = "GPL";

/* TASK_DEAD of include/linux/sched.h, which BTF does not have. */
#define LL_TASK_DEAD 0x80

/* The process (its tgid); 0: none yet. Writer: who asks. */
u32 watched;

/* Stints for which there was no room. */
u64 lost;

struct under_way {
	u64 woken_ns;
	u64 start_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, LL_STINT_MAX_THREADS);
	__type(key, u32);
	__type(value, struct under_way);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, LL_STINT_BUFFER_BYTES);
} stints SEC(".maps");

static bool is_watched(const struct task_struct *p)
{
	return watched && p->tgid == watched;
}

/* What is known of thread @tid; a new entry where there is none. NULL: there are too many. */
static struct under_way *thread_of(u32 tid)
{
	struct under_way *thread = bpf_map_lookup_elem(&threads, &tid);
	struct under_way none = {};

	if (thread)
		return thread;
	bpf_map_update_elem(&threads, &tid, &none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&threads, &tid);
}

static void leave(const struct task_struct *p, bool slept, u64 now)
{
	u32 tid = p->pid;
	struct under_way *thread = bpf_map_lookup_elem(&threads, &tid);
	struct ll_stint stint;

	/* It ran already when this began. */
	if (!thread || !thread->start_ns)
		return;
	stint = (struct ll_stint){ thread->woken_ns, thread->start_ns, now, tid, slept };
	thread->woken_ns = 0;
	thread->start_ns = 0;
	/* Whoever reads comes by themselves: waking them here would be more work than this. */
	if (bpf_ringbuf_output(&stints, &stint, sizeof(stint), BPF_RB_NO_WAKEUP))
		__sync_fetch_and_add(&lost, 1);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(ll_switched, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int prev_state)
{
	struct under_way *thread;
	u32 tid = prev->pid;
	u64 now;

	if (!is_watched(prev) && !is_watched(next))
		return 0;
	now = bpf_ktime_get_ns();
	if (is_watched(prev)) {
		leave(prev, !preempt && prev_state, now);
		if (prev_state & LL_TASK_DEAD)
			bpf_map_delete_elem(&threads, &tid);
	}
	if (is_watched(next)) {
		thread = thread_of(next->pid);
		if (thread)
			thread->start_ns = now;
	}
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(ll_waking, struct task_struct *p)
{
	struct under_way *thread;

	if (!is_watched(p))
		return 0;
	thread = thread_of(p->pid);
	/* While it runs it does not sleep. */
	if (thread && !thread->start_ns)
		thread->woken_ns = bpf_ktime_get_ns();
	return 0;
}
