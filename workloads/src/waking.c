// SPDX-License-Identifier: GPL-2.0-only
/*
 * waking THREADS: one process of N threads, each of which sleeps for 1 to 3 s and then works for some microseconds, until it is killed: so each of
 * them comes to wait for the CPU. "ready" is printed once all have been started.
 */
#include "common.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define THREADS_MAX 20000
#define STACK_BYTES 32768
#define SLEEP_LEAST_NS (1 * NS_PER_S)
#define SLEEP_MOST_NS (3 * NS_PER_S)

static void *wake_again_and_again(void *number)
{
	struct random_state random;

	random_seed(&random, (uintptr_t)number);
	for (;;) {
		sleep_until_ns(now_ns() + random_between(&random, SLEEP_LEAST_NS, SLEEP_MOST_NS));
		burn_some();
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_attr_t attributes;
	pthread_t thread;
	uintptr_t threads, i;

	if (argc != 2)
		die_usage("usage: waking THREADS");
	threads = parse_number("THREADS", argv[1], 1, THREADS_MAX);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	for (i = 1; i <= threads; i++)
		if (pthread_create(&thread, &attributes, wake_again_and_again, (void *)i))
			die_errno("cannot make thread %ju of %ju", (uintmax_t)i, (uintmax_t)threads);
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}
