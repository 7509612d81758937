/* SPDX-License-Identifier: MIT */
/*
 * libcoop: events with fair and timely scheduling, by cooperative polling (Krasic, Saubhasik, Sinha, Goel: "Fair and Timely
 * Scheduling via Cooperative Polling", EuroSys 2009; "the paper" below).
 *
 * A program is a sequence of short events, run one after the other and never preempted by each other: timers, which run
 * when their release has come, descriptors, and best-effort events, which run in order of importance while no timer is
 * due. Between them the thread tells the scheduler when its next timer is due, learns when somebody else's is, and yields in
 * time. In exchange it runs when it asked to, at 100 % load too, where limelight is there. Without limelight the same
 * program runs correctly; coop_promise() says which of the two it has, and coop_promise_error() why.
 *
 * Conventions
 *  - Times are nanoseconds of CLOCK_MONOTONIC (coop_now()).
 *  - Functions return 0 (or a count), or a negative errno; errno itself means nothing.
 *  - There is one struct coop per thread. It belongs to the thread that made it: calls from another thread give -EPERM,
 *    calls in a child made by fork() -ECHILD (coop_free() alone works there), also from a coop_run() in whose callback the
 *    child was made. To wake another thread's, let it hold an eventfd.
 *  - The memory of an event is the caller's. From coop_submit() until its callback is called or coop_cancel() it is lent to the
 *    library; after that it may be changed, submitted again or freed, in its own callback too.
 *  - Every event is submitted once and runs once. Who wants it again submits it again.
 */
#ifndef COOP_H
#define COOP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Symbols that the shared library shows; everything else in it is hidden. */
#define COOP_PUBLIC __attribute__((visibility("default")))

/* As a release: never. As a user virtual time: none. */
#define COOP_NEVER UINT64_MAX

/* The group of a thread that shares with nobody. */
#define COOP_GROUP_SELF 0u

/* Bytes of a token. */
#define COOP_TOKEN_BYTES 16u

/* Consent to be in a group (coop_share_group()): whoever has it can join, so it is passed on as a password is. */
struct coop_token {
	unsigned char bytes[16];
};

/* A thread's application scheduler (section 2.1). */
struct coop;
struct coop_event;

/*
 * Runs an event. It should take well below 1 ms, and must not block; longer work is cut up (section 2). It ends by returning: who leaves it by an
 * exception, longjmp() or the end of the thread leaves the scheduler as if it still ran (-EBUSY).
 */
typedef void (*coop_callback)(struct coop *coop, struct coop_event *event);

enum coop_event_type {
	COOP_TIMER = 1,		/* runs when `release` has come; before all best-effort events */
	COOP_BEST_EFFORT = 2,	/* runs when no timer is due; the least `user_virtual_time` first */
	COOP_DESCRIPTOR = 3,	/* runs when the file descriptor is ready */
};

/*
 * An event (Figure 2). All zeros but what its type needs. While it is submitted, type and fd are left alone. Changed then, events,
 * release and user_virtual_time count from the next coop_submit() on; callback and user are read when it runs.
 */
struct coop_event {
	enum coop_event_type type;
	int fd;				/* COOP_DESCRIPTOR: the descriptor; each can be in one event at a time */
	uint32_t events;		/* COOP_DESCRIPTOR: POLLIN, POLLOUT, POLLPRI, POLLRDHUP, as in poll(2) */
	uint32_t revents;		/* COOP_DESCRIPTOR: set before the callback; POLLERR and POLLHUP come unasked */
	uint64_t release;		/* COOP_TIMER: absolute; one in the past is due at once, COOP_NEVER is refused */
	uint64_t user_virtual_time;	/* COOP_BEST_EFFORT: the program's own measure of progress; COOP_NEVER is refused */
	coop_callback callback;
	void *user;			/* the caller's */

	/* The library's own. */
	struct coop *owner;
	size_t position;
	uint64_t reserved[2];
};

/* What this thread can rely on (coop_promise()). */
enum coop_promise {
	COOP_PROMISE_NONE = 0,		/* no scheduler answered its last call: timing is as good as the kernel's own */
	COOP_PROMISE_DEMOTED = 1,	/* it overran, slept elsewhere or is ahead of its share: an ordinary thread until its next call */
	COOP_PROMISE_KEPT = 2,		/* its releases are kept */
};

/* Now, in ns of CLOCK_MONOTONIC. */
COOP_PUBLIC uint64_t coop_now(void);

/*
 * Makes the calling thread's scheduler, and asks limelight, where it is there, for the page that the promise needs (at
 * most 10 ms are spent on that; the rest is done while it runs).
 * -EINVAL: no place to put it; -EBUSY: this thread has one; -ENOMEM; -EMFILE, -ENFILE: no descriptor left (it needs two, and one for the promise).
 */
COOP_PUBLIC int coop_new(struct coop **coop);

/*
 * Ends it. What is still submitted is given back without being run. NULL is nothing to do.
 * -EBUSY: called from a callback; -EPERM: another thread's. In a child made by fork() it frees the child's copy.
 */
COOP_PUBLIC int coop_free(struct coop *coop);

/*
 * The group in which this thread's CPU time is pooled, and divided by user_virtual_time (section 3.1). Groups are named
 * within a user (but see coop_join_group()); COOP_GROUP_SELF is the default. Counts from the next call of the scheduler on.
 *
 * A group is one CPU's. There a thread has the turn of another one of the same class and weight only (nice, and the cgroup's): or a group would
 * be a way to get more than these give. Those of one number that are equal in this are evened out between several CPUs: there a thread
 * counts twice at most, and for a half at least.
 */
COOP_PUBLIC int coop_set_group(struct coop *coop, uint32_t gid);

/*
 * Lets other users' processes into this user's group gid: those to which this process passes the token on, by a pipe or a socket,
 * say. It is good until coop_unshare_group(), the process's end or limelight's; the next call gives the same one. Like the three
 * below it is any thread's to call, and asks limelight, for at most a second.
 * -EINVAL: no token, or COOP_GROUP_SELF; -EBUSY: gid is another user's group here (coop_join_group()); -EDQUOT, -ENOSPC: too many
 * tokens of this user, of all; -EAGAIN: the system has no random numbers yet; -ENOTCONN: limelight is not here, or has no page
 * for this process; -ECONNRESET: it has just gone, or is older than this call; -ETIMEDOUT: there was no answer, and it may be done
 * or not; -EPROTO: it made no sense.
 */
COOP_PUBLIC int coop_share_group(uint32_t gid, struct coop_token *token);

/*
 * Takes the consent back: the token is good no more, and who joined by it is out, from their next call of the scheduler on.
 * -ENOENT: this process has not shared gid; -EINVAL: COOP_GROUP_SELF; -ENOTCONN, -ECONNRESET, -ETIMEDOUT, -EPROTO: as above.
 */
COOP_PUBLIC int coop_unshare_group(uint32_t gid);

/*
 * What this process calls gid is from now on the group that the token is for, whoever's that is, and no longer its own user's;
 * until coop_leave_group(), or the consent ends: then gid is its own user's again. Threads get into it by coop_set_group() or
 * coop_poll(). Again with the same token it tells whether the consent still holds.
 * -EACCES: no such token, or no longer; -EBUSY: this process has shared gid; -EDQUOT: it is in eight groups of others; -EINVAL: no token, or
 * COOP_GROUP_SELF; -ENOTCONN, -ECONNRESET, -ETIMEDOUT, -EPROTO: as above.
 */
COOP_PUBLIC int coop_join_group(uint32_t gid, const struct coop_token *token);

/*
 * What this process calls gid is its own user's group again.
 * -ENOENT: it has not joined another one by gid; -EINVAL: COOP_GROUP_SELF; -ENOTCONN, -ECONNRESET, -ETIMEDOUT, -EPROTO: as above.
 */
COOP_PUBLIC int coop_leave_group(uint32_t gid);

/*
 * Hands an event over, in O(log n). Timers of equal release, and best-effort events of equal user virtual time, run in the
 * order of submission.
 * -EINVAL: no event, no callback, an unknown type, a release or user virtual time of COOP_NEVER, or events that are not
 * those above; -EBUSY: it is submitted already; -ENOMEM; -EEXIST: another event has this descriptor; -EBADF: it is
 * closed; -EOPNOTSUPP: it is of a kind that is always ready (a regular file); -ENOSPC: too many descriptors of this user; -ELOOP: it is an
 * epoll set that has coop_get_fd() in it, or too many in each other.
 */
COOP_PUBLIC int coop_submit(struct coop *coop, struct coop_event *event);

/*
 * Takes an event back, in O(log n). A descriptor is to be closed only afterwards.
 * -EINVAL: no event; -ENOENT: it is not submitted (it has run, or was taken back before); -EBUSY: it is in another thread's.
 */
COOP_PUBLIC int coop_cancel(struct coop *coop, struct coop_event *event);

/*
 * Runs events until coop_stop(), then returns 0; what is submitted stays so.
 * -ENOENT: nothing is submitted, so that nothing could ever happen; -EBUSY: called from a callback.
 */
COOP_PUBLIC int coop_run(struct coop *coop);

/* From a callback: ends coop_run() or coop_dispatch() after this event. -ENOENT: nothing is being run. */
COOP_PUBLIC int coop_stop(struct coop *coop);

/*
 * A descriptor that is readable (POLLIN) whenever coop_dispatch() would find something to run, for a program that has a
 * loop already: GLib, Qt, libuv, poll(2). It stays the library's: do not read, change or close it.
 */
COOP_PUBLIC int coop_get_fd(struct coop *coop);

/*
 * Waits at most timeout_ns (0: not at all; negative: as long as it takes) for something to run, and runs what is due: all
 * timers, ready descriptors, and about 1 ms of best-effort events. Returns how many events ran; 0 after the timeout or a
 * signal. -ENOENT: it was to wait for ever with nothing submitted; -EBUSY: called from a callback.
 */
COOP_PUBLIC int coop_dispatch(struct coop *coop, int64_t timeout_ns);

/*
 * The call beneath (section 3.1), for programs that keep their events themselves: tells the scheduler this thread's
 * earliest timer and most important best-effort event, and gives up the CPU. With a best-effort event, or where the release
 * has come, it yields; without, it sleeps until the release. Neither event is run or kept.
 *
 * On return timer->release is when to call again: the earliest release among the other threads of its CPU, of its class or a
 * more urgent one, or the end of the slice, whichever is first; best_effort->user_virtual_time is the least among the other
 * threads of the group. COOP_NEVER: there is none, or no scheduler (coop_promise()). Either event may be NULL, or COOP_NEVER
 * where there is none but the answer is wanted.
 * -EINVAL: an event is of another type, or there is neither; -EINTR: a signal came before the release (the answers are
 * there); -ENOMEM, -EMFILE, -ENFILE: at a thread's first call, or its first sleep.
 */
COOP_PUBLIC int coop_poll(uint32_t gid, struct coop_event *timer, struct coop_event *best_effort);

/*
 * For a loop that sleeps by itself (poll(2), epoll_wait(2), another library's), around that sleep: before it, until when, which
 * makes it a cooperative one; COOP_NEVER: until something wakes it. After it, when to give up the CPU next: the earliest release
 * among the other threads of its CPU, of its class or a more urgent one, or the end of the slice;
 * COOP_NEVER: there is neither, or no scheduler (coop_promise()), or no sleep had begun.
 * Neither waits, nor opens a descriptor of the thread's own, and both may be called in a signal handler.
 * -EBUSY: the thread speaks for itself, by a struct coop or from within coop_poll(), and is left alone; -EAGAIN, -ENOMEM: at a
 * thread's first call.
 */
COOP_PUBLIC int coop_sleep_begin(uint64_t release);
COOP_PUBLIC uint64_t coop_sleep_end(void);

/* What the last call of the scheduler by this thread got. */
COOP_PUBLIC enum coop_promise coop_promise(void);

/*
 * Why that is COOP_PROMISE_NONE; 0 where it is not. Whatever it is, a later call may find it gone: limelight is asked again, each second where
 * it did not answer, after a minute where it refused.
 * -EINPROGRESS: it is too early to tell: this thread has not called yet, or limelight has not answered yet; -ENOTCONN: limelight is not here;
 * -EPROTONOSUPPORT: it is of a version that does not go with this library; -ENOTSUP: this process is in a time namespace whose CLOCK_MONOTONIC is not
 * the scheduler's; -EDQUOT: this user has as many cooperative processes as each may;
 * -ENOSPC: all users together have as many as there can be; -EAGAIN: limelight is too busy, or has nothing left to share with this process;
 * -EUSERS: this process has as many cooperative threads as it may; -ENODATA: this thread has its place, but no scheduler answers it: limelight
 * has just ended, the thread is of a real-time class, which limelight does not schedule, or its user has as many cooperative threads as each may;
 * -ECONNRESET: it hung up, or has just ended; -ETIMEDOUT: it did not answer; -EPROTO: what it answered made no sense; -ENOMEM; -EMFILE, -ENFILE: no
 * descriptor left; or what else socket(2) and connect(2) fail with.
 */
COOP_PUBLIC int coop_promise_error(void);

#ifdef __cplusplus
}
#endif

#endif /* COOP_H */
