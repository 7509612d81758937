/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The boundary between the BPF program that watches one process (record/bpf) and `limelight spec suggest`: when its threads ran.
 *
 * Nothing else crosses it: no name, no argument, no content. What crosses stays in the memory of the one who asked, for as long as the
 * question takes. Times are those of CLOCK_MONOTONIC.
 */
#ifndef LIMELIGHT_RECORD_ABI_H
#define LIMELIGHT_RECORD_ABI_H

#include "int_types.h"

enum ll_stint_limits {
	LL_STINT_BUFFER_BYTES = 1 << 20,	/* 26,000 stints: those of a tenth of a second, at more switches than a CPU can do */
	LL_STINT_MAX_THREADS = 8192,		/* threads of the watched process that can be followed at once */
};

/* A thread of the watched process has been on a CPU. Writer: BPF, at the switch away from it. */
struct ll_stint {
	u64 woken_ns;	/* it was woken for this; 0: it had been preempted, or nobody saw it wake */
	u64 start_ns;	/* it came to the CPU */
	u64 end_ns;	/* and left it */
	u32 tid;	/* the thread */
	u32 slept;	/* 1: it went to sleep; 0: it wanted to run on */
};

_Static_assert(sizeof(struct ll_stint) == 32, "struct ll_stint crosses the boundary");

#endif /* LIMELIGHT_RECORD_ABI_H */
