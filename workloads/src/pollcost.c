// SPDX-License-Identifier: GPL-2.0-only
/*
 * pollcost: what a call of coop_poll costs when it leads to no switch, and what that is made of. One thread, on one CPU, with nobody else who could
 * run.
 *
 *   yield   sched_yield() by a thread that the scheduler knows nothing special of
 *   known   the same by one that is registered, but says nothing
 *   poll    coop_poll() with a timer and a best-effort event, in good standing
 *   clock   coop_now()
 *   call    the least that a system call costs (getppid)
 *
 * Where the laboratory measures, one instruction takes 2 ns of virtual time.
 */
#include "common.h"

#include <coop.h>
#include <inttypes.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Calls per sample: long against the clock's own cost, short enough for a distribution. */
#define CALLS_PER_SAMPLE 100
/* Until there is a page. */
#define PATIENCE_NS (10 * NS_PER_S)
/* A timer that does not come due meanwhile. */
#define FAR_NS (3600 * NS_PER_S)

static void call_yield(void)
{
	sched_yield();
}

static void call_poll(void)
{
	struct coop_event timer = { .type = COOP_TIMER, .release = coop_now() + FAR_NS };
	struct coop_event work = { .type = COOP_BEST_EFFORT, .user_virtual_time = 1 };

	coop_poll(COOP_GROUP_SELF, &timer, &work);
}

static void call_clock(void)
{
	coop_now();
}

static void call_least(void)
{
	syscall(SYS_getppid);
}

static const struct {
	const char *name;
	void (*call)(void);
	bool is_registered;
} kinds[] = {
	{ "yield", call_yield, false }, { "known", call_yield, true },	 { "poll", call_poll, true },
	{ "clock", call_clock, false }, { "call", call_least, false },
};

/* False where no scheduler answers: then coop_poll() is a yield with something around it. */
static bool be_registered(void)
{
	const uint64_t until_ns = now_ns() + PATIENCE_NS;

	while (coop_promise() != COOP_PROMISE_KEPT && now_ns() < until_ns)
		call_poll();
	return coop_promise() == COOP_PROMISE_KEPT;
}

int main(int argc, char **argv)
{
	struct samples cost = { 0 };
	bool is_kept = false;
	size_t kind = 0;

	if (argc != 3)
		die_usage("usage: pollcost yield|known|poll|clock|call SAMPLES");
	while (kind < sizeof(kinds) / sizeof(*kinds) && strcmp(argv[1], kinds[kind].name))
		kind++;
	if (kind == sizeof(kinds) / sizeof(*kinds))
		die_usage("nothing is called '%s': use yield, known, poll, clock or call", argv[1]);
	const uint64_t count = parse_number("SAMPLES", argv[2], 1, 1000000);
	pin_to_one_cpu();
	if (kinds[kind].is_registered)
		is_kept = be_registered();
	for (uint64_t i = 0; i < count; i++) {
		const uint64_t begin_ns = now_ns();

		for (int call = 0; call < CALLS_PER_SAMPLE; call++)
			kinds[kind].call();
		samples_add(&cost, (now_ns() - begin_ns) / CALLS_PER_SAMPLE);
	}
	printf("{\"source\": \"virtual-time stamps of the workload\", \"kept\": %s, ", is_kept ? "true" : "false");
	samples_write(stdout, "cost", &cost);
	puts("}");
	return 0;
}
