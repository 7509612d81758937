/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * When this thread was on a CPU, by the kernel's own records of its context switches (perf_event_open(2), PERF_RECORD_SWITCH): a thread that looks at
 * its clocks sees only when it runs, not what it had had by a time at which it did not.
 */
#ifndef LIMELIGHT_WORKLOADS_ON_CPU_H
#define LIMELIGHT_WORKLOADS_ON_CPU_H

#include <stdint.h>

/* CPU time in one period and in the next, which somebody who is late begins with what is left of the one before. */
struct on_cpu {
	uint64_t begins_ns, period_ns, ran_ns[2];
};

/* From now on the kernel records the caller's switches; dies where it cannot. */
void on_cpu_record(void);

/* Periods of so long, the first from `begins_ns` on: CPU time before that does not count. */
void on_cpu_begin(struct on_cpu *periods, uint64_t begins_ns, uint64_t period_ns);

/* How long the caller was on a CPU within this period, up to now; in ns. Records that were lost count as not having run. */
uint64_t on_cpu_ran_ns(struct on_cpu *periods);

/* The period that begins at `begins_ns` is the one that counts now. */
void on_cpu_next(struct on_cpu *periods, uint64_t begins_ns);

#endif
