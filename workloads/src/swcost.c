// SPDX-License-Identifier: GPL-2.0-only
/*
 * swcost: what a scheduler costs, in time of one CPU.
 *
 *   wake    two processes on one CPU wake each other over pipes: per round two wake-ups and two context switches
 *   switch  two processes on one CPU yield to each other: per round two context switches, no wake-up
 *   exec    a child executes PROGRAM, and is waited for: per round one fork, execution and end
 *   crowd   no measurement: so many processes that sleep until this one ends, to be there while something is measured
 *
 * Where the laboratory measures, one instruction takes 2 ns of virtual time: ns / 2 are instructions. The same loops on the
 * kernel's scheduler give what belongs to the system calls, so a difference between schedulers is theirs alone.
 */
#define _GNU_SOURCE
#include "common.h"

#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Rounds per sample: long against the clock's own cost, short enough for a distribution. */
#define ROUNDS_PER_SAMPLE 100
/* An execution takes a hundred times as long as a switch. */
#define EXECS_PER_SAMPLE 10

static void pass(int in, int out)
{
	char token = 0;

	if (read(in, &token, 1) != 1 || write(out, &token, 1) != 1)
		_exit(0);
}

static void measure_wakes(uint64_t samples, struct samples *cost)
{
	int there[2], back[2];

	if (pipe(there) || pipe(back))
		die_errno("cannot make pipes");
	const pid_t child = fork();
	if (child < 0)
		die_errno("cannot start the other process");
	if (child == 0) {
		close(there[1]);
		for (;;)
			pass(there[0], back[1]);
	}
	char token = 0;
	for (uint64_t i = 0; i < samples; i++) {
		const uint64_t begin_ns = now_ns();

		for (int round = 0; round < ROUNDS_PER_SAMPLE; round++)
			if (write(there[1], &token, 1) != 1 || read(back[0], &token, 1) != 1)
				die_errno("the other process went away");
		samples_add(cost, (now_ns() - begin_ns) / (2 * ROUNDS_PER_SAMPLE));
	}
	close(there[1]);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static void measure_switches(uint64_t samples, struct samples *cost)
{
	const pid_t child = fork();

	if (child < 0)
		die_errno("cannot start the other process");
	while (child == 0)
		sched_yield();
	for (uint64_t i = 0; i < samples; i++) {
		const uint64_t begin_ns = now_ns();

		for (int round = 0; round < ROUNDS_PER_SAMPLE; round++)
			sched_yield();
		samples_add(cost, (now_ns() - begin_ns) / (2 * ROUNDS_PER_SAMPLE));
	}
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static void execute(char *program)
{
	char *const arguments[] = { program, NULL };
	int status = 0;
	const pid_t child = fork();

	if (child < 0)
		die_errno("cannot start a child");
	if (child == 0) {
		execv(program, arguments);
		_exit(127);
	}
	if (waitpid(child, &status, 0) != child || status)
		die_usage("%s did not succeed: status %#x", program, status);
}

static void measure_execs(uint64_t samples, char *program, struct samples *cost)
{
	/* What it needs from a disk is read then. */
	execute(program);
	for (uint64_t i = 0; i < samples; i++) {
		const uint64_t begin_ns = now_ns();

		for (int round = 0; round < EXECS_PER_SAMPLE; round++)
			execute(program);
		samples_add(cost, (now_ns() - begin_ns) / EXECS_PER_SAMPLE);
	}
}

static void crowd(uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		while (fork_one(i, count))
			pause();
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	struct samples cost = { 0 };
	const char *what = argc > 1 ? argv[1] : "";
	const bool is_exec = !strcmp(what, "exec");

	if (argc != (is_exec ? 4 : 3) || (!is_exec && strcmp(what, "wake") && strcmp(what, "switch") && strcmp(what, "crowd")))
		die_usage("usage: swcost wake|switch SAMPLES, swcost exec SAMPLES PROGRAM, or swcost crowd PROCESSES");
	const uint64_t count = parse_number("SAMPLES", argv[2], 1, 1000000);
	if (!strcmp(what, "crowd"))
		crowd(count);
	pin_to_one_cpu();
	if (is_exec)
		measure_execs(count, argv[3], &cost);
	else if (!strcmp(what, "wake"))
		measure_wakes(count, &cost);
	else
		measure_switches(count, &cost);
	printf("{\"source\": \"virtual-time stamps of the workload\", ");
	samples_write(stdout, "cost", &cost);
	puts("}");
	return 0;
}
