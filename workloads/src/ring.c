// SPDX-License-Identifier: GPL-2.0-only
/*
 * ring N H: what a context switch costs between N processes, as lmbench's lat_ctx measures it with nothing to touch: they pass a token round a ring
 * of pipes, H times in all, on one CPU, so that exactly one of them can run at any moment. What it takes one process to pass the token
 * through the same pipes is printed beside it: lmbench takes that away.
 */
#define _GNU_SOURCE
#include "common.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESSES_MAX 1000
#define SAMPLES 50
/* Until all wait for the token. */
#define SETTLE_NS (200 * NS_PER_MS)

static int pipes[PROCESSES_MAX][2];

static void take(uint64_t from)
{
	char token;

	if (read(pipes[from][0], &token, 1) != 1)
		_exit(0);
}

static void give(uint64_t to)
{
	const char token = 0;

	if (write(pipes[to][1], &token, 1) != 1)
		_exit(0);
}

static void start(uint64_t number, uint64_t count)
{
	if (!fork_one(number, count))
		return;
	for (;;) {
		take(number);
		give((number + 1) % count);
	}
}

/* ns per hop, of SAMPLES samples of `rounds` rounds each; alone, the caller does every hop itself. */
static void measure(uint64_t count, uint64_t rounds, bool alone, struct samples *cost)
{
	for (int sample = 0; sample < SAMPLES; sample++) {
		const uint64_t begin_ns = now_ns();

		for (uint64_t round = 0; round < rounds; round++) {
			for (uint64_t number = 1; alone && number < count; number++) {
				give(number);
				take(number);
			}
			give(alone ? 0 : 1 % count);
			take(0);
		}
		samples_add(cost, (now_ns() - begin_ns) / (rounds * count));
	}
}

int main(int argc, char **argv)
{
	struct samples pass = { 0 }, hop = { 0 };

	if (argc != 3)
		die_usage("usage: ring PROCESSES HOPS");
	const uint64_t count = parse_number("PROCESSES", argv[1], 2, PROCESSES_MAX);
	const uint64_t hops = parse_number("HOPS", argv[2], 1, 100000000);
	const uint64_t rounds = hops / SAMPLES / count ? hops / SAMPLES / count : 1;

	setpgid(0, 0);
	pin_to_one_cpu();
	for (uint64_t number = 0; number < count; number++)
		if (pipe(pipes[number]))
			die_errno("cannot make pipe %" PRIu64, number + 1);
	measure(count, rounds, true, &pass);
	for (uint64_t number = 1; number < count; number++)
		start(number, count);
	sleep_until_ns(now_ns() + SETTLE_NS);
	measure(count, rounds, false, &hop);
	printf("{\"source\": \"virtual-time stamps of the workload\", ");
	samples_write(stdout, "pass", &pass);
	fputs(", ", stdout);
	samples_write(stdout, "hop", &hop);
	puts("}");
	fflush(stdout);
	signal(SIGTERM, SIG_IGN);
	kill(0, SIGTERM);
	while (wait(NULL) > 0)
		;
	return 0;
}
