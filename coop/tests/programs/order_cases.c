// SPDX-License-Identifier: MIT
/* In which order events run, and what callbacks may do to them. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "testing.h"

#define MANY 1000

/* What ran, by the number in `user`. */
static size_t seen[4 * MANY];
static size_t seen_count;

static void note(struct coop *coop, struct coop_event *event)
{
	(void)coop;
	CHECK(seen_count < ARRAY_SIZE(seen));
	seen[seen_count++] = (size_t)event->user;
}

static void *number(size_t value)
{
	return (void *)value;
}

CASE(due_timers_run_by_release,
     "Of 1,000 due timers, shuffled, 50 releases among them, the earliest release runs first, and equal ones as submitted: none is dropped, as "
     "section 2.1 of the paper promises.")
{
	static struct coop_event timers[MANY];
	struct coop *coop = new_coop();
	const uint64_t now = coop_now();

	for (size_t i = 0; i < MANY; i++) {
		timers[i] = timer_at(now - next_random() % 50, note, number(i));
		CHECK_EQ(coop_submit(coop, &timers[i]), 0);
	}
	CHECK_EQ(coop_run(coop), -ENOENT);
	CHECK_EQ(seen_count, MANY);
	for (size_t i = 1; i < MANY; i++) {
		const struct coop_event *a = &timers[seen[i - 1]], *b = &timers[seen[i]];

		CHECK(a->release < b->release || (a->release == b->release && a < b));
	}
	CHECK_EQ(coop_free(coop), 0);
}

CASE(what_is_left_after_cancels_is_in_order,
     "Half of 1,000 timers are taken back from anywhere in the queue; the others run by release.")
{
	static struct coop_event timers[MANY];
	struct coop *coop = new_coop();
	size_t left = MANY;

	for (size_t i = 0; i < MANY; i++) {
		timers[i] = timer_at(1 + next_random() % 1000000, note, number(i));
		CHECK_EQ(coop_submit(coop, &timers[i]), 0);
	}
	while (left > MANY / 2)
		left -= coop_cancel(coop, &timers[next_random() % MANY]) == 0;
	CHECK_EQ(coop_run(coop), -ENOENT);
	CHECK_EQ(seen_count, left);
	for (size_t i = 1; i < seen_count; i++)
		CHECK(timers[seen[i - 1]].release <= timers[seen[i]].release);
	CHECK_EQ(coop_free(coop), 0);
}

CASE(a_timer_is_never_early,
     "Twenty timers of 3 ms: not one runs before its release. How late they are is the machine's matter here, and not bounded.")
{
	struct coop *coop = new_coop();

	for (int i = 0; i < 20; i++) {
		struct coop_event timer = timer_at(coop_now() + 3 * MS, stop_now, NULL);

		CHECK_EQ(coop_submit(coop, &timer), 0);
		CHECK_EQ(coop_run(coop), 0);
		CHECK(coop_now() >= timer.release);
	}
	CHECK_EQ(coop_free(coop), 0);
}

CASE(best_effort_runs_by_user_virtual_time,
     "Of 1,000 best-effort events the least user virtual time runs first, and equal ones as submitted.")
{
	static struct coop_event events[MANY];
	struct coop *coop = new_coop();

	for (size_t i = 0; i < MANY; i++) {
		events[i] = best_effort_of(next_random() % 50, note, number(i));
		CHECK_EQ(coop_submit(coop, &events[i]), 0);
	}
	CHECK_EQ(coop_run(coop), -ENOENT);
	CHECK_EQ(seen_count, MANY);
	for (size_t i = 1; i < MANY; i++) {
		const struct coop_event *a = &events[seen[i - 1]], *b = &events[seen[i]];

		CHECK(a->user_virtual_time < b->user_virtual_time || (a->user_virtual_time == b->user_virtual_time && a < b));
	}
	CHECK_EQ(coop_free(coop), 0);
}

static uint64_t release_of_the_timer;
static int began_after_the_release;

static void piece(struct coop *coop, struct coop_event *event)
{
	if (coop_now() >= release_of_the_timer)
		began_after_the_release++;
	burn(200 * US);
	CHECK_EQ(coop_submit(coop, event), 0);
}

CASE(best_effort_waits_for_due_timers,
     "Beside endless best-effort work in pieces of 0.2 ms, at most one piece begins between a timer's release and the timer: the library looks at "
     "the clock before each, and the release may come between that look and the piece's own.")
{
	struct coop_event work[3], timer;
	struct coop *coop = new_coop();

	for (size_t i = 0; i < ARRAY_SIZE(work); i++) {
		work[i] = best_effort_of(i, piece, NULL);
		CHECK_EQ(coop_submit(coop, &work[i]), 0);
	}
	for (int i = 0; i < 20; i++) {
		began_after_the_release = 0;
		/* Anywhere in a pass. */
		release_of_the_timer = coop_now() + 3 * MS + next_random() % MS;
		timer = timer_at(release_of_the_timer, stop_now, NULL);
		CHECK_EQ(coop_submit(coop, &timer), 0);
		CHECK_EQ(coop_run(coop), 0);
		/* Between the library's look at the clock and the event's, the release may have come. */
		CHECK(began_after_the_release <= 1);
	}
	CHECK_EQ(coop_free(coop), 0);
	for (size_t i = 0; i < ARRAY_SIZE(work); i++)
		CHECK(work[i].owner == NULL);
}

/* Cancels the event in `user`. */
static void cancel_other(struct coop *coop, struct coop_event *event)
{
	CHECK_EQ(coop_cancel(coop, event->user), 0);
	CHECK_EQ(coop_cancel(coop, event->user), -ENOENT);
	CHECK_EQ(coop_cancel(coop, event), -ENOENT);
	note(coop, event);
}

CASE(a_callback_cancels,
     "A timer, a best-effort event and a ready descriptor each take another one away, which then does not run, though it was due, pending or "
     "already reported by the kernel; a second cancel, and one of the running event, give -ENOENT.")
{
	struct coop_event timer, timer_gone, work, work_gone, one, other;
	struct coop *coop = new_coop();
	int ends[2];

	CHECK_EQ(pipe(ends), 0);
	timer_gone = timer_at(2, note, NULL);
	timer = timer_at(1, cancel_other, &timer_gone);
	work_gone = best_effort_of(2, note, NULL);
	work = best_effort_of(1, cancel_other, &work_gone);
	/* Both are ready at once: whichever runs first takes the other away, though the kernel has reported it already. */
	const int copy = dup(ends[1]);
	one = descriptor_of(ends[1], POLLOUT, cancel_other, &other);
	other = descriptor_of(copy, POLLOUT, cancel_other, &one);
	struct coop_event *all[] = { &timer, &timer_gone, &work, &work_gone, &one, &other };
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		CHECK_EQ(coop_submit(coop, all[i]), 0);
	CHECK_EQ(coop_run(coop), -ENOENT);
	CHECK_EQ(seen_count, 3);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		CHECK_EQ(coop_cancel(coop, all[i]), -ENOENT);
	CHECK_EQ(coop_free(coop), 0);
}

static struct coop_event late;

static void submit_late(struct coop *coop, struct coop_event *event)
{
	note(coop, event);
	late = timer_at(2, note, number(2));
	CHECK_EQ(coop_submit(coop, &late), 0);
}

static void again_until_ten(struct coop *coop, struct coop_event *event)
{
	note(coop, event);
	event->user = number((size_t)event->user + 1);
	if ((size_t)event->user < 10)
		CHECK_EQ(coop_submit(coop, event), 0);
}

CASE(a_callback_submits,
     "A timer that is submitted by a timer, with a release before one that is due already, runs before that one; best-effort work that submits "
     "itself goes on after them.")
{
	struct coop_event first = timer_at(1, submit_late, number(1)), third = timer_at(3, note, number(3));
	struct coop_event work = best_effort_of(1, again_until_ten, number(4));
	struct coop *coop = new_coop();

	CHECK_EQ(coop_submit(coop, &work), 0);
	CHECK_EQ(coop_submit(coop, &third), 0);
	CHECK_EQ(coop_submit(coop, &first), 0);
	CHECK_EQ(coop_run(coop), -ENOENT);
	CHECK_EQ(seen_count, 9);
	for (size_t i = 0; i < seen_count; i++)
		CHECK_EQ(seen[i], i + 1);
	CHECK_EQ(coop_free(coop), 0);
}

static void always_due(struct coop *coop, struct coop_event *event)
{
	CHECK(++seen_count < 1000);
	CHECK_EQ(coop_submit(coop, event), 0);
}

CASE(an_always_due_timer_starves_no_descriptor,
     "A timer that submits itself as due runs at most twice before a ready descriptor does: a pass takes only the timers that were there when it "
     "began.")
{
	struct coop_event timer = timer_at(0, always_due, NULL), reader;
	struct coop *coop = new_coop();
	int ends[2];

	CHECK_EQ(pipe(ends), 0);
	CHECK_EQ(write(ends[1], "x", 1), 1);
	reader = descriptor_of(ends[0], POLLIN, stop_now, NULL);
	CHECK_EQ(coop_submit(coop, &timer), 0);
	CHECK_EQ(coop_submit(coop, &reader), 0);
	CHECK_EQ(coop_run(coop), 0);
	CHECK(seen_count <= 2);
	CHECK_EQ(coop_free(coop), 0);
}

static void stop_and_note(struct coop *coop, struct coop_event *event)
{
	note(coop, event);
	stop_now(coop, event);
}

CASE(stop_ends_after_this_event,
     "Three events that stop: each coop_run() runs exactly one, and a fourth call finds nothing (-ENOENT).")
{
	struct coop_event first = timer_at(1, stop_and_note, number(1)), second = timer_at(2, stop_and_note, number(2));
	struct coop_event work = best_effort_of(1, stop_and_note, number(3));
	struct coop *coop = new_coop();

	CHECK_EQ(coop_submit(coop, &first), 0);
	CHECK_EQ(coop_submit(coop, &second), 0);
	CHECK_EQ(coop_submit(coop, &work), 0);
	for (size_t i = 1; i <= 3; i++) {
		CHECK_EQ(coop_run(coop), 0);
		CHECK_EQ(seen_count, i);
		CHECK_EQ(seen[i - 1], i);
	}
	CHECK_EQ(coop_run(coop), -ENOENT);
	CHECK_EQ(coop_free(coop), 0);
}

static void free_itself(struct coop *coop, struct coop_event *event)
{
	note(coop, event);
	memset(event, 0xff, sizeof(*event));
	free(event);
}

CASE(an_event_is_the_callers_in_its_callback,
     "A callback of each kind overwrites and frees its event; nothing of the library looks at it again (the sanitized run proves it).")
{
	struct coop *coop = new_coop();
	int ends[2];

	CHECK_EQ(pipe(ends), 0);
	for (int i = 0; i < 3; i++) {
		struct coop_event *event = malloc(sizeof(*event));

		CHECK(event != NULL);
		*event = i == 0 ? timer_at(1, free_itself, NULL) : i == 1 ? best_effort_of(1, free_itself, NULL) :
								descriptor_of(ends[1], POLLOUT, free_itself, NULL);
		CHECK_EQ(coop_submit(coop, event), 0);
	}
	CHECK_EQ(coop_run(coop), -ENOENT);
	CHECK_EQ(seen_count, 3);
	CHECK_EQ(coop_free(coop), 0);
}

CASE(a_changed_release_counts_at_the_next_submit,
     "100 timers whose releases are overwritten while they wait still run in the order they were submitted with.")
{
	static struct coop_event timers[100];
	struct coop *coop = new_coop();

	for (size_t i = 0; i < ARRAY_SIZE(timers); i++) {
		timers[i] = timer_at(i + 1, note, number(i));
		CHECK_EQ(coop_submit(coop, &timers[i]), 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(timers); i++)
		timers[i].release = COOP_NEVER;
	CHECK_EQ(coop_run(coop), -ENOENT);
	for (size_t i = 0; i < ARRAY_SIZE(timers); i++)
		CHECK_EQ(seen[i], i);
	CHECK_EQ(coop_submit(coop, &timers[0]), -EINVAL);
	CHECK_EQ(coop_free(coop), 0);
}

/* CPU time of taking out and putting back one of `count` pending timers, on average. */
static double cost_ns(struct coop *coop, struct coop_event *timers, size_t count)
{
	const size_t rounds = 20000;
	struct timespec from, to;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
	for (size_t i = 0; i < rounds; i++) {
		struct coop_event *timer = &timers[next_random() % count];

		CHECK_EQ(coop_cancel(coop, timer), 0);
		timer->release = coop_now() + 3600 * 1000 * MS + next_random() % MS;
		CHECK_EQ(coop_submit(coop, timer), 0);
	}
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
	return ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) / (double)rounds;
}

CASE(a_hundred_thousand_timers,
     "Cancelling and submitting costs less than 30 times as much with 100,000 timers pending as with 100 (a logarithm makes it 2.5, caches up to "
     "10; a list would make it 1,000), and all of them then run in order.")
{
	const size_t few = 100, many = 100000;
	struct coop_event *timers = calloc(many, sizeof(*timers));
	struct coop *coop = new_coop();
	uint64_t last = 0;

	CHECK(timers != NULL);
	for (size_t i = 0; i < few; i++)
		CHECK_EQ((timers[i] = timer_at(coop_now() + 3600 * 1000 * MS, note, NULL), coop_submit(coop, &timers[i])), 0);
	const double cost_of_few = cost_ns(coop, timers, few);
	for (size_t i = few; i < many; i++)
		CHECK_EQ((timers[i] = timer_at(coop_now() + 3600 * 1000 * MS, note, NULL), coop_submit(coop, &timers[i])), 0);
	const double cost_of_many = cost_ns(coop, timers, many);
	fprintf(stderr, "cancel and submit: %.0f ns of %zu, %.0f ns of %zu\n", cost_of_few, few, cost_of_many, many);
	CHECK(cost_of_many < 30 * cost_of_few);

	/* All are due now, and come in order. */
	for (size_t i = 0; i < many; i++) {
		CHECK_EQ(coop_cancel(coop, &timers[i]), 0);
		timers[i] = timer_at(1 + next_random() % MS, stop_now, NULL);
		CHECK_EQ(coop_submit(coop, &timers[i]), 0);
	}
	for (size_t i = 0; i < many; i++) {
		uint64_t least = COOP_NEVER;

		/* A sample: looking for the least one every time is quadratic. */
		for (size_t j = 0; i % 10000 == 0 && j < many; j++)
			least = timers[j].owner && timers[j].release < least ? timers[j].release : least;
		CHECK(least == COOP_NEVER || least >= last);
		CHECK_EQ(coop_run(coop), 0);
		last = least == COOP_NEVER ? last : least;
	}
	CHECK_EQ(coop_run(coop), -ENOENT);
	CHECK_EQ(coop_free(coop), 0);
	free(timers);
}

CASE(no_memory_left,
     "With 4 MB of address space left, coop_submit() ends with -ENOMEM after 1,000 events or more, what was submitted before runs in order, and "
     "coop_new() gives -ENOMEM.")
{
	enum { ROOM = 400000 };
	static struct coop_event timers[ROOM];
	struct coop *coop = new_coop(), *none;
	struct rlimit limit;
	size_t count = 0;
	long pages = 0;
	FILE *sizes;

#ifdef __SANITIZE_ADDRESS__
	skip("the address sanitizer needs more address space than a limit can leave");
#endif
	sizes = fopen("/proc/self/statm", "r");
	CHECK(sizes && fscanf(sizes, "%ld", &pages) == 1);
	fclose(sizes);
	CHECK_EQ(getrlimit(RLIMIT_AS, &limit), 0);
	limit.rlim_cur = (rlim_t)(pages * sysconf(_SC_PAGESIZE) + (4 << 20));
	CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
	for (int error = 0; !error; count += !error) {
		CHECK(count < ROOM);
		timers[count] = timer_at(count + 1, note, number(count));
		error = coop_submit(coop, &timers[count]);
		CHECK(error == 0 || error == -ENOMEM);
	}
	CHECK(count >= 1000);
	CHECK(timers[count].owner == NULL);
	CHECK_EQ(coop_cancel(coop, &timers[count]), -ENOENT);
	/* What was there before is as it was. */
	for (size_t i = MANY; i < count; i++)
		CHECK_EQ(coop_cancel(coop, &timers[i]), 0);
	CHECK_EQ(coop_run(coop), -ENOENT);
	CHECK_EQ(seen_count, MANY);
	for (size_t i = 0; i < MANY; i++)
		CHECK_EQ(seen[i], i);
	CHECK_EQ(coop_free(coop), 0);
	while (malloc(1000))
		;
	while (malloc(16))
		;
	CHECK_EQ(coop_new(&none), -ENOMEM);
}
