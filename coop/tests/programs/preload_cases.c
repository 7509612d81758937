// SPDX-License-Identifier: MIT
/* What libcoop-preload.so says in the slots of a program that knows nothing of it. The program is its own daemon, and looks at its own slot. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "scheduler.h"
#include "testing.h"
#include "watcher.h"

static int wait_poll(const struct waiting *waiting, int timeout_ms)
{
	struct pollfd fds[] = { { .fd = waiting->pipe, .events = POLLIN }, { .fd = waiting->timer, .events = POLLIN } };

	return poll(fds, 2, timeout_ms);
}

static struct timespec *timespec_of(int timeout_ms, struct timespec *timeout)
{
	*timeout = (struct timespec){ .tv_sec = timeout_ms / 1000, .tv_nsec = timeout_ms % 1000 * 1000000L };
	return timeout_ms < 0 ? NULL : timeout;
}

static int wait_ppoll(const struct waiting *waiting, int timeout_ms)
{
	struct pollfd fds[] = { { .fd = waiting->pipe, .events = POLLIN }, { .fd = waiting->timer, .events = POLLIN } };
	struct timespec timeout;

	return ppoll(fds, 2, timespec_of(timeout_ms, &timeout), NULL);
}

static int fill(const struct waiting *waiting, fd_set *reads)
{
	FD_ZERO(reads);
	FD_SET(waiting->pipe, reads);
	if (waiting->timer >= 0)
		FD_SET(waiting->timer, reads);
	return (waiting->timer > waiting->pipe ? waiting->timer : waiting->pipe) + 1;
}

static int wait_select(const struct waiting *waiting, int timeout_ms)
{
	struct timeval timeout = { .tv_sec = timeout_ms / 1000, .tv_usec = timeout_ms % 1000 * 1000 };
	fd_set reads;
	const int count = fill(waiting, &reads);

	return select(count, &reads, NULL, NULL, timeout_ms < 0 ? NULL : &timeout);
}

static int wait_pselect(const struct waiting *waiting, int timeout_ms)
{
	struct timespec timeout;
	fd_set reads;
	const int count = fill(waiting, &reads);

	return pselect(count, &reads, NULL, NULL, timespec_of(timeout_ms, &timeout), NULL);
}

static int wait_epoll(const struct waiting *waiting, int timeout_ms)
{
	struct epoll_event event;

	return epoll_wait(waiting->set, &event, 1, timeout_ms);
}

static int wait_epoll_pwait(const struct waiting *waiting, int timeout_ms)
{
	struct epoll_event event;

	return epoll_pwait(waiting->set, &event, 1, timeout_ms, NULL);
}

static int wait_epoll_pwait2(const struct waiting *waiting, int timeout_ms)
{
	struct epoll_event event;
	struct timespec timeout;

	return epoll_pwait2(waiting->set, &event, 1, timespec_of(timeout_ms, &timeout), NULL);
}

static const struct way ways[] = {
	{ "poll", wait_poll },	     { "ppoll", wait_ppoll },		  { "select", wait_select },	       { "pselect", wait_pselect },
	{ "epoll_wait", wait_epoll }, { "epoll_pwait", wait_epoll_pwait }, { "epoll_pwait2", wait_epoll_pwait2 },
};

CASE(a_timeout_is_a_release,
     "In each of the seven calls the slot says 'sleeps' with the deadline of its timeout of 150 ms, not before the call's begin and 150 ms, nor"
     " after its end, no best-effort work, and group 0; afterwards it says 'runs'.")
{
	struct server *server = begin_timed();
	const struct waiting waiting = nothing();

	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		const uint64_t begin_ns = coop_now();
		const struct coop_request request = seen_while(&ways[i], &waiting, 150, 0);
		const uint64_t end_ns = coop_now();

		if (has_seen_nothing()) {
			i--;
			continue;
		}
		fprintf(stderr, "%s: release %lld us after the earliest\n", ways[i].name,
			(long long)(request.release_ns - begin_ns - 150 * MS) / 1000);
		CHECK_EQ(request.state, COOP_STATE_SLEEPS);
		CHECK(request.release_ns >= begin_ns + 150 * MS && request.release_ns <= end_ns);
		CHECK(request.user_virtual_time == COOP_ABI_NEVER);
		CHECK_EQ(request.gid, 0);
	}
	server_stop(server);
}

static struct timespec time_in(clockid_t clock, int ms)
{
	struct timespec when;

	CHECK_EQ(clock_gettime(clock, &when), 0);
	when.tv_nsec += ms % 1000 * (long)MS;
	when.tv_sec += ms / 1000 + when.tv_nsec / 1000000000;
	when.tv_nsec %= 1000000000;
	return when;
}

static int wait_condition(clockid_t clock, bool has_clock, int timeout_ms)
{
	const struct timespec end = time_in(clock, timeout_ms);
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_condattr_t attributes;
	pthread_cond_t condition;
	int error;

	CHECK_EQ(pthread_condattr_init(&attributes), 0);
	CHECK_EQ(pthread_condattr_setclock(&attributes, clock), 0);
	CHECK_EQ(pthread_cond_init(&condition, has_clock ? &attributes : NULL), 0);
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	/* It may be woken for nothing. */
	do
		error = has_clock ? pthread_cond_timedwait(&condition, &mutex, &end) : pthread_cond_clockwait(&condition, &mutex, clock, &end);
	while (!error);
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	return error == ETIMEDOUT ? 0 : -1;
}

static int wait_timed(const struct waiting *waiting, int timeout_ms)
{
	(void)waiting;
	return wait_condition(CLOCK_REALTIME, true, timeout_ms);
}

static int wait_timed_monotonic(const struct waiting *waiting, int timeout_ms)
{
	(void)waiting;
	return wait_condition(CLOCK_MONOTONIC, true, timeout_ms);
}

static int wait_clock(const struct waiting *waiting, int timeout_ms)
{
	(void)waiting;
	return wait_condition(CLOCK_REALTIME, false, timeout_ms);
}

static int wait_clock_monotonic(const struct waiting *waiting, int timeout_ms)
{
	(void)waiting;
	return wait_condition(CLOCK_MONOTONIC, false, timeout_ms);
}

static int wait_nanosleep(const struct waiting *waiting, int timeout_ms)
{
	struct timespec time;

	(void)waiting;
	return nanosleep(timespec_of(timeout_ms, &time), NULL);
}

static int wait_clock_nanosleep(const struct waiting *waiting, int timeout_ms)
{
	const struct timespec end = time_in(CLOCK_MONOTONIC, timeout_ms);

	(void)waiting;
	return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL);
}

static const struct way sleeps[] = {
	{ "timedwait", wait_timed }, { "timedwait, monotonic", wait_timed_monotonic }, { "clockwait", wait_clock },
	{ "clockwait, monotonic", wait_clock_monotonic }, { "nanosleep", wait_nanosleep }, { "clock_nanosleep", wait_clock_nanosleep },
};

CASE(a_sleep_is_a_release,
     "While pthread_cond_timedwait() and pthread_cond_clockwait(), by either clock, nanosleep() and clock_nanosleep() sleep for 150 ms the slot says"
     " 'sleeps' with the time at which that is over, not before the call's begin and 150 ms, nor after its end; the wall clock may be 1 ms"
     " off, for it is slewed.")
{
	struct server *server = begin_timed();
	const struct waiting waiting = nothing();

	for (size_t i = 0; i < ARRAY_SIZE(sleeps); i++) {
		const uint64_t begin_ns = coop_now();
		const struct coop_request request = seen_while(&sleeps[i], &waiting, 150, 0);
		const uint64_t end_ns = coop_now();

		if (has_seen_nothing()) {
			i--;
			continue;
		}
		fprintf(stderr, "%s: release %lld us after the earliest\n", sleeps[i].name,
			(long long)(request.release_ns - begin_ns - 150 * MS) / 1000);
		CHECK_EQ(request.state, COOP_STATE_SLEEPS);
		CHECK(request.release_ns + MS >= begin_ns + 150 * MS && request.release_ns <= end_ns + MS);
	}
	server_stop(server);
}

CASE(a_timer_in_the_set_is_a_release,
     "In each of the seven calls, with a timeout of 10 s or none, the release is the expiry of the timerfd among its descriptors, 300 ms ahead, or"
     " up to 100 ms earlier where the thread lost the CPU in between; one that is not among them, 150 ms ahead, is not.")
{
	struct server *server = begin_timed();
	const int elsewhere = new_timer(0);

	for (size_t i = 0; i < 2 * ARRAY_SIZE(ways); i++) {
		struct epoll_event interest = { .events = EPOLLIN };
		struct waiting waiting = nothing();
		const uint64_t expiry = coop_now() + 300 * MS;

		set_timer(elsewhere, coop_now() + 150 * MS);
		waiting.timer = new_timer(expiry);
		CHECK_EQ(epoll_ctl(waiting.set, EPOLL_CTL_ADD, waiting.timer, &interest), 0);
		const struct coop_request request = seen_while(&ways[i / 2], &waiting, i % 2 ? -1 : 10000, 1);

		if (has_seen_nothing()) {
			i--;
			continue;
		}
		fprintf(stderr, "%s: release %lld us after the expiry\n", ways[i / 2].name, (long long)(request.release_ns - expiry) / 1000);
		CHECK(request.release_ns <= expiry && request.release_ns + BUSY_NS >= expiry);
		close(waiting.timer);
		close(waiting.set);
	}
	server_stop(server);
}

/* What a poll() of a set says: two sets deep, as a loop in a loop has it. */
static struct coop_request seen_in_poll_of(int set, int result)
{
	const struct waiting waiting = { .pipe = set, .timer = -1 };

	(void)seen_while(&ways[0], &waiting, 450, result);
	CHECK(asleep.tid);
	return asleep;
}

CASE(timers_come_and_go,
     "A timerfd in a set in a set gives a poll() of 450 ms its release 200 ms ahead, or up to 100 ms earlier; not once it is disarmed, taken out"
     " of the set, or closed and its number that of another timer, which is not in the set, or of a pipe: then the release is the timeout's.")
{
	struct server *server = begin_timed();
	const struct waiting inner = nothing();
	struct epoll_event interest = { .events = EPOLLIN };
	const int outer = epoll_create(1), timer = new_timer(0);
	uint64_t expiry, begin_ns;

	CHECK_EQ(epoll_ctl(outer, EPOLL_CTL_ADD, inner.set, &interest), 0);
	CHECK_EQ(epoll_ctl(inner.set, EPOLL_CTL_ADD, timer, &interest), 0);
	expiry = coop_now() + 200 * MS;
	set_timer(timer, expiry);
	CHECK(seen_in_poll_of(outer, 1).release_ns <= expiry);
	CHECK(asleep.release_ns + BUSY_NS >= expiry);
	for (int way = 0; way < 4; way++) {
		begin_ns = coop_now();
		set_timer(timer, way ? begin_ns + 200 * MS : 0);
		switch (way) {
		case 1:
			CHECK_EQ(epoll_ctl(inner.set, EPOLL_CTL_DEL, timer, NULL), 0);
			break;
		case 2:
			CHECK_EQ(epoll_ctl(inner.set, EPOLL_CTL_ADD, timer, &interest), 0);
			close(timer);
			CHECK_EQ(new_timer(begin_ns + 200 * MS), timer);
			break;
		case 3:
			CHECK_EQ(epoll_ctl(inner.set, EPOLL_CTL_ADD, timer, &interest), 0);
			CHECK_EQ(dup2(inner.pipe, timer), timer);
		}
		CHECK(seen_in_poll_of(outer, 0).release_ns >= begin_ns + 450 * MS);
	}
	server_stop(server);
}

static void *poll_for_ever(void *data)
{
	struct pollfd one = { .fd = *(int *)data, .events = POLLIN };

	for (int i = 0; i < 3; i++)
		CHECK_EQ(poll(&one, 1, -1), 1);
	CHECK(!own_slot());
	return NULL;
}

CASE(who_never_has_a_timeout_has_no_slot,
     "A thread that only waits for descriptors takes no slot, however often it polls; one that has had a timeout says 'sleeps' with no release"
     " when it then waits for ever.")
{
	struct server *server = begin_timed();
	struct waiting waiting = nothing();
	pthread_t thread;
	int ends[2];

	CHECK_EQ(pipe(ends), 0);
	CHECK_EQ(write(ends[1], "x", 1), 1);
	CHECK_EQ(pthread_create(&thread, NULL, poll_for_ever, &ends[0]), 0);
	pthread_join(thread, NULL);
	/* Something is ready: it waits for ever, and not for long. */
	waiting.pipe = ends[0];
	const u64 call = watched->request.call;
	CHECK_EQ(wait_poll(&waiting, -1), 1);
	CHECK_EQ(watched->request.call, call + 1);
	CHECK(watched->request.release_ns == COOP_ABI_NEVER);
	server_stop(server);
}

CASE(a_call_that_does_not_wait_yields_when_its_turn_is_over,
     "poll() with timeout 0 yields where the scheduler's last answer is over, and only there: once, with the release of its last timeout and"
     " best-effort work; not while the slice lasts, nor when nobody has answered. So does one that was to wait, and did not.")
{
	struct server *server = begin_timed();
	struct pollfd none = { .fd = -1 };

	/* Nobody answers a sleep here but the test. */
	CHECK_EQ(poll(&none, 1, 0), 0);
	CHECK_EQ(yields, 0);
	/* A descriptor that is ready ends the sleep at once, and the release stays ahead. */
	for (int is_over = 0; is_over < 2; is_over++) {
		int ends[2];
		struct pollfd ready;

		CHECK_EQ(pipe(ends), 0);
		ready = (struct pollfd){ .fd = ends[0], .events = POLLIN };
		CHECK_EQ(write(ends[1], "x", 1), 1);
		watched->answer = (struct coop_answer){ .call = watched->request.call + 1, .release_ns = COOP_NEVER,
							.slice_end_ns = is_over ? 1 : COOP_NEVER - 1, .user_virtual_time = COOP_NEVER };
		CHECK_EQ(poll(&ready, 1, 3600 * 1000), 1);
		const u64 release_ns = watched->request.release_ns;
		answer_with(COOP_NEVER, COOP_NEVER - 1, COOP_NEVER, COOP_STANDING_GOOD);
		for (int i = 0; i < 3; i++)
			CHECK_EQ(poll(&none, 1, 0), 0);
		CHECK_EQ(yields, is_over);
		if (is_over) {
			CHECK_EQ(last_request.state, COOP_STATE_YIELDS);
			CHECK_EQ(last_request.release_ns, release_ns);
			CHECK_EQ(last_request.user_virtual_time, 0);
			/* Told that it is over, and then nothing: the scheduler has seen no sleep. */
			answer_with(COOP_NEVER, 1, COOP_NEVER, COOP_STANDING_GOOD);
			watched->answer = (struct coop_answer){ .call = watched->request.call + 1, .release_ns = COOP_NEVER,
								.slice_end_ns = 1, .user_virtual_time = COOP_NEVER };
			CHECK_EQ(poll(&ready, 1, 3600 * 1000), 1);
			CHECK_EQ(yields, 1);
			CHECK_EQ(poll(&ready, 1, 3600 * 1000), 1);
			CHECK_EQ(yields, 2);
		}
	}
	server_stop(server);
}

static void end_run(struct coop *coop, struct coop_event *event)
{
	(void)event;
	CHECK_EQ(coop_stop(coop), 0);
}

CASE(who_speaks_for_itself_is_left_alone,
     "A thread with a struct coop that sleeps in coop_run(), or in a poll() of its own beside coop_get_fd(), is one call a sleep: the library's;"
     " and coop_poll() likewise. Its promise is kept throughout.")
{
	struct server *server = begin_timed();
	struct coop *coop = new_coop();
	struct coop_event timer = timer_at(coop_now() + 20 * MS, end_run, NULL);
	struct pollfd one;
	u64 call;

	wait_until_kept(server);
	call = watched->request.call;
	/* The scheduler's answer to the sleep, or it would have been none. */
	watched->answer = (struct coop_answer){ .call = call + 1, .release_ns = COOP_NEVER, .slice_end_ns = COOP_NEVER, .user_virtual_time = COOP_NEVER };
	CHECK_EQ(coop_submit(coop, &timer), 0);
	CHECK_EQ(coop_run(coop), 0);
	CHECK_EQ(watched->request.call, call + 1);
	timer.release = coop_now() + 20 * MS;
	CHECK_EQ(coop_submit(coop, &timer), 0);
	one = (struct pollfd){ .fd = coop_get_fd(coop), .events = POLLIN };
	CHECK_EQ(watched->request.call, call + 2);
	CHECK_EQ(poll(&one, 1, 10000), 1);
	CHECK_EQ(watched->request.call, call + 2);
	CHECK_EQ(watched->request.release_ns, timer.release);
	CHECK_EQ(coop_dispatch(coop, 0), 1);
	CHECK_EQ(coop_free(coop), 0);
	call = watched->request.call;
	timer.release = coop_now() + 20 * MS;
	CHECK_EQ(coop_poll(7, &timer, NULL), 0);
	CHECK_EQ(watched->request.call, call + 1);
	CHECK_EQ(watched->request.gid, 7);
	server_stop(server);
}

CASE(a_sleep_of_ones_own_is_told,
     "coop_sleep_begin() writes the release and 'sleeps', coop_sleep_end() 'runs', and gives the earlier one of the answer's release and slice"
     " end; without a begin, or an answer, COOP_NEVER.")
{
	struct server *server = begin_timed();

	CHECK(coop_sleep_end() == COOP_NEVER);
	CHECK_EQ(coop_sleep_begin(4711), 0);
	CHECK_EQ(watched->request.release_ns, 4711);
	CHECK_EQ(watched->request.state, COOP_STATE_SLEEPS);
	watched->answer = (struct coop_answer){ .call = watched->request.call, .release_ns = 12, .slice_end_ns = 11, .user_virtual_time = COOP_NEVER };
	CHECK_EQ(coop_sleep_end(), 11);
	CHECK_EQ(coop_promise(), COOP_PROMISE_KEPT);
	CHECK_EQ(watched->request.state, COOP_STATE_RUNS);
	CHECK_EQ(coop_sleep_begin(COOP_NEVER), 0);
	CHECK(coop_sleep_end() == COOP_NEVER);
	server_stop(server);
}

/* This case again, as a program that counts whole milliseconds, or not: what that is is looked at when a program begins. */
static void begin_again(const char *name, const char *counts)
{
	const char *said = getenv("COOP_WHOLE_MS");

	if (said && !strcmp(said, counts))
		return;
	CHECK_EQ(setenv("COOP_WHOLE_MS", counts, 1), 0);
	execl("/proc/self/exe", "self", name, NULL);
	CHECK(!"execl() returned");
}

/* As an X server does it: the time in ms. */
static uint64_t cut_clock(clockid_t clock)
{
	struct timespec now;

	CHECK_EQ(clock_gettime(clock, &now), 0);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / MS;
}

CASE(a_program_that_counts_whole_ms_wakes_at_one,
     "With COOP_WHOLE_MS=1 a poll() or epoll_wait() of 1 to 7 ms after a reading of CLOCK_MONOTONIC, or of the coarse clock, from somewhere within a"
     " millisecond, has the beginning of that millisecond and the timeout as its release, or as a zero timeout none where the thread lost the CPU"
     " and that is over; when it returns the clock, cut, has reached it, 300 times of 300. The coarse clock does not lag behind.")
{
	struct server *server;
	struct waiting waiting;
	int told = 0;

	begin_again("a_program_that_counts_whole_ms_wakes_at_one", "1");
	server = begin_timed();
	waiting = nothing();
	for (int i = 0; i < 300; i++) {
		const clockid_t clock = i % 2 ? CLOCK_MONOTONIC : CLOCK_MONOTONIC_COARSE;
		const int timeout_ms = 1 + i % 7;
		const uint64_t end = coop_now() + next_random() % MS;
		u64 deadline_ms;

		while (coop_now() < end)
			;
		CHECK(cut_clock(CLOCK_MONOTONIC_COARSE) >= end / MS);
		deadline_ms = cut_clock(clock) + (u64)timeout_ms;
		CHECK_EQ((i % 4 < 2 ? wait_poll : wait_epoll)(&waiting, timeout_ms), 0);
		told += watched->request.release_ns == deadline_ms * MS;
		CHECK(cut_clock(CLOCK_MONOTONIC) >= deadline_ms);
	}
	fprintf(stderr, "%d of 300 were told\n", told);
	/* The others began when they were over. Half of them would have to be so long in coming, on a busy machine. */
	CHECK(told >= 150);
	server_stop(server);
}

CASE(a_reading_counts_for_one_wait,
     "With COOP_WHOLE_MS=1 a poll() of 3 ms lasts 3 ms at least where the clock was not read since the last wait, or only the wall clock was; with 0"
     " after a reading, too.")
{
	const char *counts = getenv("COOP_WHOLE_MS");

	if (!counts)
		begin_again("a_reading_counts_for_one_wait", "1");
	for (int i = 0; i < 100; i++) {
		uint64_t begin_ns;

		/* It is the test's own clock that is not to be a reading: it is read before the wait that takes it. */
		begin_ns = coop_now();
		if (strcmp(counts, "0"))
			CHECK_EQ(poll(NULL, 0, 1), 0);
		(void)cut_clock(CLOCK_REALTIME);
		CHECK_EQ(poll(NULL, 0, 3), 0);
		CHECK(coop_now() >= begin_ns + 3 * MS);
	}
	if (strcmp(counts, "0"))
		begin_again("a_reading_counts_for_one_wait", "0");
}
