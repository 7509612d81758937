// SPDX-License-Identifier: MIT
/* As preload_cases.c, of read(2): a timerfd's is a sleep until that is due, and any other one is none of the preload's business. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "scheduler.h"
#include "testing.h"
#include "watcher.h"

/* What a program that was built with _FORTIFY_SOURCE calls. */
ssize_t __read_chk(int fd, void *buffer, size_t bytes, size_t room);

static int wait_read(const struct waiting *waiting, int timeout_ms)
{
	uint64_t times;

	(void)timeout_ms;
	return (int)read(waiting->timer, &times, sizeof(times));
}

static int wait_read_chk(const struct waiting *waiting, int timeout_ms)
{
	uint64_t times;

	(void)timeout_ms;
	return (int)__read_chk(waiting->timer, &times, sizeof(times), sizeof(times));
}

static const struct way reads[] = { { "read", wait_read }, { "__read_chk", wait_read_chk } };

static void *read_first(void *data)
{
	const struct waiting waiting = { .timer = new_timer(coop_now() + 5 * MS) };

	CHECK_EQ(wait_read(&waiting, 0), 8);
	CHECK(own_slot());
	CHECK_EQ(close(waiting.timer), 0);
	return data;
}

CASE(a_read_of_a_timer_is_a_release,
     "While a read() of a blocking timerfd that is due in 200 ms waits, by either name, the slot says 'sleeps' with that time, or up to 100 ms"
     " earlier where the thread lost the CPU in between; with none while nobody has set it. A thread that has had no timeout takes part by it.")
{
	struct server *server = begin_timed();
	pthread_t thread;

	for (size_t i = 0; i < 2 * ARRAY_SIZE(reads); i++) {
		const uint64_t expiry = coop_now() + 200 * MS;
		const struct waiting waiting = { .timer = new_timer(i % 2 ? 0 : expiry) };
		const pid_t child = i % 2 ? fork() : -1;

		/* Who sets it: a timer is one for both. */
		if (child == 0) {
			usleep(200000);
			set_timer(waiting.timer, 1);
			_exit(0);
		}
		const struct coop_request request = seen_while(&reads[i / 2], &waiting, 0, 8);

		CHECK_EQ(close(waiting.timer), 0);
		if (has_seen_nothing()) {
			i--;
			continue;
		}
		CHECK_EQ(request.state, COOP_STATE_SLEEPS);
		if (i % 2)
			CHECK(request.release_ns == COOP_ABI_NEVER);
		else
			CHECK(request.release_ns <= expiry && request.release_ns + BUSY_NS >= expiry && coop_now() >= expiry);
	}
	CHECK_EQ(pthread_create(&thread, NULL, read_first, NULL), 0);
	pthread_join(thread, NULL);
	server_stop(server);
}

CASE(a_read_that_waits_for_no_timer_says_nothing,
     "The slot is left alone by a read() of a pipe, of a timerfd that does not block, made so or become so, and of a pipe that has a timer's number.")
{
	struct server *server = begin_timed();
	struct waiting waiting = { .timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK) };
	const int blocking = new_timer(coop_now() + 3600 * 1000 * MS);
	const u64 call = watched->request.call;
	int ends[2];

	CHECK_EQ(pipe(ends), 0);
	CHECK_EQ(write(ends[1], "12345678abcdefghABCDEFGH", 24), 24);
	for (int i = 0; i < 5; i++) {
		switch (i) {
		case 1:
			waiting.timer = blocking;
			CHECK_EQ(fcntl(blocking, F_SETFL, O_NONBLOCK), 0);
			break;
		case 2:
			waiting.timer = ends[0];
			break;
		case 3:
			waiting.timer = dup2(ends[0], blocking);
			CHECK_EQ(waiting.timer, blocking);
		}
		errno = 0;
		CHECK_EQ(wait_read(&waiting, 0), i < 2 ? -1 : 8);
		CHECK_EQ(errno, i < 2 ? EAGAIN : 0);
	}
	CHECK_EQ(watched->request.call, call);
	server_stop(server);
}
