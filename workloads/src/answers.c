// SPDX-License-Identifier: GPL-2.0-only
/*
 * answers: cooperative threads that note what coop_poll() tells them, beside what the others have said, so that both numbers of every answer can be
 * compared with what should come out (cooperative polling, section 3.1). Each does what it is told: with best-effort work it runs until then,
 * without it sleeps until its timer.
 *
 *   answers [--seconds S] THREAD...
 *   THREAD is group=G,period-us=P,step=V,cpu=C: of group G (0: alone); a timer at each multiple of P us (0: none); best-effort work that is V more
 *   important steps further after each call (0: none); on CPU C only. They begin one after the other, each when the one before is believed.
 *
 * It prints for each thread what coop_promise_error() says at the end, and of each call that began to count: [time before, time after, own release,
 * earliest release of the others on its CPU, told release, least user virtual time of the others of its group on its CPU, told one, promise].
 *
 * What it is bad at: what others have said is read a moment after the answer. On one CPU nobody has run meanwhile but for who preempts a thread
 * that does as it is told.
 */
#include "common.h"

#include <coop.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 256
#define CALLS_KEPT 4000
/* Until a thread is believed, or goes on without. */
#define PATIENCE_NS (5 * NS_PER_S)
/* What a timer without other work takes, and work for which no time was told. */
#define EVENT_NS (NS_PER_MS / 20)
/* Nothing is noted of the time in which the first have ended. */
#define LEAVE_NS (NS_PER_S / 10)

static const char usage[] = "usage: answers [--seconds S] group=G,period-us=P,step=V,cpu=C...";

/* What a thread has said last. */
struct row {
	_Atomic uint64_t release, user_virtual_time, group;
	_Atomic int64_t cpu;
	_Atomic bool is_used;
};

struct call {
	uint64_t before_ns, after_ns, own, next, told, least, told_least, promise;
};

struct thread {
	uint64_t group, period_ns, step;
	int64_t cpu;
	size_t row, count;
	struct call calls[CALLS_KEPT];
	int error;
	_Atomic bool is_there;
	pthread_t id;
};

static struct row rows[ROWS];
static struct thread *threads;
static size_t thread_count;
static uint64_t seconds = 3;
static _Atomic uint64_t begin_ns = UINT64_MAX;

static uint64_t end_ns(void)
{
	const uint64_t begin = atomic_load(&begin_ns);

	return begin == UINT64_MAX ? begin : begin + seconds * NS_PER_S;
}

static uint64_t next_release(const struct thread *thread, uint64_t now)
{
	return thread->period_ns ? (now / thread->period_ns + 1) * thread->period_ns : COOP_NEVER;
}

static void say(const struct thread *thread, uint64_t release, uint64_t user_virtual_time)
{
	struct row *row = &rows[thread->row];

	row->release = release;
	row->user_virtual_time = user_virtual_time;
	row->group = thread->group;
	row->cpu = sched_getcpu();
	row->is_used = true;
}

/* What the others on this CPU have said. */
static void look_around(const struct thread *thread, struct call *call)
{
	const struct row *own = &rows[thread->row], *row;

	call->next = call->least = COOP_NEVER;
	for (row = rows; row < rows + ROWS; row++) {
		if (row == own || !row->is_used || row->cpu != own->cpu)
			continue;
		if (row->release < call->next)
			call->next = row->release;
		if (row->group && row->group == own->group && row->user_virtual_time < call->least)
			call->least = row->user_virtual_time;
	}
}

static void call_once(struct thread *thread, uint64_t user_virtual_time)
{
	struct call call = { .before_ns = coop_now() };
	struct coop_event work = { .type = COOP_BEST_EFFORT, .user_virtual_time = user_virtual_time };
	struct coop_event timer = { .type = COOP_TIMER, .release = next_release(thread, call.before_ns) };
	uint64_t until_ns;

	call.own = timer.release;
	say(thread, timer.release, user_virtual_time);
	coop_poll((uint32_t)thread->group, &timer, &work);
	call.after_ns = coop_now();
	look_around(thread, &call);
	call.told = timer.release;
	call.told_least = work.user_virtual_time;
	call.promise = coop_promise();
	if (call.before_ns >= atomic_load(&begin_ns) && call.after_ns < end_ns() - LEAVE_NS && thread->count < CALLS_KEPT)
		thread->calls[thread->count++] = call;
	until_ns = thread->step && call.told != COOP_NEVER ? call.told : call.after_ns + EVENT_NS;
	while (coop_now() < until_ns)
		burn_some();
}

static void stay_on(int64_t cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET((size_t)cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		die_errno("cannot stay on CPU %" PRId64, cpu);
}

static void *be_one(void *arg)
{
	struct thread *thread = arg;
	uint64_t user_virtual_time = thread->step ? 0 : COOP_NEVER;
	const uint64_t patience_ns = coop_now() + PATIENCE_NS;

	if (thread->cpu >= 0)
		stay_on(thread->cpu);
	while (coop_now() < end_ns()) {
		call_once(thread, user_virtual_time);
		if (thread->step)
			user_virtual_time += thread->step;
		if (coop_promise() != COOP_PROMISE_NONE || coop_now() > patience_ns)
			thread->is_there = true;
	}
	rows[thread->row].is_used = false;
	thread->error = coop_promise_error();
	return NULL;
}

static void read_thread(struct thread *thread, char *text)
{
	static char *const names[] = { "group", "period-us", "step", "cpu", NULL };
	char *value;

	thread->cpu = -1;
	while (*text) {
		const int name = getsubopt(&text, names, &value);

		if (name < 0 || !value)
			die_usage("%s", usage);
		switch (name) {
		case 0: thread->group = parse_number("group", value, 0, UINT32_MAX); break;
		case 1: thread->period_ns = parse_number("period-us", value, 0, 100000000) * NS_PER_US; break;
		case 2: thread->step = parse_number("step", value, 0, 1000000); break;
		default: thread->cpu = (int64_t)parse_number("cpu", value, 0, CPU_SETSIZE - 1); break;
		}
	}
	/* A call that says nothing is none. */
	if (!thread->period_ns && !thread->step)
		die_usage("a thread needs a period or a step");
}

static void read_options(int argc, char **argv)
{
	static const struct option names[] = {
		{ "seconds", required_argument, NULL, 's' }, { 0 },
	};
	int name;

	while ((name = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (name) {
		case 's': seconds = parse_number("--seconds", optarg, 1, 3600); break;
		default: die_usage("%s", usage);
		}
	}
	thread_count = (size_t)(argc - optind);
	if (!thread_count || thread_count > ROWS)
		die_usage("%s", usage);
	threads = calloc(thread_count, sizeof(*threads));
	if (!threads)
		die_errno("no memory for %zu threads", thread_count);
	for (size_t i = 0; i < thread_count; i++) {
		threads[i].row = i;
		read_thread(&threads[i], argv[optind + (int)i]);
	}
}

static void print_thread(const struct thread *thread)
{
	printf("{\"error\": %d, \"calls\": [", thread->error);
	for (const struct call *call = thread->calls; call < thread->calls + thread->count; call++)
		printf("%s[%" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64 "]",
		       call == thread->calls ? "" : ", ", call->before_ns, call->after_ns, call->own, call->next, call->told, call->least,
		       call->told_least, call->promise);
	fputs("]}", stdout);
}

int main(int argc, char **argv)
{
	read_options(argc, argv);
	for (size_t i = 0; i < thread_count; i++) {
		if (pthread_create(&threads[i].id, NULL, be_one, &threads[i]))
			die_usage("cannot start a thread");
		while (!threads[i].is_there)
			sleep_until_ns(now_ns() + NS_PER_MS);
	}
	atomic_store(&begin_ns, now_ns());
	for (size_t i = 0; i < thread_count; i++)
		pthread_join(threads[i].id, NULL);
	fputs("{\"threads\": [", stdout);
	for (size_t i = 0; i < thread_count; i++) {
		if (i)
			fputs(", ", stdout);
		print_thread(&threads[i]);
	}
	puts("]}");
	return 0;
}
