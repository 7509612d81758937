// SPDX-License-Identifier: GPL-2.0-only
/*
 * busy N M: a fixed amount of work, M million steps in all, done by N processes that never give up the CPU by themselves, and how long it takes
 * until the last is done, from when all were let go. Whatever is more than with one process is what switching between them costs.
 */
#define _GNU_SOURCE
#include "common.h"
#include "gate.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define STEPS_PER_MILLION 1000000ULL
#define PROCESSES_MAX 20000
/* From the last fork until they are let go: each has been told apart by then as what it is. */
#define SETTLE_NS (200 * NS_PER_MS)

static void work(uint64_t steps)
{
	volatile uint64_t mix = 1;

	for (uint64_t i = 0; i < steps; i++)
		mix = mix * 6364136223846793005ULL + 1;
}

/* Context switches of the whole machine since it started. */
static uint64_t count_switches(void)
{
	FILE *file = fopen("/proc/stat", "r");
	unsigned long long count = 0;
	char *line = NULL;
	size_t room = 0;

	if (!file)
		die_errno("cannot read /proc/stat");
	while (getline(&line, &room, file) > 0)
		if (sscanf(line, "ctxt %llu", &count) == 1)
			break;
	free(line);
	fclose(file);
	return count;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		die_usage("usage: busy PROCESSES MILLIONS");
	const uint64_t count = parse_number("PROCESSES", argv[1], 1, PROCESSES_MAX);
	const uint64_t millions = parse_number("MILLIONS", argv[2], 1, 1000000);
	_Atomic uint32_t *gate = gate_make();

	for (uint64_t i = 0; i < count; i++) {
		if (!fork_one(i, count))
			continue;
		gate_wait(gate);
		work(millions * STEPS_PER_MILLION / count);
		_exit(0);
	}
	sleep_until_ns(now_ns() + SETTLE_NS);
	const uint64_t switches = count_switches(), begin_ns = now_ns();

	gate_open(gate);
	while (wait(NULL) > 0)
		;
	const uint64_t took_ns = now_ns() - begin_ns;
	printf("{\"source\": \"virtual-time stamps of the workload\", \"took_ns\": %" PRIu64 ", \"switches\": %" PRIu64 "}\n", took_ns,
	       count_switches() - switches);
	return 0;
}
