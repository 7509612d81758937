// SPDX-License-Identifier: GPL-2.0-only
/*
 * dueflood: cooperative threads that are due all the time, in one of two ways in which a program would try to be ahead of everybody for good
 * (design, promises 5 and 10).
 *
 *   dueflood THREADS MS   THREADS of them run, their releases long past. Each ends after MS ms of CPU, without giving back its slot, and a new one
 *                         takes its place: who is new has had nothing yet.
 *   dueflood THREADS 0    They sleep for good, until a time long past, as they say.
 *
 * It ends by SIGTERM, and prints how many threads there were, and how many limelight has kept a promise to.
 */
#include "page.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>

/* Below coop_slack, or each of them would be demoted at its first event. */
#define EVENT_NS (NS_PER_MS / 2)
/* The beginning of time: the longest past that there is. */
#define PAST_NS 1

static uint64_t life_ns;
static atomic_uint started, kept;

static void *be_due(void *arg);

static void start_one(void)
{
	pthread_attr_t attributes;
	pthread_t thread;

	started++;
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, 64 * 1024);
	if (pthread_create(&thread, &attributes, be_due, NULL))
		die_usage("cannot start a thread");
	pthread_attr_destroy(&attributes);
}

static void *be_due(void *arg)
{
	struct coop_event timer = { .type = COOP_TIMER };
	bool is_kept = false;

	(void)arg;
	while (life_ns && thread_cpu_ns() < life_ns) {
		timer.release = PAST_NS;
		coop_poll(0, &timer, NULL);
		is_kept |= coop_promise() == COOP_PROMISE_KEPT;
		burn_cpu_ns(EVENT_NS);
	}
	if (!life_ns) {
		coop_sleep_begin(PAST_NS);
		for (;;)
			pause();
	}
	kept += is_kept;
	start_one();
	/* Not by returning: libcoop would give the slot back. */
	syscall(SYS_exit, 0);
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		die_usage("usage: dueflood THREADS MS");
	const uint64_t threads = parse_number("THREADS", argv[1], 1, 200);
	life_ns = parse_number("MS", argv[2], 0, 10000) * NS_PER_MS;
	hold_end();
	wait_for_page();
	for (uint64_t i = 0; i < threads; i++)
		start_one();
	await_end();
	printf("{\"threads\": %u, \"kept\": %u}\n", started, kept);
	return 0;
}
