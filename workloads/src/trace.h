/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * From the kernel's scheduler trace points to distributions: dispatch latency, effective quanta, kinds of context switch.
 *
 * Words as in the design: dispatch latency is the time from sched_waking to the sched_switch that puts the task on a CPU;
 * an effective quantum is the time from that to the switch away, for whatever reason; a switch is voluntary when the task
 * could not have gone on (its state is not R).
 *
 * The depth of a wake-up is how often preemption was off in the code that woke the task, its own locks included (0x10 more in softirqs, and where
 * one interrupt came in another; of an interrupt it is that of the code it came in): where a task is woken on the CPU that it waits for, one of more
 * than the usual depth began where no scheduler could have helped it.
 */
#ifndef LIMELIGHT_WORKLOADS_TRACE_H
#define LIMELIGHT_WORKLOADS_TRACE_H

#include "common.h"

#define TRACE_GROUPS_MAX 64
#define TRACE_PID_MAX 4194304

struct trace_group {
	char name[32];
	struct samples dispatch;  /* waking to running */
	struct samples requeue;   /* preempted to running again */
	struct samples quantum;   /* running to switched away */
	struct samples began, ended; /* the times of those, where the trace keeps runs */
	struct samples depth;        /* of each of dispatch, where the trace keeps depths: what the wake-up interrupted */
	uint64_t voluntary, forced;
};

struct trace {
	struct trace_group groups[TRACE_GROUPS_MAX];
	unsigned group_count;
	struct trace_task *tasks; /* by pid */
	uint64_t lines, lost;
	uint64_t begin_ns, end_ns; /* samples that start outside are not counted */
	bool keeps_runs, keeps_depths;
};

void trace_init(struct trace *trace, uint64_t begin_ns, uint64_t end_ns);
/* Adds a group and returns its number. */
unsigned trace_add_group(struct trace *trace, const char *name);
/* From now on `pid` (a thread) is counted in `group`. */
void trace_follow(struct trace *trace, unsigned pid, unsigned group);
/* Takes one line of the text of tracefs's `trace`. Lines of other events are passed over; new threads are followed. */
void trace_line(struct trace *trace, const char *line);
/* Writes everything as one JSON object. */
void trace_write(FILE *out, const struct trace *trace);

#endif
