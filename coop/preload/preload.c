// SPDX-License-Identifier: MIT
/*
 * libcoop-preload.so: makes programs cooperative that know nothing of it. It sits in front of poll(2), select(2), epoll_wait(2) and
 * their kin, of waits for a condition until a time, of nanosleep(2), and of read(2), of timerfds; what such a call waits for (its timeout, or the
 * first timerfd among its descriptors) becomes the thread's release while it sleeps. `coop-run PROGRAM` loads it.
 *
 * The promises: the call itself is the C library's, with the arguments as they came, so that results, errno, signal masks and
 * cancellation are what they were; nothing here waits, allocates, or takes a lock that a signal handler could find taken. A thread
 * that has never had a timeout costs a look at a variable of its own, and has no slot. One that has a struct coop speaks for itself.
 *
 * A call that does not wait (timeout 0) is no sleep: the program is busy. It is passed on, and is used for one thing: where the
 * scheduler's last answer says that somebody else's turn has come, the thread yields first, as a cooperative one should. Without a
 * scheduler there is no answer, and no yield.
 *
 * Programs call read() often, and hardly ever for a timer. For any other descriptor it is a look at a bit and the C library's read().
 *
 * The exception to all of this are X servers, which count whole milliseconds (whole_ms.h).
 *
 * What it is bad at: sleeps other than these (futexes of the program's own, semaphores) have no release; a timer that another thread sets
 * while this one sleeps counts from its next sleep on; timeouts, unlike timerfds, are subject to the kernel's timer slack (50 us). A read() that
 * the kernel restarts after a handler that slept in a wrapped call goes on as a sleep that nobody was told of.
 */
#include <coop.h>
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "timers.h"
#include "whole_ms.h"

#define NS_PER_S 1000000000ull
#define NS_PER_MS 1000000ull
#define NS_PER_US 1000ull

/* A release for calls that do not wait. */
#define AT_ONCE 0

_Static_assert(sizeof(time_t) == 8 && sizeof(long) == 8, "the calls with 64-bit times have other names on 32-bit machines");

/* What programs that were built with _FORTIFY_SOURCE call, which no header declares unless it is set. */
int __poll_chk(struct pollfd *fds, nfds_t count, int timeout_ms, size_t bytes);
int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask, size_t bytes);
ssize_t __read_chk(int fd, void *buffer, size_t bytes, size_t room);
/* The C library's read() by another name, which nobody puts anything in front of. */
ssize_t __read(int fd, void *buffer, size_t bytes);

#define WRAPPED(X)                                                                                                      \
	X(poll) X(ppoll) X(__poll_chk) X(__ppoll_chk) X(select) X(pselect) X(epoll_wait) X(epoll_pwait) X(epoll_pwait2)     \
	X(epoll_create) X(epoll_create1) X(epoll_ctl) X(timerfd_create) X(clock_gettime) X(read) X(__read_chk)               \
	X(pthread_cond_timedwait) X(pthread_cond_clockwait) X(nanosleep) X(clock_nanosleep)

/* The C library's. */
#define POINTER(name) typeof(name) *name;
static struct {
	WRAPPED(POINTER)
} real;

static void find_real(void)
{
	const int error = errno;

#define FIND(name) real.name = (typeof(real.name))dlsym(RTLD_NEXT, #name);
	WRAPPED(FIND)
#ifdef __x86_64__
	/* It has an older one of that name, too, of condition variables of another layout, and dlsym() may find that. */
	real.pthread_cond_timedwait = (typeof(real.pthread_cond_timedwait))dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
#endif
	errno = error;
}

/* Calls that come before this one, from other libraries' constructors, are passed on: the C library has no environment yet, perhaps. */
static bool has_begun;

__attribute__((constructor)) static void set_up(void)
{
	find_real();
	has_begun = true;
}

#define REAL(name) (real.name ? real.name : (find_real(), real.name))

/* This thread has had a release: from then on it tells what it sleeps for, and that it sleeps for no release, too. */
static _Thread_local bool is_timed;
/* The last one, for as long as it is ahead. */
static _Thread_local uint64_t last_release;
/* When the scheduler wants the CPU back; COOP_NEVER: it has not said. */
static _Thread_local uint64_t yield_by = COOP_NEVER;

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t after_ns(uint64_t s, uint64_t unit_ns, uint64_t rest, uint64_t rest_ns)
{
	const uint64_t most = (COOP_NEVER - 1) / 4;

	if (!s && !rest)
		return AT_ONCE;
	return coop_now() + (s > most / unit_ns ? most : s * unit_ns) + rest * rest_ns;
}

static uint64_t after_ms(int timeout_ms)
{
	return timeout_ms < 0 ? COOP_NEVER : after_ns((uint64_t)timeout_ms, NS_PER_MS, 0, 0);
}

/* What the kernel will refuse does not wait. */
static uint64_t after_timespec(const struct timespec *timeout)
{
	if (!timeout)
		return COOP_NEVER;
	if (timeout->tv_sec < 0 || timeout->tv_nsec < 0 || timeout->tv_nsec >= (long)NS_PER_S)
		return AT_ONCE;
	return after_ns((uint64_t)timeout->tv_sec, NS_PER_S, (uint64_t)timeout->tv_nsec, 1);
}

static uint64_t after_timeval(const struct timeval *timeout)
{
	if (!timeout)
		return COOP_NEVER;
	if (timeout->tv_sec < 0 || timeout->tv_usec < 0)
		return AT_ONCE;
	return after_ns((uint64_t)timeout->tv_sec, NS_PER_S, (uint64_t)timeout->tv_usec, NS_PER_US);
}

/*
 * A time of `clock`. What is long past on the wall clock was meant on the monotonic one, which counts from the machine's start: a condition variable
 * does not tell which is its own. Where that is wrong the release is, and nothing else.
 */
static uint64_t at_time(clockid_t clock, const struct timespec *when)
{
	const time_t wall_clock_s = 1000000000;
	struct timespec now;
	uint64_t ns, now_ns;

	if (when->tv_sec < 0 || when->tv_nsec < 0 || when->tv_nsec >= (long)NS_PER_S)
		return AT_ONCE;
	if (when->tv_sec >= INT64_MAX / (time_t)NS_PER_S)
		return COOP_NEVER;
	ns = (uint64_t)when->tv_sec * NS_PER_S + (uint64_t)when->tv_nsec;
	if (clock == CLOCK_MONOTONIC || (clock == CLOCK_REALTIME && when->tv_sec < wall_clock_s))
		return ns;
	/* On the clocks of CPU time nobody can tell when that is. */
	if (clock != CLOCK_REALTIME || REAL(clock_gettime)(clock, &now))
		return COOP_NEVER;
	now_ns = (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
	return ns > now_ns ? coop_now() + (ns - now_ns) : AT_ONCE;
}

static void yield_where_due(void)
{
	struct coop_event timer = { .type = COOP_TIMER }, busy = { .type = COOP_BEST_EFFORT };
	uint64_t now;

	if (yield_by == COOP_NEVER)
		return;
	now = coop_now();
	if (now < yield_by)
		return;
	timer.release = last_release > now ? last_release : COOP_NEVER;
	(void)coop_poll(COOP_GROUP_SELF, &timer, &busy);
	yield_by = timer.release;
}

/* What lies around one of the C library's calls. */
struct turn {
	int error;
	bool is_sleep;
};

static struct turn begin(uint64_t release)
{
	struct turn turn = { .error = errno };

	if (!has_begun) {
		;
	} else if (release == AT_ONCE) {
		yield_where_due();
	} else if (is_timed || release != COOP_NEVER) {
		is_timed = true;
		last_release = release;
		turn.is_sleep = !coop_sleep_begin(release);
		if (!turn.is_sleep)
			yield_by = COOP_NEVER;
	}
	errno = turn.error;
	return turn;
}

/* Who comes back with a lock does not yield, or all that want that would wait for everybody's turn. */
enum comes_back { WITH_NOTHING, WITH_A_LOCK };

/* What was over before it began the scheduler has heard nothing of: it holds this thread to what it said before. */
static void end_sleep(enum comes_back comes_back)
{
	const uint64_t told = coop_sleep_end();

	if (told != COOP_NEVER || coop_promise() == COOP_PROMISE_NONE)
		yield_by = told;
	else if (comes_back == WITH_NOTHING)
		yield_where_due();
}

static void end(const struct turn *turn, enum comes_back comes_back)
{
	const int error = errno;

	if (turn->is_sleep)
		end_sleep(comes_back);
	whole_ms_forget();
	errno = error;
}

/* The call, as a sleep until the release. */
#define SLEEPS_AND(comes_back, release, call)                                                                           \
	({                                                                                                              \
		const struct turn turn_ = begin(release);                                                               \
		const __auto_type result_ = (call);                                                                     \
		end(&turn_, comes_back);                                                                                \
		result_;                                                                                                \
	})
#define SLEEPS(release, call) SLEEPS_AND(WITH_NOTHING, release, call)

/* A call that waits is over when its first timer is due; which that is costs one that does not wait nothing. */
#define UNTIL(deadline, timer)                                                                                          \
	({                                                                                                              \
		const uint64_t deadline_ = (deadline);                                                                  \
		deadline_ == AT_ONCE ? AT_ONCE : earlier(deadline_, (timer));                                           \
	})

/* A poll() of a program that counts whole milliseconds. */
static int poll_until(struct pollfd *fds, nfds_t count, uint64_t deadline, const struct timespec *left)
{
	return SLEEPS(UNTIL(deadline, timers_first_of_poll(fds, count)), REAL(ppoll)(fds, count, left, NULL));
}

COOP_PUBLIC int poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	struct timespec left;
	uint64_t deadline;

	if (whole_ms_wait(timeout_ms, &deadline, &left))
		return poll_until(fds, count, deadline, &left);
	return SLEEPS(UNTIL(after_ms(timeout_ms), timers_first_of_poll(fds, count)), REAL(poll)(fds, count, timeout_ms));
}

COOP_PUBLIC int __poll_chk(struct pollfd *fds, nfds_t count, int timeout_ms, size_t bytes)
{
	struct timespec left;
	uint64_t deadline;

	if (count <= bytes / sizeof(*fds) && whole_ms_wait(timeout_ms, &deadline, &left))
		return poll_until(fds, count, deadline, &left);
	return SLEEPS(UNTIL(after_ms(timeout_ms), timers_first_of_poll(fds, count)), REAL(__poll_chk)(fds, count, timeout_ms, bytes));
}

COOP_PUBLIC int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
	return SLEEPS(UNTIL(after_timespec(timeout), timers_first_of_poll(fds, count)), REAL(ppoll)(fds, count, timeout, mask));
}

COOP_PUBLIC int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask, size_t bytes)
{
	return SLEEPS(UNTIL(after_timespec(timeout), timers_first_of_poll(fds, count)), REAL(__ppoll_chk)(fds, count, timeout, mask, bytes));
}

COOP_PUBLIC int select(int count, fd_set *reads, fd_set *writes, fd_set *others, struct timeval *timeout)
{
	return SLEEPS(UNTIL(after_timeval(timeout), timers_first_of_select(count, reads)), REAL(select)(count, reads, writes, others, timeout));
}

COOP_PUBLIC int pselect(int count, fd_set *reads, fd_set *writes, fd_set *others, const struct timespec *timeout, const sigset_t *mask)
{
	return SLEEPS(UNTIL(after_timespec(timeout), timers_first_of_select(count, reads)),
		      REAL(pselect)(count, reads, writes, others, timeout, mask));
}

/* An epoll_wait() likewise; -1 and ENOSYS before Linux 5.11 and glibc 2.35. */
static int epoll_until(int set, struct epoll_event *events, int room, uint64_t deadline, const struct timespec *left)
{
	if (!REAL(epoll_pwait2)) {
		errno = ENOSYS;
		return -1;
	}
	return SLEEPS(UNTIL(deadline, timers_first_of_set(set)), real.epoll_pwait2(set, events, room, left, NULL));
}

COOP_PUBLIC int epoll_wait(int set, struct epoll_event *events, int room, int timeout_ms)
{
	const int error = errno;
	struct timespec left;
	uint64_t deadline;
	int result;

	if (whole_ms_wait(timeout_ms, &deadline, &left)) {
		result = epoll_until(set, events, room, deadline, &left);
		if (result >= 0 || errno != ENOSYS)
			return result;
		errno = error;
	}
	return SLEEPS(UNTIL(after_ms(timeout_ms), timers_first_of_set(set)), REAL(epoll_wait)(set, events, room, timeout_ms));
}

COOP_PUBLIC int epoll_pwait(int set, struct epoll_event *events, int room, int timeout_ms, const sigset_t *mask)
{
	return SLEEPS(UNTIL(after_ms(timeout_ms), timers_first_of_set(set)), REAL(epoll_pwait)(set, events, room, timeout_ms, mask));
}

COOP_PUBLIC int epoll_pwait2(int set, struct epoll_event *events, int room, const struct timespec *timeout, const sigset_t *mask)
{
	if (!REAL(epoll_pwait2)) {
		errno = ENOSYS;
		return -1;
	}
	return SLEEPS(UNTIL(after_timespec(timeout), timers_first_of_set(set)), real.epoll_pwait2(set, events, room, timeout, mask));
}

COOP_PUBLIC int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until)
{
	return SLEEPS_AND(WITH_A_LOCK, at_time(CLOCK_REALTIME, until), REAL(pthread_cond_timedwait)(condition, mutex, until));
}

COOP_PUBLIC int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until)
{
	if (!REAL(pthread_cond_clockwait))
		return EINVAL;
	return SLEEPS_AND(WITH_A_LOCK, at_time(clock, until), real.pthread_cond_clockwait(condition, mutex, clock, until));
}

COOP_PUBLIC int nanosleep(const struct timespec *time, struct timespec *left)
{
	return SLEEPS(after_timespec(time), REAL(nanosleep)(time, left));
}

COOP_PUBLIC int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left)
{
	return SLEEPS(flags & TIMER_ABSTIME ? at_time(clock, time) : after_timespec(time), REAL(clock_nanosleep)(clock, flags, time, left));
}

/*
 * An allocator may read a file when it is first asked for memory, and dlsym() may ask it: until that was done for another call the C library's own
 * is called, and what others have put in front of that is not.
 */
COOP_PUBLIC ssize_t read(int fd, void *buffer, size_t bytes)
{
	typeof(read) *const real_read = real.read ? real.read : __read;
	uint64_t due;

	if (!timers_wait_of_read(fd, &due))
		return real_read(fd, buffer, bytes);
	return SLEEPS(due, real_read(fd, buffer, bytes));
}

COOP_PUBLIC ssize_t __read_chk(int fd, void *buffer, size_t bytes, size_t room)
{
	/* It ends the program. */
	if (bytes > room)
		return REAL(__read_chk)(fd, buffer, bytes, room);
	return read(fd, buffer, bytes);
}

COOP_PUBLIC int clock_gettime(clockid_t clock, struct timespec *now)
{
	return whole_ms_read(clock, now, REAL(clock_gettime));
}

COOP_PUBLIC int timerfd_create(clockid_t clock, int flags)
{
	const int fd = REAL(timerfd_create)(clock, flags);

	timers_add(fd);
	return fd;
}

COOP_PUBLIC int epoll_create(int size)
{
	const int set = REAL(epoll_create)(size);

	timers_add_set(set);
	return set;
}

COOP_PUBLIC int epoll_create1(int flags)
{
	const int set = REAL(epoll_create1)(flags);

	timers_add_set(set);
	return set;
}

COOP_PUBLIC int epoll_ctl(int set, int operation, int fd, struct epoll_event *event)
{
	const int result = REAL(epoll_ctl)(set, operation, fd, event);

	if (result)
		return result;
	if (operation != EPOLL_CTL_DEL && event->events & EPOLLIN)
		timers_put(set, fd);
	else
		timers_drop(set, fd);
	return 0;
}
