// SPDX-License-Identifier: MIT
/* The client's side of the page: the conversation, its beginning and its end, and who is refused. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scheduler.h"
#include "testing.h"

CASE(a_call_is_a_request_and_an_answer,
     "coop_poll() writes thread, group, release, user virtual time and state, each call numbered one higher, and returns the earlier one of "
     "release and slice end, and the group's least user virtual time, as section 3.1 has it.")
{
	struct server *server;
	struct coop *coop = begin_with_coop(&server);
	struct coop_event timer = timer_at(7000, NULL, NULL), work = best_effort_of(40, NULL, NULL);
	const struct coop_hello hello = server_hello(server);

	CHECK_EQ(hello.magic, COOP_ABI_MAGIC);
	CHECK_EQ(hello.version, COOP_ABI_VERSION);
	answer_with(1111, 2222, 33, COOP_STANDING_GOOD);
	CHECK_EQ(coop_poll(9, &timer, &work), 0);
	CHECK_EQ(coop_promise(), COOP_PROMISE_KEPT);
	CHECK_EQ(last_request.tid, syscall(SYS_gettid));
	CHECK_EQ(last_request.gid, 9);
	CHECK_EQ(last_request.release_ns, 7000);
	CHECK_EQ(last_request.user_virtual_time, 40);
	const u64 first = last_request.call;
	/* When to call again is whatever comes first. */
	CHECK_EQ(timer.release, 1111);
	CHECK_EQ(work.user_virtual_time, 33);
	CHECK_EQ(own_slot()->request.state, COOP_STATE_RUNS);
	answer_with(1111, 222, COOP_NEVER, COOP_STANDING_GOOD);
	timer.release = 5;
	CHECK_EQ(coop_poll(0, &timer, NULL), 0);
	CHECK_EQ(timer.release, 222);
	CHECK_EQ(last_request.call, first + 1);
	CHECK_EQ(last_request.gid, 0);
	CHECK(last_request.user_virtual_time == COOP_ABI_NEVER);
	CHECK_EQ(coop_free(coop), 0);
	server_stop(server);
}

static atomic_bool sleepers_come;

/* Answers every call while it is slept on. */
static void *answer_sleepers(void *data)
{
	struct coop_slot *slot = data;

	while (sleepers_come) {
		usleep(1000);
		if (__atomic_load_n(&slot->request.state, __ATOMIC_ACQUIRE) != COOP_STATE_SLEEPS)
			continue;
		last_request = slot->request;
		slot->answer.release_ns = 4711;
		slot->answer.slice_end_ns = COOP_NEVER;
		slot->answer.user_virtual_time = 12;
		__atomic_store_n(&slot->answer.call, last_request.call, __ATOMIC_RELEASE);
	}
	return NULL;
}

CASE(a_sleeper_is_answered_too,
     "Without best-effort work the state is 'sleeps', the thread sleeps its 100 ms in full, and the answer that came meanwhile is returned (in one"
     " of 50 tries: on a busy machine the test's scheduler may sleep, too).")
{
	struct server *server;
	struct coop *coop = begin_with_coop(&server);
	struct coop_event timer = timer_at(COOP_NEVER, NULL, NULL), none;
	pthread_t scheduler;
	uint64_t release = 0;

	sleepers_come = true;
	CHECK_EQ(pthread_create(&scheduler, NULL, answer_sleepers, own_slot()), 0);
	/* On a busy machine the answer may be late for some. */
	for (int tries = 0; timer.release == COOP_NEVER && tries < 50; tries++) {
		release = coop_now() + 100 * MS;
		timer.release = release;
		none = best_effort_of(COOP_NEVER, NULL, NULL);
		CHECK_EQ(coop_poll(3, &timer, &none), 0);
		CHECK(coop_now() >= release);
		CHECK_EQ(own_slot()->request.state, COOP_STATE_RUNS);
	}
	sleepers_come = false;
	pthread_join(scheduler, NULL);
	CHECK_EQ(last_request.state, COOP_STATE_SLEEPS);
	CHECK_EQ(last_request.release_ns, release);
	CHECK_EQ(last_request.gid, 3);
	CHECK_EQ(timer.release, 4711);
	CHECK_EQ(none.user_virtual_time, 12);
	CHECK_EQ(coop_free(coop), 0);
	server_stop(server);
}

CASE(the_promise_is_what_the_scheduler_says,
     "Each of the three reasons of policing makes the promise 'demoted' until the next good answer; one unanswered yield, or two unanswered "
     "sleeps, make it 'none'.")
{
	struct server *server;
	struct coop *coop = begin_with_coop(&server);
	struct coop_event timer = timer_at(0, NULL, NULL);

	CHECK_EQ(promise_of_a_call(), COOP_PROMISE_KEPT);
	for (u32 reason = COOP_DEMOTED_OVERRAN; reason <= COOP_DEMOTED_AHEAD; reason <<= 1) {
		answer_with(COOP_NEVER, COOP_NEVER, COOP_NEVER, reason);
		CHECK_EQ(promise_of_a_call(), COOP_PROMISE_DEMOTED);
		answer_with(COOP_NEVER, COOP_NEVER, COOP_NEVER, COOP_STANDING_GOOD);
		CHECK_EQ(promise_of_a_call(), COOP_PROMISE_KEPT);
	}
	/* A yield that nobody answered is proof; of sleeps it takes two. */
	scheduler_is_there = false;
	CHECK_EQ(promise_of_a_call(), COOP_PROMISE_NONE);
	scheduler_is_there = true;
	CHECK_EQ(promise_of_a_call(), COOP_PROMISE_KEPT);
	for (int sleeps = 1; sleeps <= 2; sleeps++) {
		timer.release = coop_now() + MS;
		CHECK_EQ(coop_poll(0, &timer, NULL), 0);
		CHECK(timer.release == COOP_NEVER);
		CHECK_EQ(coop_promise(), sleeps == 1 ? COOP_PROMISE_KEPT : COOP_PROMISE_NONE);
	}
	CHECK_EQ(coop_free(coop), 0);
	server_stop(server);
}

CASE(who_sleeps_unheard_is_introduced_again,
     "A thread that only sleeps, has its slot, and has gone unanswered twice yields once a second so that the scheduler gets to know it again: once"
     " or more in 2 s of sleeps of 20 ms, and not at each.")
{
	struct server *server;
	struct coop *coop = begin_with_coop(&server);
	struct coop_event timer = timer_at(0, NULL, NULL);

	CHECK_EQ(promise_of_a_call(), COOP_PROMISE_KEPT);
	introductions = 0;
	for (const u64 end = coop_now() + 2000 * MS; coop_now() < end;) {
		timer.release = coop_now() + 20 * MS;
		CHECK_EQ(coop_poll(0, &timer, NULL), 0);
	}
	CHECK_EQ(coop_promise(), COOP_PROMISE_NONE);
	CHECK(introductions >= 1 && introductions <= 4);
	CHECK_EQ(coop_free(coop), 0);
	server_stop(server);
}

CASE(the_daemon_dies_and_another_one_comes,
     "150 ms after the daemon's end (it is looked for every 100 ms) its page is no longer used; a new daemon is found by itself, within 20 s on a "
     "busy machine, and asked once.")
{
	struct server *server;
	struct coop *coop = begin_with_coop(&server);

	server_stop(server);
	/* Though this scheduler would still answer: the end of the connection is enough, and is seen within 100 ms. */
	usleep(150000);
	CHECK_EQ(promise_of_a_call(), COOP_PROMISE_NONE);
	server = begin();
	wait_until_kept(server);
	CHECK_EQ(server_asked(server), 1);
	CHECK_EQ(coop_free(coop), 0);
	server_stop(server);
}

static void is_refused(const char *what, const struct server_faults *faults, int error)
{
	struct server *server = server_start(faults);
	struct coop *coop = new_coop();
	struct coop_event timer = timer_at(coop_now() + 2 * MS, stop_now, NULL);

	fprintf(stderr, "%s\n", what);
	while (server_asked(server) == 0)
		usleep(1000);
	shared = server_page(server);
	for (int i = 0; i < 20; i++) {
		CHECK_EQ(promise_of_a_call(), COOP_PROMISE_NONE);
		usleep(1000);
	}
	CHECK(!own_slot());
	CHECK_EQ(coop_promise_error(), error);
	CHECK_EQ(coop_submit(coop, &timer), 0);
	CHECK_EQ(coop_run(coop), 0);
	CHECK(coop_now() >= timer.release);
	CHECK_EQ(server_asked(server), 1);
	CHECK_EQ(coop_free(coop), 0);
	server_stop(server);
}

/* Each in a process of its own, because one that was refused does not soon ask again. */
CASE(what_is_wrong_is_refused,
     "20 wrong welcomes and pages (version, errors, garbage, sizes, descriptors, seals, headers): none is used, nothing of it stays open, the "
     "program's timers run on, the daemon is not asked again at once, and coop_promise_error() is its error, or EPROTO for what makes no sense.")
{
	const struct {
		const char *what;
		struct server_faults faults;
		int error;
	} wrong[] = {
		{ "another version", { .version = COOP_ABI_VERSION + 1 }, -EPROTONOSUPPORT },
		{ "another version's error", { .version = COOP_ABI_VERSION + 1, .error = -EDQUOT }, -EPROTONOSUPPORT },
		{ "too many of this user", { .error = -EDQUOT }, -EDQUOT },
		{ "too many in all", { .error = -ENOSPC }, -ENOSPC },
		{ "an error that is none", { .error = 42 }, -EPROTO },
		{ "no welcome at all", { .magic = 42 }, -EPROTO },
		{ "more slots than any page has", { .slots = COOP_MAX_SLOTS + 1 }, -EPROTO },
		{ "4,294,967,295 slots", { .slots = 0xffffffff, .page_bytes = 4096 }, -EPROTO },
		{ "a short message", { .message_bytes = sizeof(struct coop_welcome) - 1 }, -EPROTO },
		{ "a long message", { .message_bytes = sizeof(struct coop_welcome) + 1 }, -EPROTO },
		{ "no page", { .descriptors = -1 }, -EPROTO },
		{ "two pages", { .descriptors = 1 }, -EPROTO },
		{ "seven pages", { .descriptors = 6 }, -EPROTO },
		{ "a short page", { .page_bytes = 4095 }, -EPROTO },
		{ "a page of one byte", { .page_bytes = 1 + COOP_CELL_BYTES }, -EPROTO },
		{ "a page that can become short", { .is_unsealed = true }, -EPROTO },
		{ "a header of something else", { .header_magic = 1 }, -EPROTO },
		{ "a header of another version", { .header_version = 2 }, -EPROTO },
		{ "cells of another size", { .header_cell_bytes = 64 }, -EPROTO },
		{ "a header with other slots", { .header_slots = 30 }, -EPROTO },
	};
	const int before = open_descriptors();

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		int status = -1;
		const pid_t child = fork();

		if (child == 0) {
			is_refused(wrong[i].what, &wrong[i].faults, wrong[i].error);
			/* Nothing that came along stays open: only this thread's timer. */
			CHECK_EQ(open_descriptors(), before + 1);
			exit(0);
		}
		CHECK_EQ(waitpid(child, &status, 0), child);
		CHECK_EQ(status, 0);
	}
}

CASE(a_daemon_that_hangs_up_is_asked_again,
     "A daemon that ends the connection without an answer is asked a second time, within 20 s on a busy machine; in between that is why there is no "
     "promise.")
{
	struct server *server = server_start(&(struct server_faults){ .hangs_up = true });
	const uint64_t end = coop_now() + 20 * 1000 * MS;
	struct coop *coop = new_coop();
	bool is_told = false;

	while (server_asked(server) < 2 || !is_told) {
		CHECK_EQ(promise_of_a_call(), COOP_PROMISE_NONE);
		is_told |= coop_promise_error() == -ECONNRESET;
		CHECK(coop_now() < end);
		usleep(20000);
	}
	CHECK_EQ(coop_free(coop), 0);
	server_stop(server);
}

CASE(a_silent_daemon_is_not_waited_for,
     "A daemon that never answers costs coop_new() its 10 ms, and 1,000 calls and runs together less than 2 s (waiting each time would be 10 s at "
     "least); it is asked once. It is too early to tell, as coop_promise_error() says, until 5 s are over, which is noticed within 60 s on a busy "
     "machine.")
{
	struct server *server = server_start(&(struct server_faults){ .is_silent = true });
	uint64_t begin_ns = coop_now();
	struct coop *coop = new_coop();
	struct coop_event work = best_effort_of(1, stop_now, NULL);

	CHECK(coop_now() >= begin_ns + 10 * MS);
	/* Of 1,000 calls, each waiting for the daemon as long as the first, would be 10 s. */
	begin_ns = coop_now();
	for (int i = 0; i < 1000; i++) {
		CHECK_EQ(promise_of_a_call(), COOP_PROMISE_NONE);
		CHECK_EQ(coop_submit(coop, &work), 0);
		CHECK_EQ(coop_run(coop), 0);
	}
	CHECK(coop_now() - begin_ns < 2000 * MS);
	while (server_asked(server) == 0)
		usleep(1000);
	CHECK_EQ(server_asked(server), 1);
	CHECK_EQ(coop_promise_error(), -EINPROGRESS);
	while (coop_promise_error() == -EINPROGRESS && coop_now() - begin_ns < 60 * 1000 * MS) {
		CHECK_EQ(promise_of_a_call(), COOP_PROMISE_NONE);
		usleep(20000);
	}
	CHECK_EQ(coop_promise_error(), -ETIMEDOUT);
	CHECK_EQ(coop_free(coop), 0);
	server_stop(server);
}

CASE(a_late_page_is_taken,
     "A daemon that takes 300 ms to answer is believed when it does, without being asked again.")
{
	struct server *server = server_start(&(struct server_faults){ .delay_ms = 300 });
	struct coop *coop = new_coop();

	scheduler_is_there = true;
	answer_with(COOP_NEVER, COOP_NEVER, COOP_NEVER, COOP_STANDING_GOOD);
	CHECK_EQ(promise_of_a_call(), COOP_PROMISE_NONE);
	wait_until_kept(server);
	CHECK_EQ(server_asked(server), 1);
	CHECK_EQ(coop_free(coop), 0);
	server_stop(server);
}

CASE(the_child_has_no_page,
     "After fork neither mapping nor connection is in the child, which asks for a page of its own; the parent's slot is unchanged and its promise "
     "kept.")
{
	struct server *server;
	struct coop *coop = begin_with_coop(&server);
	struct coop_slot *slot;
	int status = -1;

	CHECK_EQ(promise_of_a_call(), COOP_PROMISE_KEPT);
	slot = own_slot();
	const struct coop_slot before = *slot;
	const int open = open_descriptors();
	const pid_t child = fork();
	if (child == 0) {
		/* Neither the mapping nor the connection: only the copy of the epoll descriptor, which coop_free() closes. */
		CHECK(system("grep -q coop-page /proc/$PPID/maps") != 0);
		shared = NULL;
		CHECK_EQ(coop_promise(), COOP_PROMISE_NONE);
		CHECK_EQ(open_descriptors(), open - 2);
		CHECK_EQ(coop_free(coop), 0);
		CHECK_EQ(open_descriptors(), open - 3);
		/* It asks for a page of its own. */
		coop = new_coop();
		CHECK_EQ(promise_of_a_call(), COOP_PROMISE_NONE);
		CHECK_EQ(coop_free(coop), 0);
		exit(0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	CHECK_EQ(memcmp(&before, slot, sizeof(before)), 0);
	while (server_asked(server) < 2)
		usleep(1000);
	CHECK_EQ(promise_of_a_call(), COOP_PROMISE_KEPT);
	CHECK_EQ(coop_free(coop), 0);
	server_stop(server);
}

CASE(no_first_call_waits_for_room,
     "Where the connection will be there is room before the first call: for the kernel to make it in a process of several threads takes a "
     "grace period of RCU, seconds on a loaded machine. 900 is above the 64 or 256 that a program begins with.")
{
	static const char name[] = "FDSize:";
	FILE *status = fopen("/proc/self/status", "re");
	long room = 0;
	char line[256];

	CHECK(status != NULL);
	while (fgets(line, sizeof(line), status))
		if (!strncmp(line, name, strlen(name)))
			room = strtol(line + strlen(name), NULL, 10);
	fclose(status);
	CHECK(room > 900);
}

#define CROWD 40
static pthread_barrier_t all_have_called, all_were_counted;

static void *one_of_a_crowd(void *data)
{
	struct coop_event work = best_effort_of(1, NULL, NULL);

	CHECK_EQ(coop_poll(0, NULL, &work), 0);
	CHECK_EQ(coop_poll(0, NULL, &work), -EINVAL);
	pthread_barrier_wait(&all_have_called);
	pthread_barrier_wait(&all_were_counted);
	return data;
}

static int slots_taken(void)
{
	int taken = 0;

	for (int i = 1; i <= 31; i++) {
		taken += shared[i].request.tid != 0;
		for (int j = 1; j < i; j++)
			CHECK(!shared[i].request.tid || shared[i].request.tid != shared[j].request.tid);
	}
	return taken;
}

CASE(more_threads_than_slots,
     "Of 40 threads at most 31 have a slot, no two the same, the others do without; when they end, their slots are free again.")
{
	struct server *server;
	struct coop *coop = begin_with_coop(&server);
	pthread_t crowd[CROWD];

	scheduler_is_there = false;
	CHECK_EQ(slots_taken(), 1);
	for (int round = 0; round < 3; round++) {
		pthread_barrier_init(&all_have_called, NULL, CROWD + 1);
		pthread_barrier_init(&all_were_counted, NULL, CROWD + 1);
		for (int i = 0; i < CROWD; i++)
			CHECK_EQ(pthread_create(&crowd[i], NULL, one_of_a_crowd, NULL), 0);
		pthread_barrier_wait(&all_have_called);
		/* Who found the lock taken at its only call has none; nobody has another's. */
		CHECK(slots_taken() <= 31 && slots_taken() >= 2);
		pthread_barrier_wait(&all_were_counted);
		for (int i = 0; i < CROWD; i++)
			pthread_join(crowd[i], NULL);
		CHECK_EQ(slots_taken(), 1);
	}
	CHECK_EQ(server_asked(server), 1);
	CHECK_EQ(coop_free(coop), 0);
	server_stop(server);
}

CASE(why_there_is_no_promise,
     "coop_promise_error() is 'too early' before the first call, 'limelight is not here' where nobody listens, nothing while the promise is kept or "
     "the thread demoted, 'no scheduler answers' after an unanswered yield, and, 150 ms after the daemon's end (it is looked for every 100 ms), that "
     "the connection ended first, and at the next call that nobody listens.")
{
	struct server *server = begin();
	struct coop *coop;

	/* The library has the address, and nobody is there. */
	server_stop(server);
	CHECK_EQ(coop_promise_error(), -EINPROGRESS);
	coop = new_coop();
	CHECK_EQ(coop_promise_error(), -ENOTCONN);
	server = begin();
	wait_until_kept(server);
	CHECK_EQ(coop_promise_error(), 0);
	answer_with(COOP_NEVER, COOP_NEVER, COOP_NEVER, COOP_DEMOTED_AHEAD);
	CHECK_EQ(promise_of_a_call(), COOP_PROMISE_DEMOTED);
	CHECK_EQ(coop_promise_error(), 0);
	scheduler_is_there = false;
	CHECK_EQ(promise_of_a_call(), COOP_PROMISE_NONE);
	CHECK_EQ(coop_promise_error(), -ENODATA);
	server_stop(server);
	usleep(150000);
	CHECK_EQ(promise_of_a_call(), COOP_PROMISE_NONE);
	CHECK_EQ(coop_promise_error(), -ECONNRESET);
	CHECK_EQ(promise_of_a_call(), COOP_PROMISE_NONE);
	CHECK_EQ(coop_promise_error(), -ENOTCONN);
	CHECK_EQ(coop_free(coop), 0);
}

/* Whether the children of this process have a clock of their own from now on. */
static bool begin_time_namespace(void)
{
	int fd = unshare(CLONE_NEWTIME | (geteuid() ? CLONE_NEWUSER : 0)) ? -1 : open("/proc/self/timens_offsets", O_WRONLY);
	const bool is_set = fd >= 0 && write(fd, "monotonic 0 5", 13) == 13;

	if (fd >= 0)
		close(fd);
	return is_set;
}

CASE(another_clock_is_told,
     "In a time namespace, 5 ns ahead, limelight is not asked and the reason is said; the threads' timers run as without it.")
{
	int status = -1;

	if (!begin_time_namespace())
		skip("the kernel lets this user have no time namespace");
	const pid_t child = fork();
	if (child == 0) {
		struct server *server = begin();
		struct coop *coop = new_coop();

		CHECK_EQ(promise_of_a_call(), COOP_PROMISE_NONE);
		CHECK_EQ(coop_promise_error(), -ENOTSUP);
		CHECK_EQ(server_asked(server), 0);
		struct coop_event timer = timer_at(coop_now() + MS, stop_now, NULL);
		CHECK_EQ(coop_submit(coop, &timer), 0);
		CHECK_EQ(coop_run(coop), 0);
		CHECK_EQ(coop_free(coop), 0);
		server_stop(server);
		exit(0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
}

static struct server *of_one_slot;

static void *has_the_slot(void *data)
{
	wait_until_kept(of_one_slot);
	pthread_barrier_wait(&all_have_called);
	pthread_barrier_wait(&all_were_counted);
	return data;
}

CASE(a_thread_too_many_is_told,
     "Where another thread has the page's only slot, the reason is that there are too many threads; when that one has ended this one has its slot, "
     "and the reason is gone, within 20 s on a busy machine.")
{
	pthread_t other;

	of_one_slot = server_start(&(struct server_faults){ .slots = 1 });
	scheduler_is_there = true;
	answer_with(COOP_NEVER, COOP_NEVER, COOP_NEVER, COOP_STANDING_GOOD);
	pthread_barrier_init(&all_have_called, NULL, 2);
	pthread_barrier_init(&all_were_counted, NULL, 2);
	CHECK_EQ(pthread_create(&other, NULL, has_the_slot, NULL), 0);
	pthread_barrier_wait(&all_have_called);
	CHECK_EQ(promise_of_a_call(), COOP_PROMISE_NONE);
	CHECK_EQ(coop_promise_error(), -EUSERS);
	pthread_barrier_wait(&all_were_counted);
	pthread_join(other, NULL);
	wait_until_kept(of_one_slot);
	CHECK_EQ(coop_promise_error(), 0);
	server_stop(of_one_slot);
}

CASE(no_descriptor_for_the_page_is_told,
     "A process that has asked, and has no descriptor left when the page comes, is told that this is why there is none.")
{
	struct server *server = begin();
	struct rlimit limit;

	CHECK_EQ(promise_of_a_call(), COOP_PROMISE_NONE);
	while (server_asked(server) == 0)
		usleep(1000);
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	const struct rlimit none = { .rlim_cur = 0, .rlim_max = limit.rlim_max };
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
	for (int i = 0; i < 20; i++) {
		CHECK_EQ(promise_of_a_call(), COOP_PROMISE_NONE);
		usleep(1000);
	}
	CHECK_EQ(coop_promise_error(), -EMFILE);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
	server_stop(server);
}
