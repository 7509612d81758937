// SPDX-License-Identifier: GPL-2.0-only
/*
 * dueburst THREADS EVENT_US PERIOD_MS: threads in good standing that are all due at one moment of each period, and have so much to do then; none of
 * them runs on for too long. Together they are due for as long as all take (design, promise 10).
 *
 * It ends by SIGTERM, and prints how many events there were, and before how many limelight kept its promise.
 */
#include "page.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static uint64_t event_ns, period_ns;
static atomic_uint events, kept;

static void *be_due(void *arg)
{
	struct coop_event timer = { .type = COOP_TIMER };

	(void)arg;
	for (;;) {
		timer.release = (coop_now() / period_ns + 1) * period_ns;
		coop_poll(0, &timer, NULL);
		events++;
		kept += coop_promise() == COOP_PROMISE_KEPT;
		burn_cpu_ns(event_ns);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_attr_t attributes;
	pthread_t thread;

	if (argc != 4)
		die_usage("usage: dueburst THREADS EVENT_US PERIOD_MS");
	const uint64_t threads = parse_number("THREADS", argv[1], 1, 250);
	event_ns = parse_number("EVENT_US", argv[2], 1, 100000) * NS_PER_US;
	period_ns = parse_number("PERIOD_MS", argv[3], 1, 100000) * NS_PER_MS;
	hold_end();
	wait_for_page();
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 64 * 1024);
	for (uint64_t i = 0; i < threads; i++)
		if (pthread_create(&thread, &attributes, be_due, NULL))
			die_usage("cannot start a thread");
	await_end();
	printf("{\"events\": %u, \"kept\": %u}\n", events, kept);
	return 0;
}
