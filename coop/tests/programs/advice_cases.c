// SPDX-License-Identifier: MIT
/* What the application scheduler makes of the scheduler's answers: the yields of section 3, and what no answer can spoil. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "scheduler.h"
#include "testing.h"

static int calls, timers_since_yield, begun_after_the_slice;
static u64 slice_end_ns;

static void count(struct coop *coop, struct coop_event *event)
{
	(void)coop;
	(void)event;
	calls++;
}

static void give_2_ms(void)
{
	/* It never yields early, and at most one event begins late: between the library's look at the clock and the event's. */
	CHECK(coop_now() >= slice_end_ns);
	CHECK(begun_after_the_slice <= 1);
	begun_after_the_slice = 0;
	slice_end_ns = coop_now() + 2 * MS;
	answer_with(COOP_NEVER, slice_end_ns, COOP_NEVER, COOP_STANDING_GOOD);
}

static void piece(struct coop *coop, struct coop_event *event)
{
	begun_after_the_slice += coop_now() >= slice_end_ns;
	burn(100 * US);
	CHECK_EQ(yields == 20 ? coop_stop(coop) : coop_submit(coop, event), 0);
}

CASE(it_yields_at_the_end_of_the_slice,
     "In 20 slices of 2 ms it yields never before a slice's end, and at most one event of 0.1 ms begins after it: between the library's look at "
     "the clock and the event's own.")
{
	struct server *server;
	struct coop *coop = begin_with_coop(&server);
	struct coop_event work = best_effort_of(1, piece, NULL);

	yields = 0;
	on_yield = give_2_ms;
	CHECK_EQ(coop_submit(coop, &work), 0);
	CHECK_EQ(coop_run(coop), 0);
	CHECK_EQ(coop_free(coop), 0);
	server_stop(server);
}

static void forget_timers(void)
{
	timers_since_yield = 0;
}

static void short_timer(struct coop *coop, struct coop_event *event)
{
	timers_since_yield++;
	event->release = coop_now() + MS;
	CHECK_EQ(coop_submit(coop, event), 0);
}

static void work_only_without_a_due_timer(struct coop *coop, struct coop_event *event)
{
	CHECK_EQ(timers_since_yield, 0);
	burn(50 * US);
	if (++calls == 200)
		CHECK_EQ(coop_stop(coop), 0);
	CHECK_EQ(coop_submit(coop, event), 0);
}

CASE(who_was_due_runs_its_timers_and_yields,
     "With every slice over before it begins, no best-effort event runs in a turn that was given for a due timer (section 3.2), and one in each "
     "turn that was not: 200 of them take 200 yields or more, and none starves.")
{
	struct server *server;
	struct coop *coop = begin_with_coop(&server);
	struct coop_event timer = timer_at(1, short_timer, NULL), work = best_effort_of(1, work_only_without_a_due_timer, NULL);

	on_yield = forget_timers;
	yields = 0;
	answer_with(0, 0, COOP_NEVER, COOP_STANDING_GOOD);
	CHECK_EQ(coop_submit(coop, &timer), 0);
	CHECK_EQ(coop_submit(coop, &work), 0);
	CHECK_EQ(coop_run(coop), 0);
	/* Though the slice is always over: one event each time it was given the CPU without being due. */
	CHECK(yields >= 200);
	CHECK_EQ(coop_free(coop), 0);
	server_stop(server);
}

static void stop_after_20(struct coop *coop, struct coop_event *event)
{
	CHECK_EQ(calls == 20 ? coop_stop(coop) : coop_submit(coop, event), 0);
}

CASE(it_yields_between_ready_descriptors,
     "With every slice over before it begins, of 20 descriptors that are ready one runs in each turn, and none twice.")
{
	struct server *server;
	struct coop *coop = begin_with_coop(&server);
	struct coop_event work = best_effort_of(1, stop_after_20, NULL), readers[20];

	submit_ready(coop, readers, ARRAY_SIZE(readers), count);
	answer_with(0, 0, COOP_NEVER, COOP_STANDING_GOOD);
	CHECK_EQ(coop_submit(coop, &work), 0);
	yields = 0;
	CHECK_EQ(coop_run(coop), 0);
	CHECK(yields >= 20);
	CHECK_EQ(coop_free(coop), 0);
	server_stop(server);
}

static int yields_at_timer, yields_at_reader;

static void note_first_timer(struct coop *coop, struct coop_event *event)
{
	if (!calls++)
		yields_at_timer = yields;
	CHECK_EQ(coop_submit(coop, event), 0);
}

static void note_reader(struct coop *coop, struct coop_event *event)
{
	(void)event;
	yields_at_reader = yields;
	CHECK_EQ(coop_stop(coop), 0);
}

CASE(due_timers_put_descriptors_off_once,
     "With every slice over before it begins, no ready descriptor runs in a turn that was given for a due timer, and one in the next, though a "
     "timer is due there, too.")
{
	struct server *server;
	struct coop *coop = begin_with_coop(&server);
	struct coop_event timer = timer_at(1, note_first_timer, NULL), reader;

	answer_with(0, 0, COOP_NEVER, COOP_STANDING_GOOD);
	submit_ready(coop, &reader, 1, note_reader);
	CHECK_EQ(coop_submit(coop, &timer), 0);
	calls = yields = 0;
	CHECK_EQ(coop_run(coop), 0);
	CHECK_EQ(yields_at_reader, yields_at_timer + 1);
	CHECK_EQ(coop_free(coop), 0);
	server_stop(server);
}

CASE(a_sleep_that_was_none_is_a_yield,
     "A loop with nothing to do but a descriptor that is ready does not sleep, so that the scheduler, which is told of sleeps by the kernel, hears "
     "nothing, and holds it to its last word: it yields once before that runs.")
{
	struct server *server;
	struct coop *coop = begin_with_coop(&server);
	struct coop_event reader;

	submit_ready(coop, &reader, 1, note_reader);
	yields = 0;
	CHECK_EQ(coop_run(coop), 0);
	CHECK_EQ(yields_at_reader, 1);
	CHECK_EQ(last_request.state, COOP_STATE_YIELDS);
	CHECK_EQ(coop_promise(), COOP_PROMISE_KEPT);
	CHECK_EQ(coop_free(coop), 0);
	server_stop(server);
}

static int yields_at[11];

static void note_yields(struct coop *coop, struct coop_event *event)
{
	(void)coop;
	yields_at[event->user_virtual_time] = yields;
}

CASE(it_yields_to_more_important_work_of_its_group,
     "Where the least user virtual time of the group is 5, events of 1 to 5 run in one go, and each later one after a yield of its own.")
{
	struct server *server;
	struct coop *coop = begin_with_coop(&server);
	struct coop_event work[11];

	answer_with(COOP_NEVER, COOP_NEVER, 5, COOP_STANDING_GOOD);
	CHECK_EQ(coop_set_group(coop, 77), 0);
	for (u64 i = 1; i <= 10; i++) {
		work[i] = best_effort_of(i, note_yields, NULL);
		CHECK_EQ(coop_submit(coop, &work[i]), 0);
	}
	yields = 0;
	CHECK_EQ(coop_run(coop), -ENOENT);
	CHECK_EQ(last_request.gid, 77);
	/* Those as important as the others' run in one go (but for the end of a period of 20 ms), the others one at a time. */
	CHECK(yields_at[5] <= 2);
	for (int i = 6; i <= 10; i++)
		CHECK(yields_at[i] > yields_at[i - 1] || i == 6);
	CHECK_EQ(last_request.user_virtual_time, 10);
	CHECK_EQ(coop_free(coop), 0);
	server_stop(server);
}

struct sleeper {
	struct coop_slot *slot;
	int wake_fd;
};

static void *answer_when_it_sleeps(void *data)
{
	const struct sleeper *sleeper = data;
	struct coop_slot *slot = sleeper->slot;

	while (__atomic_load_n(&slot->request.state, __ATOMIC_ACQUIRE) != COOP_STATE_SLEEPS)
		usleep(100);
	usleep(10000);
	last_request = slot->request;
	slot->answer.standing = COOP_STANDING_GOOD;
	__atomic_store_n(&slot->answer.call, last_request.call, __ATOMIC_RELEASE);
	CHECK_EQ(write(sleeper->wake_fd, "x", 1), 1);
	return NULL;
}

CASE(it_tells_what_it_sleeps_for,
     "A loop that sleeps for a timer in an hour says so, with its release and no best-effort work, does not yield, and hears the answer when a "
     "descriptor wakes it.")
{
	struct server *server;
	struct coop *coop = begin_with_coop(&server);
	struct coop_event timer = timer_at(coop_now() + 3600 * 1000 * MS, count, NULL), reader;
	struct sleeper sleeper = { .slot = own_slot() };
	pthread_t scheduler;
	int ends[2];

	CHECK_EQ(pipe(ends), 0);
	sleeper.wake_fd = ends[1];
	reader = descriptor_of(ends[0], POLLIN, stop_now, NULL);
	yields = 0;
	CHECK_EQ(pthread_create(&scheduler, NULL, answer_when_it_sleeps, &sleeper), 0);
	CHECK_EQ(coop_submit(coop, &timer), 0);
	CHECK_EQ(coop_submit(coop, &reader), 0);
	CHECK_EQ(coop_run(coop), 0);
	pthread_join(scheduler, NULL);
	CHECK_EQ(last_request.state, COOP_STATE_SLEEPS);
	CHECK_EQ(last_request.release_ns, timer.release);
	CHECK(last_request.user_virtual_time == COOP_ABI_NEVER);
	CHECK_EQ(yields, 0);
	CHECK_EQ(coop_promise(), COOP_PROMISE_KEPT);
	CHECK_EQ(coop_free(coop), 0);
	server_stop(server);
}

static void state_in_a_callback(struct coop *coop, struct coop_event *event)
{
	count(coop, event);
	CHECK_EQ(own_slot()->request.state, COOP_STATE_RUNS);
}

CASE(anothers_loop_sleeps_cooperatively,
     "With coop_get_fd() the slot says 'sleeps' with the earliest release whenever the other loop may sleep, 'runs' in callbacks and while there "
     "is best-effort work; what the scheduler answered meanwhile is heeded.")
{
	struct server *server;
	struct coop *coop = begin_with_coop(&server);
	struct coop_event timer = timer_at(coop_now() + 3600 * 1000 * MS, state_in_a_callback, NULL), sooner, work;
	struct coop_slot *slot = own_slot();

	CHECK_EQ(slot->request.state, COOP_STATE_RUNS);
	CHECK(coop_get_fd(coop) >= 0);
	CHECK_EQ(slot->request.state, COOP_STATE_SLEEPS);
	CHECK(slot->request.release_ns == COOP_ABI_NEVER);
	CHECK_EQ(coop_submit(coop, &timer), 0);
	CHECK_EQ(slot->request.release_ns, timer.release);
	sooner = timer_at(1, state_in_a_callback, NULL);
	CHECK_EQ(coop_submit(coop, &sooner), 0);
	CHECK_EQ(slot->request.release_ns, 1);
	CHECK_EQ(slot->request.state, COOP_STATE_SLEEPS);
	/* The scheduler answered while the other loop slept: there is time, so nothing is yielded. */
	slot->answer = (struct coop_answer){ .call = slot->request.call, .release_ns = COOP_NEVER, .slice_end_ns = COOP_NEVER,
					     .user_virtual_time = COOP_NEVER };
	yields = 0;
	CHECK_EQ(coop_dispatch(coop, 0), 1);
	CHECK_EQ(yields, 0);
	CHECK_EQ(coop_promise(), COOP_PROMISE_KEPT);
	CHECK_EQ(slot->request.state, COOP_STATE_SLEEPS);
	CHECK_EQ(slot->request.release_ns, timer.release);
	/* With best-effort work it will not sleep. */
	work = best_effort_of(1, state_in_a_callback, NULL);
	CHECK_EQ(coop_submit(coop, &work), 0);
	CHECK_EQ(slot->request.state, COOP_STATE_RUNS);
	CHECK_EQ(coop_dispatch(coop, 0), 1);
	CHECK_EQ(slot->request.state, COOP_STATE_SLEEPS);
	CHECK_EQ(calls, 2);
	CHECK_EQ(coop_free(coop), 0);
	CHECK_EQ(slot->request.state, COOP_STATE_RUNS);
	server_stop(server);
}

CASE(without_a_scheduler_due_timers_yield_to_nobody,
     "Without limelight a due timer runs before the thread yields, in coop_run() and beside another loop, for nobody would give the CPU back for "
     "it; best-effort work yields once a period of 20 ms.")
{
	struct coop *coop = new_coop();
	struct coop_event timer = timer_at(1, count, NULL), work = best_effort_of(1, count, NULL);

	/* In coop_run(), and beside another loop; the period of 20 ms is over each time. */
	CHECK_EQ(coop_submit(coop, &timer), 0);
	CHECK_EQ(coop_run(coop), -ENOENT);
	CHECK_EQ(yields, 0);
	CHECK(coop_get_fd(coop) >= 0);
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(coop_submit(coop, &timer), 0);
		usleep(30000);
		CHECK_EQ(coop_dispatch(coop, 0), 1);
		CHECK_EQ(yields, 0);
	}
	CHECK_EQ(coop_submit(coop, &work), 0);
	usleep(30000);
	CHECK_EQ(coop_dispatch(coop, 0), 1);
	CHECK_EQ(yields, 1);
	CHECK_EQ(coop_promise(), COOP_PROMISE_NONE);
	CHECK_EQ(coop_free(coop), 0);
}

#define MANY 200
#define ROUNDS 5
static int rounds[MANY];

static void one_round(struct coop *coop, struct coop_event *event)
{
	int *done = event->user;

	burn(5 * US);
	calls++;
	if (++*done < ROUNDS)
		CHECK_EQ(coop_submit(coop, event), 0);
}

static u64 last_release;

static void in_time(struct coop *coop, struct coop_event *event)
{
	count(coop, event);
	CHECK(coop_now() >= event->release);
	CHECK(event->release >= last_release);
	last_release = event->release;
}

static void read_one(struct coop *coop, struct coop_event *event)
{
	char byte;

	CHECK_EQ(event->revents & POLLIN, POLLIN);
	CHECK_EQ(read(event->fd, &byte, 1), 1);
	calls++;
	if (byte != 'z')
		CHECK_EQ(coop_submit(coop, event), 0);
}

static u64 any_value(void)
{
	const u64 values[] = { 0, 1, COOP_NEVER, COOP_NEVER - 1, coop_now(), coop_now() + MS, coop_now() - MS, 1ull << 63, next_random() };

	return values[next_random() % ARRAY_SIZE(values)];
}

static void answer_anything(void)
{
	answer_with(any_value(), any_value(), any_value(), (u32)next_random());
}

static atomic_bool scribble_on;

/* Writes over the whole page: header, tids, requests and answers. */
static void *scribble(void *data)
{
	volatile u64 *words = (volatile u64 *)shared;

	while (scribble_on) {
		for (size_t i = 0; i < 32 * COOP_CELL_BYTES / sizeof(u64); i++)
			words[i] = next_random();
		usleep(50);
	}
	return data;
}

static void no_answer_loses_an_event(bool is_scribbled)
{
	static struct coop_event timers[MANY], work[MANY];
	struct server *server;
	struct coop *coop = begin_with_coop(&server);
	struct coop_event reader;
	pthread_t vandal;
	int ends[2];

	CHECK_EQ(pipe(ends), 0);
	CHECK_EQ(write(ends[1], "abcdefgz", 8), 8);
	reader = descriptor_of(ends[0], POLLIN, read_one, NULL);
	CHECK_EQ(coop_submit(coop, &reader), 0);
	for (size_t i = 0; i < MANY; i++) {
		work[i] = best_effort_of(next_random() % 100, one_round, &rounds[i]);
		timers[i] = timer_at(coop_now() + next_random() % (30 * MS), in_time, NULL);
		CHECK_EQ(coop_submit(coop, &work[i]), 0);
		CHECK_EQ(coop_submit(coop, &timers[i]), 0);
	}
	on_yield = answer_anything;
	scribble_on = is_scribbled;
	if (is_scribbled)
		CHECK_EQ(pthread_create(&vandal, NULL, scribble, NULL), 0);
	CHECK_EQ(coop_run(coop), -ENOENT);
	CHECK_EQ(calls, MANY * ROUNDS + MANY + 8);
	scribble_on = false;
	if (is_scribbled)
		pthread_join(vandal, NULL);
	CHECK_EQ(coop_free(coop), 0);
	server_stop(server);
}

CASE(hostile_answers_lose_no_event,
     "With random answers (0, the past, never, garbage) 200 timers, 1,000 best-effort events and a pipe of 8 bytes all run, each once, no timer "
     "early or out of order.")
{
	no_answer_loses_an_event(false);
}

CASE(a_scribbled_page_loses_no_event,
     "The same while another thread overwrites the whole page with random words.")
{
	no_answer_loses_an_event(true);
}
