// SPDX-License-Identifier: MIT
/*
 * What programs rely on, which libcoop-preload.so must not change: these cases run without it, with it alone, and with it where limelight
 * is there (standin.c), and pass in the same way.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "testing.h"

#ifdef __SANITIZE_ADDRESS__
#define IS_SANITIZED 1
#else
#define IS_SANITIZED 0
#endif

static int early_result = -1;
static ssize_t early_bytes = -1;

/* Before any constructor, the preload's too. The read comes first: it may be an allocator's, which nothing that it needs may wait for. */
static void call_early(void)
{
	uint64_t times;
	const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	const struct itimerspec setting = { .it_value.tv_nsec = 1000000 };

	if (!timerfd_settime(timer, 0, &setting, NULL))
		early_bytes = read(timer, &times, sizeof(times));
	close(timer);
	early_result = poll(NULL, 0, 1);
}

__attribute__((section(".preinit_array"), used)) static void (*const early)(void) = call_early;

CASE(a_call_before_main_works,
     "Before the constructors of all libraries a read() of a timerfd returns its 8 bytes, and a poll() 0 after its timeout; and so do later ones.")
{
	CHECK_EQ(early_bytes, 8);
	CHECK_EQ(early_result, 0);
	settle_in();
}

CASE(timeouts_are_kept_and_errno_is_left,
     "Each of the seven calls, with a timeout of 20 ms and nothing to wait for, returns 0, not before 20 ms, and leaves errno as it was; with"
     " timeout 0 it returns 0 as well; select() says that nothing of its timeout is left.")
{
	const int set = epoll_create1(EPOLL_CLOEXEC);

	settle_in();
	for (int way = 0; way < 14; way++) {
		const int ms = way < 7 ? 20 : 0;
		struct timespec timeout = { .tv_nsec = ms * 1000000L };
		struct timeval interval = { .tv_usec = ms * 1000 };
		struct epoll_event event;
		const uint64_t begin = coop_now();
		int result = -1;

		errno = 4711;
		switch (way % 7) {
		case 0: result = poll(NULL, 0, ms); break;
		case 1: result = ppoll(NULL, 0, &timeout, NULL); break;
		case 2: result = select(0, NULL, NULL, NULL, &interval); break;
		case 3: result = pselect(0, NULL, NULL, NULL, &timeout, NULL); break;
		case 4: result = epoll_wait(set, &event, 1, ms); break;
		case 5: result = epoll_pwait(set, &event, 1, ms, NULL); break;
		case 6: result = epoll_pwait2(set, &event, 1, &timeout, NULL); break;
		}
		CHECK_EQ(errno, 4711);
		CHECK_EQ(result, 0);
		CHECK(coop_now() >= begin + (uint64_t)ms * MS);
		CHECK(way % 7 != 2 || (!interval.tv_sec && !interval.tv_usec));
	}
}

#define FAILS_WITH(error, call)                                                                                         \
	do {                                                                                                            \
		errno = 0;                                                                                              \
		CHECK_EQ(call, -1);                                                                                     \
		CHECK_EQ(errno, error);                                                                                 \
	} while (0)

CASE(errors_are_the_kernels, "Wrong arguments of each call have the error that the manual says: EINVAL, EBADF, ENOENT, EEXIST.")
{
	struct timespec wrong = { .tv_nsec = 1000000000 };
	struct timeval negative = { .tv_sec = -1 };
	struct epoll_event event = { .events = EPOLLIN };
	struct pollfd none = { .fd = -1 };
	const int set = epoll_create1(EPOLL_CLOEXEC), timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);

	settle_in();
	/* Not -1, which the compiler knows to be wrong. */
	volatile nfds_t many = 1ul << 30;
	volatile int bad = -1;
	if (!IS_SANITIZED)
		FAILS_WITH(EINVAL, poll(&none, many, 1));
	FAILS_WITH(EINVAL, ppoll(&none, 1, &wrong, NULL));
	FAILS_WITH(EINVAL, select(bad, NULL, NULL, NULL, NULL));
	FAILS_WITH(EINVAL, select(0, NULL, NULL, NULL, &negative));
	FAILS_WITH(EINVAL, pselect(0, NULL, NULL, NULL, &wrong, NULL));
	FAILS_WITH(EBADF, epoll_wait(bad, &event, 1, 1));
	FAILS_WITH(EINVAL, epoll_wait(set, &event, 0, 1));
	FAILS_WITH(EINVAL, epoll_pwait(timer, &event, 1, 1, NULL));
	FAILS_WITH(EINVAL, epoll_pwait2(set, &event, 1, &wrong, NULL));
	FAILS_WITH(EINVAL, timerfd_create(4711, 0));
	FAILS_WITH(EINVAL, epoll_create(0));
	FAILS_WITH(EINVAL, epoll_create1(4711));
	FAILS_WITH(ENOENT, epoll_ctl(set, EPOLL_CTL_DEL, timer, NULL));
	CHECK_EQ(epoll_ctl(set, EPOLL_CTL_ADD, timer, &event), 0);
	FAILS_WITH(EEXIST, epoll_ctl(set, EPOLL_CTL_ADD, timer, &event));
}

static volatile sig_atomic_t signals;

static void count_signal(int number)
{
	(void)number;
	signals++;
}

static void handle(int number, void (*handler)(int))
{
	const struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };

	CHECK_EQ(sigaction(number, &action, NULL), 0);
}

CASE(a_mask_is_set_for_the_sleep_only,
     "A blocked signal that is pending ends ppoll(), pselect() and epoll_pwait() with EINTR where their mask lets it in, its handler runs once,"
     " SA_RESTART or not; where the mask does not they time out; afterwards it is blocked as before.")
{
	const int set = epoll_create1(EPOLL_CLOEXEC);
	struct timespec timeout = { .tv_nsec = 20 * 1000000L };
	struct epoll_event event;
	sigset_t blocked, open, now;

	settle_in();
	handle(SIGUSR1, count_signal);
	sigemptyset(&open);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR1);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &blocked, NULL), 0);
	for (int way = 0; way < 6; way++) {
		const sigset_t *mask = way < 3 ? &open : &blocked;
		int result = -1;

		signals = 0;
		errno = 0;
		CHECK_EQ(raise(SIGUSR1), 0);
		switch (way % 3) {
		case 0: result = ppoll(NULL, 0, &timeout, mask); break;
		case 1: result = pselect(0, NULL, NULL, NULL, &timeout, mask); break;
		case 2: result = epoll_pwait(set, &event, 1, 20, mask); break;
		}
		CHECK_EQ(result, way < 3 ? -1 : 0);
		CHECK_EQ(errno, way < 3 ? EINTR : 0);
		CHECK_EQ(signals, way < 3 ? 1 : 0);
		CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &now), 0);
		CHECK_EQ(sigismember(&now, SIGUSR1), 1);
	}
}

static void poll_in_handler(int number)
{
	const int error = errno;

	(void)number;
	signals++;
	(void)poll(NULL, 0, 0);
	(void)poll(NULL, 0, 1);
	errno = error;
}

static void *signal_condition(void *data)
{
	pthread_cond_t *condition = data;

	usleep(20000);
	CHECK_EQ(pthread_cond_signal(condition), 0);
	return NULL;
}

static struct timespec in_ms(clockid_t clock, int ms)
{
	struct timespec when;

	CHECK_EQ(clock_gettime(clock, &when), 0);
	when.tv_nsec += ms % 1000 * 1000000L;
	when.tv_sec += ms / 1000 + when.tv_nsec / 1000000000;
	when.tv_nsec %= 1000000000;
	return when;
}

CASE(conditions_and_sleeps_are_kept,
     "pthread_cond_timedwait() and pthread_cond_clockwait() end with ETIMEDOUT after their 20 ms and not before, with the mutex held, leave errno,"
     " give EINVAL for a wrong time, and 0 where the condition is signalled in time; nanosleep() sleeps its 20 ms, and is interrupted with EINTR and"
     " the rest of its time; clock_nanosleep() gives its error and leaves errno.")
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
	const struct itimerval soon = { .it_value.tv_usec = 20000 };
	struct timespec time, wrong = { .tv_nsec = 1000000000 }, left = { 0 };
	pthread_t thread;

	settle_in();
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	for (int way = 0; way < 3; way++) {
		const clockid_t clock = way < 2 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
		int result;

		errno = 4711;
		/* It may be woken for nothing. */
		time = in_ms(clock, 20);
		do
			result = way ? pthread_cond_clockwait(&condition, &mutex, clock, &time) : pthread_cond_timedwait(&condition, &mutex, &time);
		while (!result);
		CHECK_EQ(result, ETIMEDOUT);
		CHECK_EQ(errno, 4711);
		CHECK_EQ(pthread_mutex_trylock(&mutex), EBUSY);
		const struct timespec now = in_ms(clock, 0);

		CHECK(now.tv_sec > time.tv_sec || (now.tv_sec == time.tv_sec && now.tv_nsec >= time.tv_nsec));
	}
	CHECK_EQ(pthread_cond_timedwait(&condition, &mutex, &wrong), EINVAL);
	CHECK_EQ(pthread_create(&thread, NULL, signal_condition, &condition), 0);
	time = in_ms(CLOCK_REALTIME, 60000);
	CHECK_EQ(pthread_cond_timedwait(&condition, &mutex, &time), 0);
	pthread_join(thread, NULL);
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);

	const uint64_t begin = coop_now();

	time = (struct timespec){ .tv_nsec = 20000000 };
	CHECK_EQ(nanosleep(&time, NULL), 0);
	CHECK(coop_now() >= begin + 20 * MS);
	handle(SIGALRM, count_signal);
	CHECK_EQ(setitimer(ITIMER_REAL, &soon, NULL), 0);
	time = (struct timespec){ .tv_sec = 3600 };
	FAILS_WITH(EINTR, nanosleep(&time, &left));
	CHECK(left.tv_sec >= 3000 && left.tv_sec < 3600);
	errno = 4711;
	CHECK_EQ(clock_nanosleep(CLOCK_MONOTONIC, 0, &wrong, NULL), EINVAL);
	CHECK_EQ(errno, 4711);
}

static int timer_in_ms(int ms, int flags)
{
	const struct itimerspec setting = { .it_value = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L } };
	const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | flags);

	CHECK(timer >= 0);
	CHECK_EQ(timerfd_settime(timer, 0, &setting, NULL), 0);
	return timer;
}

CASE(a_timer_is_read_as_ever,
     "A read() of a timerfd of 40 ms gives 8 bytes and 1, not before that, and leaves errno, and so where a handler with SA_RESTART comes after 20 ms"
     " and polls; without that it gives EINTR. It is EINVAL where 8 bytes have no room, EAGAIN where it does not block, EBADF where it is closed; a"
     " child reads its parent's timer; where its number is a pipe's by then what was written is read.")
{
	const struct itimerval soon = { .it_value.tv_usec = 20000 };
	const struct sigaction no_restart = { .sa_handler = count_signal };
	int timer, ends[2], status;
	char text[8];

	settle_in();
	handle(SIGALRM, poll_in_handler);
	for (int way = 0; way < 3; way++) {
		const uint64_t begin = coop_now();
		uint64_t times = 0;

		timer = timer_in_ms(40, 0);
		if (way == 2)
			CHECK_EQ(sigaction(SIGALRM, &no_restart, NULL), 0);
		CHECK_EQ(setitimer(ITIMER_REAL, way ? &soon : &(struct itimerval){ 0 }, NULL), 0);
		errno = 4711;
		const ssize_t bytes = read(timer, &times, sizeof(times));

		/* On a busy machine both may have come by the time it is asked for. */
		if (way == 2 && bytes < 0) {
			CHECK_EQ(errno, EINTR);
		} else {
			CHECK_EQ(bytes, 8);
			CHECK_EQ(times, 1);
			CHECK_EQ(errno, 4711);
			CHECK(coop_now() >= begin + 40 * MS);
		}
		FAILS_WITH(EINVAL, read(timer, text, 7));
		close(timer);
		FAILS_WITH(EBADF, read(timer, text, 8));
	}
	timer = timer_in_ms(3600 * 1000, TFD_NONBLOCK);
	FAILS_WITH(EAGAIN, read(timer, text, 8));
	close(timer);
	timer = timer_in_ms(20, 0);
	const pid_t child = fork();

	if (child == 0)
		_exit(read(timer, text, 8) != 8);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	CHECK_EQ(pipe(ends), 0);
	CHECK_EQ(dup2(ends[0], timer), timer);
	CHECK_EQ(write(ends[1], "limelight", 9), 9);
	CHECK_EQ(read(timer, text, 8), 8);
	CHECK(!memcmp(text, "limeligh", 8));
	CHECK_EQ(read(timer, text, 8), 1);
}

CASE(a_handler_may_poll,
     "A handler that polls, every 2 ms for a second, in the middle of malloc(), of other polls and of forks, deadlocks with none of them: 100"
     " rounds end (they take some ms each; the case is killed after 120 s).")
{
	const struct itimerval often = { .it_interval.tv_usec = 2000, .it_value.tv_usec = 2000 }, never = { 0 };
	const uint64_t begin = coop_now();

	settle_in();
	handle(SIGALRM, poll_in_handler);
	CHECK_EQ(setitimer(ITIMER_REAL, &often, NULL), 0);
	for (int round = 0; round < 100 || coop_now() < begin + 1000 * MS; round++) {
		for (int i = 0; i < 1000; i++)
			free(malloc((size_t)(i % 7) * 40000));
		(void)poll(NULL, 0, 1);
		if (round % 10)
			continue;
		const pid_t child = fork();
		if (child == 0) {
			(void)poll(NULL, 0, 1);
			_exit(0);
		}
		while (waitpid(child, NULL, 0) < 0)
			CHECK_EQ(errno, EINTR);
	}
	CHECK_EQ(setitimer(ITIMER_REAL, &never, NULL), 0);
	CHECK(signals > 10);
}

static sigjmp_buf back;

static void jump_back(int number)
{
	(void)number;
	siglongjmp(back, 1);
}

CASE(a_handler_may_jump_out, "50 times a handler jumps out of a sleeping poll() of an hour; the thread then polls as before.")
{
	const struct itimerval soon = { .it_value.tv_usec = 2000 };

	settle_in();
	handle(SIGALRM, jump_back);
	for (volatile int i = 0; i < 50; i++) {
		if (sigsetjmp(back, 1))
			continue;
		CHECK_EQ(setitimer(ITIMER_REAL, &soon, NULL), 0);
		(void)poll(NULL, 0, 3600 * 1000);
		CHECK(!"poll() returned");
	}
	CHECK_EQ(poll(NULL, 0, 5), 0);
}

static void note_cleanup(void *data)
{
	++*(int *)data;
}

static void *sleep_until_cancelled(void *data)
{
	struct epoll_event event;
	const int set = epoll_create1(EPOLL_CLOEXEC), timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	const struct itimerspec often = { .it_value.tv_nsec = 1, .it_interval.tv_nsec = 1000000 };
	uint64_t times;

	CHECK_EQ(timerfd_settime(timer, 0, &often, NULL), 0);
	pthread_cleanup_push(note_cleanup, data);
	for (int way = 0;; way++) {
		if (way % 4 == 0)
			(void)poll(NULL, 0, 1);
		else if (way % 4 == 1)
			(void)select(0, NULL, NULL, NULL, &(struct timeval){ .tv_usec = 1000 });
		else if (way % 4 == 2)
			(void)read(timer, &times, sizeof(times));
		else
			(void)epoll_wait(set, &event, 1, 1);
	}
	pthread_cleanup_pop(0);
	return NULL;
}

CASE(threads_are_cancelled_in_a_sleep,
     "100 threads that poll in turn in three ways and read a timer are cancelled after up to 5 ms: each ends as cancelled, and its cleanup has run;"
     " then a fork() finds no lock taken, and its child polls.")
{
	if (IS_SANITIZED)
		skip("the address sanitizer takes a cancelled thread's way out for an overflow");
	settle_in();
	for (int i = 0; i < 100; i++) {
		pthread_t thread;
		void *result;
		int cleanups = 0;

		CHECK_EQ(pthread_create(&thread, NULL, sleep_until_cancelled, &cleanups), 0);
		usleep((useconds_t)(next_random() % 5000));
		CHECK_EQ(pthread_cancel(thread), 0);
		CHECK_EQ(pthread_join(thread, &result), 0);
		CHECK(result == PTHREAD_CANCELED);
		CHECK_EQ(cleanups, 1);
	}
	const pid_t child = fork();
	int status;

	if (child == 0)
		_exit(poll(NULL, 0, 5));
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
}

static int end_in_child(pid_t child)
{
	int status;

	if (child == 0) {
		for (int i = 0; i < 30; i++)
			if (poll(NULL, 0, 5))
				_exit(1);
		_exit(0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	return status;
}

CASE(children_of_every_kind_poll,
     "A child by fork(), one by clone(2) behind the C library's back, its own child, and a program started by vfork() poll for 150 ms each, and"
     " end well; the parent polls on.")
{
	settle_in();
	CHECK_EQ(end_in_child(fork()), 0);
	CHECK_EQ(end_in_child((pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)), 0);
	const pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	int status;

	if (child == 0)
		_exit(end_in_child(fork()) ? 1 : 0);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	const pid_t program = vfork();

	if (program == 0) {
		execl("/proc/self/exe", "self", "a_call_before_main_works", NULL);
		_exit(1);
	}
	CHECK_EQ(waitpid(program, &status, 0), program);
	CHECK_EQ(status, 0);
	settle_in();
}

enum { PAIRS = 490 };

/* Sockets under every number up to 1,000. In each pair one end has a byte to read, and the other one the end of the file. */
static void open_pairs(int pairs[PAIRS][2], int reader)
{
	for (int i = 0; i < PAIRS; i++) {
		CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pairs[i]), 0);
		CHECK_EQ(write(pairs[i][!reader], "x", 1), 1);
		CHECK_EQ(shutdown(pairs[i][reader], SHUT_WR), 0);
	}
}

CASE(all_descriptors_may_be_closed,
     "A program that closes all its descriptors but 0 to 2, as daemons do, and opens sockets of its own under every number up to 1,000, polls on"
     " for 400 ms: none is closed, and no byte that lies in one is taken.")
{
	static int pairs[PAIRS][2];
	char byte;

	for (int reader = 0; reader < 2; reader++) {
		settle_in();
		CHECK_EQ(close_range(3, ~0u, 0), 0);
		open_pairs(pairs, reader);
		for (int i = 0; i < 40; i++)
			CHECK_EQ(poll(NULL, 0, 10), 0);
		for (int i = 0; i < PAIRS; i++) {
			CHECK_EQ(recv(pairs[i][reader], &byte, 1, MSG_DONTWAIT), 1);
			CHECK_EQ(byte, 'x');
			CHECK_EQ(recv(pairs[i][!reader], &byte, 1, MSG_DONTWAIT), 0);
		}
		CHECK_EQ(close_range(3, ~0u, 0), 0);
	}
}

CASE(a_closed_standard_descriptor_stays_closed,
     "A program without standard input polls for 200 ms: then 0 is still closed, and the next open() gives 0.")
{
	close(0);
	settle_in();
	CHECK_EQ(fcntl(0, F_GETFD), -1);
	CHECK_EQ(open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
}

CASE(nothing_is_handed_to_other_programs,
     "A program that is started has 0, 1 and 2, of which one is the pipe it was given, and no other descriptor.")
{
	char line[128] = "";
	FILE *program;

	/* What this one was given is no matter here. */
	CHECK_EQ(close_range(3, ~0u, 0), 0);
	settle_in();
	/* popen() forks behind the library's back. */
	program = popen("echo /proc/self/fd/*", "r");
	CHECK(program && fgets(line, sizeof(line), program));
	CHECK_EQ(pclose(program), 0);
	fprintf(stderr, "%s", line);
	/* 3 is the shell's own, that of the folder it lists. */
	CHECK(!strcmp(line, "/proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2 /proc/self/fd/3\n"));
}
