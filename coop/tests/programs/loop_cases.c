// SPDX-License-Identifier: MIT
/* Descriptors, sleeping, other people's loops, errors, threads and fork, and coop_poll itself; all without limelight. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "testing.h"

static int calls;

static void count(struct coop *coop, struct coop_event *event)
{
	(void)coop;
	(void)event;
	calls++;
}

static void again(struct coop *coop, struct coop_event *event)
{
	calls++;
	burn(100 * US);
	CHECK_EQ(coop_submit(coop, event), 0);
}

static bool is_readable(int fd, int timeout_ms)
{
	struct pollfd one = { .fd = fd, .events = POLLIN };

	return poll(&one, 1, timeout_ms) == 1 && one.revents == POLLIN;
}

CASE(a_descriptor_runs_when_ready_and_once,
     "A pipe's event runs only when there is something to read, once per submission, says for what (POLLIN, then POLLHUP), and runs again for what"
     " was not read.")
{
	struct coop *coop = new_coop();
	struct coop_event reader;
	int ends[2];

	CHECK_EQ(pipe(ends), 0);
	reader = descriptor_of(ends[0], POLLIN, count, NULL);
	CHECK_EQ(coop_submit(coop, &reader), 0);
	CHECK_EQ(coop_dispatch(coop, 0), 0);
	CHECK_EQ(write(ends[1], "x", 1), 1);
	CHECK_EQ(coop_dispatch(coop, -1), 1);
	CHECK_EQ(reader.revents, POLLIN);
	CHECK_EQ(coop_dispatch(coop, 0), 0);
	/* What was not read is there still. */
	CHECK_EQ(coop_submit(coop, &reader), 0);
	CHECK_EQ(coop_dispatch(coop, -1), 1);
	/* The other end's closing comes unasked. */
	CHECK_EQ(read(ends[0], &(char){ 0 }, 1), 1);
	CHECK_EQ(coop_submit(coop, &reader), 0);
	CHECK_EQ(coop_dispatch(coop, 0), 0);
	close(ends[1]);
	CHECK_EQ(coop_dispatch(coop, -1), 1);
	CHECK_EQ(reader.revents, POLLHUP);
	CHECK_EQ(calls, 3);
	CHECK_EQ(coop_free(coop), 0);
}

static void *write_later(void *data)
{
	usleep(20000);
	CHECK_EQ(write(*(int *)data, "x", 1), 1);
	return NULL;
}

CASE(a_descriptor_wakes_a_sleeping_loop,
     "A loop that sleeps for a timer in an hour runs when another thread writes into a pipe.")
{
	struct coop *coop = new_coop();
	struct coop_event reader, timer = timer_at(coop_now() + 3600 * 1000 * MS, count, NULL);
	pthread_t writer;
	int ends[2];

	CHECK_EQ(pipe(ends), 0);
	reader = descriptor_of(ends[0], POLLIN, stop_now, NULL);
	CHECK_EQ(coop_submit(coop, &reader), 0);
	CHECK_EQ(coop_submit(coop, &timer), 0);
	CHECK_EQ(pthread_create(&writer, NULL, write_later, &ends[1]), 0);
	CHECK_EQ(coop_run(coop), 0);
	CHECK_EQ(calls, 0);
	pthread_join(writer, NULL);
	CHECK_EQ(coop_free(coop), 0);
}

CASE(more_descriptors_than_one_pass_takes,
     "200 ready descriptors all run, once each, though the kernel is asked for 32 at a time.")
{
	static struct coop_event readers[200];
	struct coop *coop = new_coop();

	submit_ready(coop, readers, ARRAY_SIZE(readers), count);
	CHECK_EQ(coop_run(coop), -ENOENT);
	CHECK_EQ(calls, ARRAY_SIZE(readers));
	CHECK_EQ(coop_free(coop), 0);
}

CASE(best_effort_starves_no_descriptor,
     "Endless best-effort work in pieces of 0.1 ms: a pass runs at most 11 of them (1 ms and one more), so a ready descriptor waits no longer.")
{
	struct coop *coop = new_coop();
	struct coop_event work = best_effort_of(1, again, NULL), reader;
	int ends[2];

	CHECK_EQ(pipe(ends), 0);
	CHECK_EQ(write(ends[1], "x", 1), 1);
	reader = descriptor_of(ends[0], POLLIN, stop_now, NULL);
	CHECK_EQ(coop_submit(coop, &work), 0);
	CHECK(coop_dispatch(coop, 0) > 0);
	CHECK(calls <= 11);
	calls = 0;
	CHECK_EQ(coop_submit(coop, &reader), 0);
	CHECK_EQ(coop_run(coop), 0);
	CHECK(calls <= 11);
	CHECK_EQ(coop_free(coop), 0);
}

CASE(the_fd_is_readable_when_there_is_something_to_run,
     "coop_get_fd()'s descriptor is readable from a timer's release, from a descriptor's readiness, or as soon as there is best-effort work, until"
     " it has run or was taken back, and at no other time.")
{
	struct coop *coop = new_coop();
	struct coop_event timer = timer_at(coop_now() + 20 * MS, count, NULL), work = best_effort_of(1, count, NULL), reader;
	const int fd = coop_get_fd(coop);
	int ends[2];

	CHECK_EQ(pipe(ends), 0);
	CHECK(fd >= 0 && fd == coop_get_fd(coop));
	CHECK(!is_readable(fd, 0));
	/* A timer: not before its release, then until it has run. */
	CHECK_EQ(coop_submit(coop, &timer), 0);
	if (!is_readable(fd, 0))
		CHECK(is_readable(fd, 10000));
	CHECK(coop_now() >= timer.release);
	CHECK(is_readable(fd, 0));
	CHECK_EQ(coop_dispatch(coop, 0), 1);
	CHECK(!is_readable(fd, 0));
	/* One that is due already, even since the beginning of time; and one that is taken back. */
	timer.release = 0;
	CHECK_EQ(coop_submit(coop, &timer), 0);
	CHECK(is_readable(fd, 0));
	CHECK_EQ(coop_cancel(coop, &timer), 0);
	CHECK(!is_readable(fd, 0));
	/* Best-effort work: at once. */
	CHECK_EQ(coop_submit(coop, &work), 0);
	CHECK(is_readable(fd, 0));
	CHECK_EQ(coop_dispatch(coop, 0), 1);
	CHECK(!is_readable(fd, 0));
	/* A descriptor. */
	reader = descriptor_of(ends[0], POLLIN, count, NULL);
	CHECK_EQ(coop_submit(coop, &reader), 0);
	CHECK(!is_readable(fd, 0));
	CHECK_EQ(write(ends[1], "x", 1), 1);
	CHECK(is_readable(fd, 0));
	CHECK_EQ(coop_dispatch(coop, 0), 1);
	CHECK(!is_readable(fd, 0));
	CHECK_EQ(coop_free(coop), 0);
}

static void ignore(int signal)
{
	(void)signal;
}

/* A signal every 5 ms, whose handler asks for system calls to be restarted. */
static void begin_signals(void)
{
	const struct sigaction action = { .sa_handler = ignore, .sa_flags = SA_RESTART };
	const struct itimerval every = { .it_interval.tv_usec = 5000, .it_value.tv_usec = 5000 };

	CHECK_EQ(sigaction(SIGALRM, &action, NULL), 0);
	CHECK_EQ(setitimer(ITIMER_REAL, &every, NULL), 0);
}

CASE(dispatch_waits_as_long_as_told,
     "coop_dispatch() with 0 does not wait, with 10 ms waits 10 ms, for ever with nothing submitted is -ENOENT, and a signal ends it with 0 "
     "events; coop_run() goes on in spite of signals.")
{
	struct coop *coop = new_coop();
	struct coop_event timer = timer_at(coop_now() + 30 * MS, count, NULL);
	const uint64_t begin = coop_now();

	CHECK_EQ(coop_dispatch(coop, 0), 0);
	CHECK_EQ(coop_dispatch(coop, -1), -ENOENT);
	CHECK_EQ(coop_dispatch(coop, 10 * MS), 0);
	CHECK(coop_now() >= begin + 10 * MS);
	CHECK_EQ(coop_submit(coop, &timer), 0);
	CHECK_EQ(coop_dispatch(coop, INT64_MAX), 1);
	CHECK(coop_now() >= timer.release);
	begin_signals();
	timer.release = coop_now() + 3600 * 1000 * MS;
	CHECK_EQ(coop_submit(coop, &timer), 0);
	CHECK_EQ(coop_dispatch(coop, -1), 0);
	timer.release = coop_now() + 30 * MS;
	CHECK_EQ(coop_cancel(coop, &timer), 0);
	timer.callback = stop_now;
	CHECK_EQ(coop_submit(coop, &timer), 0);
	CHECK_EQ(coop_run(coop), 0);
	CHECK(coop_now() >= timer.release);
	CHECK_EQ(coop_free(coop), 0);
}

static void call_what_is_forbidden(struct coop *coop, struct coop_event *event)
{
	struct coop *second;

	(void)event;
	CHECK_EQ(coop_run(coop), -EBUSY);
	CHECK_EQ(coop_dispatch(coop, 0), -EBUSY);
	CHECK_EQ(coop_free(coop), -EBUSY);
	CHECK_EQ(coop_new(&second), -EBUSY);
	calls++;
}

static void check_submit_errors(struct coop *coop)
{
	struct coop_event timer = timer_at(1, count, NULL), work = best_effort_of(1, count, NULL), reader, again_reader;
	int ends[2];

	CHECK_EQ(pipe(ends), 0);
	CHECK_EQ(coop_submit(coop, NULL), -EINVAL);
	CHECK_EQ(coop_submit(NULL, &timer), -EINVAL);
	CHECK_EQ(coop_submit(coop, &timer), 0);
	CHECK_EQ(coop_submit(coop, &timer), -EBUSY);
	CHECK_EQ(coop_cancel(coop, &timer), 0);
	timer.release = COOP_NEVER;
	CHECK_EQ(coop_submit(coop, &timer), -EINVAL);
	timer = timer_at(1, NULL, NULL);
	CHECK_EQ(coop_submit(coop, &timer), -EINVAL);
	work.user_virtual_time = COOP_NEVER;
	CHECK_EQ(coop_submit(coop, &work), -EINVAL);
	work.type = 0;
	CHECK_EQ(coop_submit(coop, &work), -EINVAL);
	work.type = 4;
	CHECK_EQ(coop_submit(coop, &work), -EINVAL);
	reader = descriptor_of(ends[0], 0, count, NULL);
	CHECK_EQ(coop_submit(coop, &reader), -EINVAL);
	reader.events = POLLIN | 0x8000;
	CHECK_EQ(coop_submit(coop, &reader), -EINVAL);
	reader.events = POLLIN;
	reader.fd = -1;
	CHECK_EQ(coop_submit(coop, &reader), -EBADF);
	reader.fd = open("/proc/self/exe", O_RDONLY);
	CHECK_EQ(coop_submit(coop, &reader), -EOPNOTSUPP);
	reader.fd = ends[0];
	CHECK_EQ(coop_submit(coop, &reader), 0);
	again_reader = descriptor_of(ends[0], POLLIN, count, NULL);
	CHECK_EQ(coop_submit(coop, &again_reader), -EEXIST);
	CHECK_EQ(coop_cancel(coop, &again_reader), -ENOENT);
	CHECK_EQ(coop_cancel(coop, &reader), 0);
	CHECK_EQ(coop_submit(coop, &again_reader), 0);
	CHECK_EQ(coop_cancel(coop, &again_reader), 0);
}

CASE(every_wrong_call_has_its_error,
     "Each error code of the header is what its wrong call gets, and the right call after it still works.")
{
	struct coop *coop = new_coop(), *second;
	struct coop_event timer = timer_at(1, call_what_is_forbidden, NULL), work = best_effort_of(1, count, NULL);

	CHECK_EQ(coop_new(NULL), -EINVAL);
	CHECK_EQ(coop_new(&second), -EBUSY);
	CHECK_EQ(coop_run(coop), -ENOENT);
	CHECK_EQ(coop_stop(coop), -ENOENT);
	check_submit_errors(coop);
	CHECK_EQ(coop_cancel(coop, NULL), -EINVAL);
	CHECK_EQ(coop_submit(coop, &timer), 0);
	CHECK_EQ(coop_run(coop), -ENOENT);
	CHECK_EQ(calls, 1);
	CHECK_EQ(coop_run(NULL), -EINVAL);
	CHECK_EQ(coop_stop(NULL), -EINVAL);
	CHECK_EQ(coop_get_fd(NULL), -EINVAL);
	CHECK_EQ(coop_dispatch(NULL, 0), -EINVAL);
	CHECK_EQ(coop_set_group(NULL, 1), -EINVAL);
	CHECK_EQ(coop_set_group(coop, 7), 0);
	CHECK_EQ(coop_free(NULL), 0);

	CHECK_EQ(coop_poll(0, NULL, NULL), -EINVAL);
	CHECK_EQ(coop_poll(0, &work, NULL), -EINVAL);
	CHECK_EQ(coop_poll(0, NULL, &timer), -EINVAL);
	timer.release = COOP_NEVER;
	CHECK_EQ(coop_poll(0, &timer, NULL), -EINVAL);
	work.user_virtual_time = COOP_NEVER;
	CHECK_EQ(coop_poll(0, &timer, &work), -EINVAL);
	CHECK_EQ(coop_free(coop), 0);
}

CASE(poll_sleeps_until_the_release_or_yields,
     "coop_poll() without a scheduler: sleeps until the release, not shorter; returns long before a release in an hour with best-effort work; says"
     " COOP_NEVER for what it does not know; -EINTR by a signal even where the handler asks for a restart.")
{
	struct coop_event timer = timer_at(coop_now() + 20 * MS, NULL, NULL), work = best_effort_of(3, NULL, NULL);
	uint64_t release = timer.release;

	CHECK_EQ(coop_promise(), COOP_PROMISE_NONE);
	CHECK_EQ(coop_poll(0, &timer, NULL), 0);
	CHECK(coop_now() >= release);
	CHECK(timer.release == COOP_NEVER);
	/* With best-effort work it comes back long before the hour is over. */
	timer.release = coop_now() + 3600 * 1000 * MS;
	CHECK_EQ(coop_poll(5, &timer, &work), 0);
	CHECK(timer.release == COOP_NEVER && work.user_virtual_time == COOP_NEVER);
	timer.release = 0;
	CHECK_EQ(coop_poll(0, &timer, NULL), 0);
	begin_signals();
	release = timer.release = coop_now() + 3600 * 1000 * MS;
	CHECK_EQ(coop_poll(0, &timer, NULL), -EINTR);
	CHECK(coop_now() < release);
	CHECK_EQ(coop_promise(), COOP_PROMISE_NONE);
}

static void poll_in_a_callback(struct coop *coop, struct coop_event *event)
{
	struct coop_event timer = timer_at(coop_now() + 5 * MS, NULL, NULL);

	count(coop, event);
	CHECK_EQ(coop_poll(0, &timer, NULL), 0);
}

CASE(poll_leaves_the_loop_its_timers,
     "A callback that sleeps by coop_poll() for a while does not disturb the timers of the loop it runs in.")
{
	struct coop *coop = new_coop();
	struct coop_event first = timer_at(coop_now() + 5 * MS, poll_in_a_callback, NULL), second = timer_at(coop_now() + 20 * MS, stop_now, NULL);

	CHECK_EQ(coop_submit(coop, &first), 0);
	CHECK_EQ(coop_submit(coop, &second), 0);
	CHECK_EQ(coop_run(coop), 0);
	CHECK_EQ(calls, 1);
	CHECK(coop_now() >= second.release);
	CHECK_EQ(coop_free(coop), 0);
}

CASE(poll_leaves_an_outer_loop_its_timer,
     "Where somebody else's loop waits for coop_get_fd(), a coop_poll() of the thread's in between does not disturb it: it is readable when the timer"
     " is due.")
{
	struct coop *coop = new_coop();
	struct coop_event timer = timer_at(coop_now() + 20 * MS, stop_now, NULL), own = { .type = COOP_TIMER, .release = coop_now() + 5 * MS };
	struct pollfd outer = { .fd = coop_get_fd(coop), .events = POLLIN };

	CHECK_EQ(coop_submit(coop, &timer), 0);
	CHECK_EQ(coop_poll(0, &own, NULL), 0);
	CHECK_EQ(poll(&outer, 1, 5000), 1);
	CHECK_EQ(coop_dispatch(coop, 0), 1);
	CHECK_EQ(coop_free(coop), 0);
}

static void *use_another_threads(void *data)
{
	struct coop *others = data, *own = new_coop();
	struct coop_event timer = timer_at(coop_now() + 2 * MS, stop_now, NULL);

	CHECK_EQ(coop_submit(others, &timer), -EPERM);
	CHECK_EQ(coop_cancel(others, &timer), -EPERM);
	CHECK_EQ(coop_run(others), -EPERM);
	CHECK_EQ(coop_dispatch(others, 0), -EPERM);
	CHECK_EQ(coop_stop(others), -EPERM);
	CHECK_EQ(coop_get_fd(others), -EPERM);
	CHECK_EQ(coop_set_group(others, 1), -EPERM);
	CHECK_EQ(coop_free(others), -EPERM);
	CHECK_EQ(coop_submit(own, &timer), 0);
	CHECK_EQ(coop_run(own), 0);
	CHECK_EQ(coop_free(own), 0);
	return NULL;
}

CASE(every_thread_has_its_own,
     "20 threads, ten times, run their own schedulers beside the first thread's; every use of another's is -EPERM; afterwards not one descriptor "
     "more is open.")
{
	struct coop *coop = new_coop();
	struct coop_event mine = timer_at(1, stop_now, NULL);
	const int before = open_descriptors();
	pthread_t threads[20];

	CHECK_EQ(coop_submit(coop, &mine), 0);
	for (int round = 0; round < 10; round++) {
		for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
			CHECK_EQ(pthread_create(&threads[i], NULL, use_another_threads, coop), 0);
		for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
			pthread_join(threads[i], NULL);
	}
	/* Of 200 threads nothing is left. */
	CHECK_EQ(open_descriptors(), before);
	CHECK_EQ(coop_run(coop), 0);
	CHECK_EQ(coop_free(coop), 0);
}

static void in_the_child(struct coop *coop, struct coop_event *pending)
{
	struct coop_event timer = timer_at(coop_now() + 2 * MS, stop_now, NULL);
	struct coop *own;

	CHECK_EQ(coop_submit(coop, &timer), -ECHILD);
	CHECK_EQ(coop_cancel(coop, pending), -ECHILD);
	CHECK_EQ(coop_run(coop), -ECHILD);
	CHECK_EQ(coop_dispatch(coop, 0), -ECHILD);
	CHECK_EQ(coop_stop(coop), -ECHILD);
	CHECK_EQ(coop_get_fd(coop), -ECHILD);
	own = new_coop();
	CHECK_EQ(coop_free(coop), 0);
	CHECK(pending->owner == NULL);
	CHECK_EQ(coop_submit(own, &timer), 0);
	CHECK_EQ(coop_run(own), 0);
	CHECK_EQ(coop_free(own), 0);
}

CASE(a_child_starts_without_its_parents,
     "In a forked child every use of the parent's scheduler is -ECHILD, one of its own works, and freeing the copy changes nothing in the parent, "
     "whose timer and descriptor still run.")
{
	struct coop *coop = new_coop();
	struct coop_event timer = timer_at(coop_now() + 50 * MS, count, NULL), reader;
	int ends[2], status = -1;

	CHECK_EQ(pipe(ends), 0);
	reader = descriptor_of(ends[0], POLLIN, stop_now, NULL);
	CHECK_EQ(coop_submit(coop, &timer), 0);
	CHECK_EQ(coop_submit(coop, &reader), 0);
	const pid_t child = fork();
	if (child == 0) {
		in_the_child(coop, &reader);
		exit(0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	/* Nothing the child did changed the parent's. */
	CHECK_EQ(coop_dispatch(coop, -1), 1);
	CHECK_EQ(calls, 1);
	CHECK_EQ(write(ends[1], "x", 1), 1);
	CHECK_EQ(coop_run(coop), 0);
	CHECK_EQ(coop_free(coop), 0);
}

static pid_t made_in_a_callback;

static void make_a_child(struct coop *coop, struct coop_event *event)
{
	count(coop, event);
	made_in_a_callback = fork();
	if (made_in_a_callback == 0)
		CHECK_EQ(coop_free(coop), -EBUSY);
}

CASE(a_child_made_in_a_callback_leaves_the_loop,
     "A child made in a callback runs no further event of the parent's: coop_run() gives it -ECHILD, and the parent runs all four.")
{
	struct coop *coop = new_coop();
	struct coop_event first = timer_at(1, make_a_child, NULL), second = timer_at(2, count, NULL), work = best_effort_of(1, count, NULL), reader;
	int ends[2], status = -1;

	CHECK_EQ(pipe(ends), 0);
	CHECK_EQ(write(ends[1], "x", 1), 1);
	reader = descriptor_of(ends[0], POLLIN, count, NULL);
	struct coop_event *all[] = { &first, &second, &work, &reader };
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		CHECK_EQ(coop_submit(coop, all[i]), 0);
	const int ended = coop_run(coop);
	if (made_in_a_callback == 0) {
		CHECK_EQ(ended, -ECHILD);
		CHECK_EQ(calls, 1);
		CHECK_EQ(coop_free(coop), 0);
		exit(0);
	}
	CHECK_EQ(ended, -ENOENT);
	CHECK_EQ(calls, 4);
	CHECK_EQ(waitpid(made_in_a_callback, &status, 0), made_in_a_callback);
	CHECK_EQ(status, 0);
	CHECK_EQ(coop_free(coop), 0);
}

CASE(fork_beside_threads,
     "Fifty forks while another thread works in the library: no child hangs on a lock that was taken when it was made.")
{
	/* A fork while other threads are in the library finds no lock taken in the child. */
	for (int round = 0; round < 50; round++) {
		struct coop *coop = new_coop();
		pthread_t thread;
		int status = -1;

		CHECK_EQ(pthread_create(&thread, NULL, use_another_threads, coop), 0);
		const pid_t child = fork();
		if (child == 0) {
			struct coop *own = new_coop();

			CHECK_EQ(coop_free(own), 0);
			_exit(0);
		}
		CHECK_EQ(waitpid(child, &status, 0), child);
		CHECK_EQ(status, 0);
		pthread_join(thread, NULL);
		CHECK_EQ(coop_free(coop), 0);
	}
}
