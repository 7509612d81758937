/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A gate: started processes wait at it until all are there.
 *
 * If the first ran at once, the thousandth would be forked minutes later, by a parent that gets a thousandth of the CPU. The gate is a word of
 * shared memory, not a pipe: readers of a pipe leave it one by one under its mutex, whose holder would wait for a turn among those that spin already.
 */
#ifndef LIMELIGHT_WORKLOADS_GATE_H
#define LIMELIGHT_WORKLOADS_GATE_H

#include <stdatomic.h>
#include <stdint.h>

/* A closed gate, shared with every process forked from now on; dies when there is no memory. */
_Atomic uint32_t *gate_make(void);
/* Waits until the gate is open. */
void gate_wait(_Atomic uint32_t *gate);
void gate_open(_Atomic uint32_t *gate);

#endif
