// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include "gate.h"

#include "common.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

_Atomic uint32_t *gate_make(void)
{
	void *gate = mmap(NULL, sizeof(uint32_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (gate == MAP_FAILED)
		die_errno("cannot share memory to hold the processes back");
	return gate;
}

void gate_wait(_Atomic uint32_t *gate)
{
	while (!atomic_load(gate))
		syscall(SYS_futex, gate, FUTEX_WAIT, 0, NULL, NULL, 0);
}

void gate_open(_Atomic uint32_t *gate)
{
	atomic_store(gate, 1);
	syscall(SYS_futex, gate, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
