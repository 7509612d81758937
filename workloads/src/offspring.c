// SPDX-License-Identifier: GPL-2.0-only
/*
 * offspring: a cooperative program that has a child in the middle of an event, which plays on by itself, or becomes another program: so that what
 * limelight knows of a process and of its threads is another's all of a sudden.
 *
 *   offspring fork|exec|exec-thread PERIOD_US PART_MS SECONDS
 *
 * A timer every PERIOD_US us and best-effort events that could take all the CPU. PART_MS ms after its start, in a timer's callback, it forks; or it
 * executes itself anew, by the process's first thread or by another one, which has the first one's id then. All end SECONDS s after the first start.
 * For each of those there were it prints a line: what coop_run() said where it was a child, how long it took until a release was kept, and of the
 * timers due from then on how many were, and how late they were.
 */
#include "common.h"

#include <coop.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TIMER_US 200
#define EVENT_US 100
/* Who ends is not cooperative any more, and what it prints takes a while. */
#define LEAVE_NS (NS_PER_S / 10)
#define LINE_BYTES 65536

static const char usage[] = "usage: offspring fork|exec|exec-thread PERIOD_US PART_MS SECONDS";

static struct {
	const char *how, *name;
	uint64_t period_ns, part_ns, end_ns, start_ns, first_kept_ns, kept;
	struct coop_event timer, work;
	struct samples late;
	int after_fork; /* what coop_run() says in the child */
	bool is_child;
	pid_t child;
} life;

static void report(void)
{
	printf("{\"name\": \"%s\", \"pid\": %d, \"after_fork\": %d, \"until_kept_ns\": %" PRId64 ", \"kept\": %" PRIu64 ", ", life.name, (int)getpid(),
	       life.after_fork, life.first_kept_ns ? (int64_t)(life.first_kept_ns - life.start_ns) : -1, life.kept);
	samples_write(stdout, "late", &life.late);
	puts("}");
	fflush(stdout);
}

static void execute_anew(void)
{
	char period[24], end[24];

	report();
	snprintf(period, sizeof(period), "%" PRIu64, (uint64_t)(life.period_ns / NS_PER_US));
	snprintf(end, sizeof(end), "%" PRIu64, life.end_ns);
	execl("/proc/self/exe", "offspring", "go-on", period, "0", end, (char *)NULL);
	die_errno("cannot execute itself");
}

static void part(void)
{
	life.part_ns = UINT64_MAX;
	if (strcmp(life.how, "fork"))
		execute_anew();
	life.child = fork();
	if (life.child < 0)
		die_errno("cannot have a child");
	life.is_child = !life.child;
}

static void on_timer(struct coop *coop, struct coop_event *event)
{
	const uint64_t now = coop_now();
	const bool is_kept = coop_promise() == COOP_PROMISE_KEPT;

	if (is_kept && !life.first_kept_ns)
		life.first_kept_ns = now;
	/* What came due before was late for that. */
	if (life.first_kept_ns && event->release >= life.first_kept_ns && now < life.end_ns - LEAVE_NS) {
		samples_add(&life.late, now - event->release);
		life.kept += is_kept;
	}
	burn_us(TIMER_US, 0);
	event->release += life.period_ns;
	if (now >= life.part_ns)
		part();
	if (life.is_child)
		return;
	if (now > life.end_ns)
		coop_stop(coop);
	else if (coop_submit(coop, event))
		die_usage("cannot submit the timer");
}

static void on_work(struct coop *coop, struct coop_event *event)
{
	burn_us(EVENT_US, 0);
	event->user_virtual_time++;
	if (coop_submit(coop, event))
		die_usage("cannot submit the work");
}

static void begin_life(const char *name)
{
	life.name = name;
	life.start_ns = coop_now();
	life.first_kept_ns = life.kept = life.late.count = 0;
	life.timer = (struct coop_event){ .type = COOP_TIMER, .callback = on_timer, .release = life.start_ns + life.period_ns };
	life.work = (struct coop_event){ .type = COOP_BEST_EFFORT, .callback = on_work };
}

/* Returns what coop_run() did: 0 at the end of its time. */
static int live(void)
{
	struct coop *coop;
	int error;

	if (coop_new(&coop) || coop_submit(coop, &life.work) || coop_submit(coop, &life.timer))
		die_usage("%s cannot begin to be cooperative", life.name);
	error = coop_run(coop);
	if (coop_free(coop))
		die_usage("%s cannot end to be cooperative", life.name);
	return error;
}

static void *live_all(void *unused)
{
	int error;

	(void)unused;
	error = live();
	if (life.is_child) {
		life.is_child = false;
		life.after_fork = error;
		begin_life("child");
		error = live();
	}
	if (error)
		die_usage("%s cannot run: %s", life.name, strerror(-error));
	report();
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc != 5)
		die_usage("%s", usage);
	life.how = argv[1];
	life.period_ns = parse_number("PERIOD_US", argv[2], 1000, 10000000) * NS_PER_US;
	setvbuf(stdout, NULL, _IOFBF, LINE_BYTES);
	if (!strcmp(life.how, "go-on")) {
		life.part_ns = UINT64_MAX;
		life.end_ns = parse_number("its end", argv[4], 0, UINT64_MAX);
		begin_life("after");
	} else if (!strcmp(life.how, "fork") || !strcmp(life.how, "exec") || !strcmp(life.how, "exec-thread")) {
		begin_life(strcmp(life.how, "fork") ? "before" : "parent");
		life.part_ns = life.start_ns + parse_number("PART_MS", argv[3], 1, 1000000) * NS_PER_MS;
		life.end_ns = life.start_ns + parse_number("SECONDS", argv[4], 1, 3600) * NS_PER_S;
	} else {
		die_usage("%s", usage);
	}
	if (strcmp(life.how, "exec-thread"))
		live_all(NULL);
	else if (pthread_create(&thread, NULL, live_all, NULL) || pthread_join(thread, NULL))
		die_usage("cannot start a thread");
	if (life.child > 0)
		waitpid(life.child, NULL, 0);
	return 0;
}
