/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef LIMELIGHT_WORKLOADS_DEADLINE_H
#define LIMELIGHT_WORKLOADS_DEADLINE_H

#include <stdint.h>

/* Makes the caller a task of SCHED_DEADLINE that may run so long in each period, the first of which begins now; dies where that cannot be had. */
void become_of_deadline(uint64_t runtime_ns, uint64_t period_ns);

#endif
