// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include "deadline.h"

#include "common.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SCHED_DEADLINE
#define SCHED_DEADLINE 6
#endif

/* As in <linux/sched/types.h>, which cannot be had beside <sched.h> everywhere. */
struct policy {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime_ns, deadline_ns, period_ns;
};

void become_of_deadline(uint64_t runtime_ns, uint64_t period_ns)
{
	const struct policy wanted = {
		.size = sizeof(wanted), .policy = SCHED_DEADLINE, .runtime_ns = runtime_ns, .deadline_ns = period_ns, .period_ns = period_ns,
	};

	if (syscall(SYS_sched_setattr, 0, &wanted, 0))
		die_errno("cannot be of SCHED_DEADLINE (needs root, and CPU time that nobody else has reserved)");
}
