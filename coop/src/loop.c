// SPDX-License-Identifier: MIT
/*
 * The application scheduler (section 2): one per thread, non-preemptive.
 *
 * It works in passes. A pass runs the timers that are due, in order of release; then what descriptors are ready; then, while no
 * timer is due, best-effort events in order of user virtual time. Between passes the thread asks the scheduler
 * (thread.c): when its slice is over, when somebody else's release has come, when another thread of its group has more important
 * work, or when it has nothing to do and sleeps.
 *
 * The promises: due timers before anything else, in order. A descriptor waits for no more than the due timers, the ready descriptors
 * and PASS_NS of best-effort events, and somebody else's turn after each of these. Whatever the scheduler advises, a pass without a due timer
 * runs one ready descriptor, and one event, and of two passes in a row one runs a ready descriptor: who was
 * given the CPU without having been due has at least a minimum slice (100 us in the paper), and coop_slack (1 ms) beyond it.
 *
 * What it is bad at: an event that runs long delays all others of its thread, and timers that are always due starve the rest.
 * Both are the program's to avoid (sections 2 and 2.3).
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "internal.h"

/* How long best-effort events keep descriptors waiting: the paper's bound on one event, and its coop_slack. */
#define PASS_NS (1 * NS_PER_MS)
/* Best-effort events do not run for longer without asking the scheduler: the paper's period (section 3.2), in which everybody
 * gets a turn. Without a scheduler this is how often the thread yields. */
#define PERIOD_NS (20 * NS_PER_MS)
/* Descriptors looked at in one pass; more wait for the next one. */
#define READY_AT_ONCE 32

_Static_assert(POLLIN == EPOLLIN && POLLOUT == EPOLLOUT && POLLPRI == EPOLLPRI && POLLRDHUP == EPOLLRDHUP &&
	       POLLERR == EPOLLERR && POLLHUP == EPOLLHUP, "events cross from poll to epoll as they are");

struct coop {
	struct thread *thread;
	unsigned int forks;		/* of the process that made it */
	int epoll_fd;			/* all descriptors, and the thread's timer, whose event is NULL */
	u32 gid;
	struct queue timers;		/* by release */
	struct queue best_effort;	/* by user virtual time */
	struct queue descriptors;	/* to know who is there */
	u64 order;			/* of the next submission */
	u64 call;			/* the last one */
	struct advice heard;		/* in the answer to it */
	struct advice advice;		/* and what is made of it: yield_by_ns is never further away than PERIOD_NS */
	struct epoll_event ready[READY_AT_ONCE];
	int ready_count;
	bool more_ready;		/* some of them were left for after somebody else's turn */
	bool put_off;			/* all of them were */
	bool dispatching;		/* inside coop_dispatch() or coop_run() */
	bool running;			/* inside coop_run(): nobody else's loop waits for the end of a pass */
	bool stopped;
	bool is_watched;		/* somebody else's loop may be waiting for epoll_fd */
	bool has_told;			/* a request stands in the slot for the time that loop sleeps */
};

static int check(const struct coop *coop)
{
	const struct thread *self = thread_known();

	if (!coop)
		return -EINVAL;
	if (coop->forks != thread_forks())
		return -ECHILD;
	return self && self->loop == coop ? 0 : -EPERM;
}

int coop_new(struct coop **result)
{
	struct coop *coop;
	int error;

	if (!result)
		return -EINVAL;
	coop = calloc(1, sizeof(*coop));
	if (!coop)
		return -ENOMEM;
	coop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	error = coop->epoll_fd < 0 ? -errno : thread_bind(coop, &coop->thread);
	if (!error) {
		struct epoll_event timer = { .events = EPOLLIN };

		if (!epoll_ctl(coop->epoll_fd, EPOLL_CTL_ADD, coop->thread->timer_fd, &timer)) {
			coop->forks = thread_forks();
			*result = coop;
			return 0;
		}
		error = -errno;
		coop->thread->loop = NULL;
	}
	if (coop->epoll_fd >= 0)
		close(coop->epoll_fd);
	free(coop);
	return error;
}

static void give_back(struct queue *queue)
{
	for (size_t place = 0; place < queue->count; place++)
		queue->nodes[place].event->owner = NULL;
	free(queue->nodes);
}

int coop_free(struct coop *coop)
{
	const int error = check(coop);
	struct advice unused;

	if (!coop)
		return 0;
	if (error && error != -ECHILD)
		return error;
	if (coop->dispatching)
		return -EBUSY;
	if (!error) {
		(void)thread_hear(coop->thread, &unused, NO_EVIDENCE);
		thread_arm(coop->thread, 0);
		coop->thread->loop = NULL;
	}
	/* In a child this closes its copy only: the parent's interest in its descriptors stays. */
	close(coop->epoll_fd);
	give_back(&coop->timers);
	give_back(&coop->best_effort);
	give_back(&coop->descriptors);
	free(coop);
	return 0;
}

static struct wish wish_of(const struct coop *coop, u64 release_ns)
{
	return (struct wish){
		.gid = coop->gid,
		.release_ns = release_ns,
		.user_virtual_time = queue_first_key(&coop->best_effort),
	};
}

static void take_advice(struct coop *coop, const struct advice *advice)
{
	const u64 latest_ns = coop_now() + PERIOD_NS;

	coop->call = coop->thread->call;
	coop->heard = *advice;
	coop->advice = *advice;
	if (coop->advice.yield_by_ns > latest_ns)
		coop->advice.yield_by_ns = latest_ns;
}

/*
 * After somebody else's loop may have slept: the scheduler has answered if it did. If it did not, the old advice stands. Without a
 * scheduler another period begins.
 */
static void back_from_outer_loop(struct coop *coop)
{
	struct advice advice;

	if (coop->has_told && (thread_hear(coop->thread, &advice, NO_EVIDENCE) || coop->thread->promise == COOP_PROMISE_NONE))
		take_advice(coop, &advice);
	coop->has_told = false;
}

/*
 * Before somebody else's loop may sleep: makes epoll_fd readable when something will be due, and tells the scheduler what
 * this thread will have slept for. Nothing to do in a callback: the end of the dispatch does it once.
 */
static void prepare_for_outer_loop(struct coop *coop)
{
	struct wish wish;
	u64 release_ns;

	if (!coop->is_watched || coop->dispatching)
		return;
	release_ns = queue_first_key(&coop->timers);
	wish = wish_of(coop, release_ns);
	back_from_outer_loop(coop);
	if (coop->best_effort.count || release_ns == 0) {
		/* Any time in the past: the timer is ready at once. */
		thread_arm(coop->thread, 1);
		return;
	}
	thread_arm(coop->thread, release_ns == COOP_NEVER ? 0 : release_ns);
	thread_ask(coop->thread, &wish, COOP_STATE_SLEEPS);
	coop->has_told = true;
}

int coop_set_group(struct coop *coop, uint32_t gid)
{
	const int error = check(coop);

	if (error)
		return error;
	coop->gid = gid;
	prepare_for_outer_loop(coop);
	return 0;
}

static struct queue *queue_of(struct coop *coop, const struct coop_event *event)
{
	switch (event->type) {
	case COOP_TIMER:
		return &coop->timers;
	case COOP_BEST_EFFORT:
		return &coop->best_effort;
	case COOP_DESCRIPTOR:
		return &coop->descriptors;
	}
	return NULL;
}

/* What an event is sorted by; COOP_NEVER where that is no legal value. */
static u64 key_of(const struct coop_event *event)
{
	const uint32_t all = POLLIN | POLLOUT | POLLPRI | POLLRDHUP;

	switch (event->type) {
	case COOP_TIMER:
		return event->release;
	case COOP_BEST_EFFORT:
		return event->user_virtual_time;
	case COOP_DESCRIPTOR:
		return event->events && !(event->events & ~all) ? 0 : COOP_NEVER;
	}
	return COOP_NEVER;
}

static int watch_descriptor(const struct coop *coop, struct coop_event *event)
{
	struct epoll_event interest = { .events = event->events, .data.ptr = event };

	if (!epoll_ctl(coop->epoll_fd, EPOLL_CTL_ADD, event->fd, &interest))
		return 0;
	return errno == EPERM ? -EOPNOTSUPP : -errno;
}

/* Takes an event out of its queue; it is the caller's again. */
static void take_out(struct coop *coop, struct coop_event *event)
{
	queue_remove(queue_of(coop, event), event);
	event->owner = NULL;
	if (event->type != COOP_DESCRIPTOR)
		return;
	/* Fails where the descriptor was closed first: then the kernel has forgotten it by itself, if that was the last one of its file. */
	(void)epoll_ctl(coop->epoll_fd, EPOLL_CTL_DEL, event->fd, NULL);
	for (int i = 0; i < coop->ready_count; i++)
		if (coop->ready[i].data.ptr == event)
			coop->ready[i].data.ptr = NULL;
}

int coop_submit(struct coop *coop, struct coop_event *event)
{
	struct queue *queue;
	int error = check(coop);

	if (error)
		return error;
	if (!event || !event->callback || key_of(event) == COOP_NEVER)
		return -EINVAL;
	if (event->owner)
		return -EBUSY;
	queue = queue_of(coop, event);
	error = queue_push(queue, event, key_of(event), coop->order);
	if (error)
		return error;
	if (event->type == COOP_DESCRIPTOR)
		error = watch_descriptor(coop, event);
	if (error) {
		queue_remove(queue, event);
		return error;
	}
	coop->order++;
	event->owner = coop;
	prepare_for_outer_loop(coop);
	return 0;
}

int coop_cancel(struct coop *coop, struct coop_event *event)
{
	const int error = check(coop);

	if (error)
		return error;
	if (!event)
		return -EINVAL;
	if (!event->owner)
		return -ENOENT;
	if (event->owner != coop)
		return -EBUSY;
	take_out(coop, event);
	prepare_for_outer_loop(coop);
	return 0;
}

static void run_event(struct coop *coop, struct coop_event *event)
{
	take_out(coop, event);
	event->callback(coop, event);
	/* A child made in the callback must not go on in its parent's place: what it took out would be out for the parent, too. */
	if (coop->forks != thread_forks())
		coop->stopped = true;
}

/* Those that were submitted before the pass began: a timer that submits itself as due keeps nothing else from its turn. */
static int run_timers(struct coop *coop)
{
	const u64 limit = coop->order;
	int ran = 0;

	while (!coop->stopped && queue_first_key(&coop->timers) <= coop_now() && coop->timers.nodes[0].order < limit) {
		run_event(coop, coop->timers.nodes[0].event);
		ran++;
	}
	return ran;
}

/* Is it over, the time that this thread was told? */
static bool is_turn_over(struct coop *coop, u64 now_ns)
{
	struct advice advice = coop->heard;

	/* It may have been preempted since it was told, and be told another time now. What was said to others of this thread is not for it. */
	if (coop->thread->call == coop->call && thread_hear_again(coop->thread, &advice) &&
	    (advice.yield_by_ns != coop->heard.yield_by_ns || advice.user_virtual_time != coop->heard.user_virtual_time))
		take_advice(coop, &advice);
	return now_ns >= coop->advice.yield_by_ns;
}

/* Is it somebody else's turn, as far as this thread was told? */
static bool has_to_yield(struct coop *coop, u64 now_ns)
{
	return is_turn_over(coop, now_ns) ||
	       (coop->best_effort.count && queue_first_key(&coop->best_effort) > coop->advice.user_virtual_time);
}

/*
 * Those that are left are ready still when the kernel is asked the next time, and come before the ones that ran: these are new to it. Where timers
 * were due, all are left for after somebody else's turn, which may be a due one, too; once, or timers that are always due would keep them for good.
 * Not in somebody else's loop, which may not come back soon.
 */
static int run_descriptors(struct coop *coop, bool was_due)
{
	const bool may_wait = was_due && coop->running && !coop->put_off && coop->thread->promise != COOP_PROMISE_NONE;
	int ran = 0;

	coop->more_ready = coop->put_off = false;
	if (coop->descriptors.count && !coop->ready_count)
		coop->ready_count = epoll_wait(coop->epoll_fd, coop->ready, READY_AT_ONCE, 0);
	for (int i = 0; i < coop->ready_count && !coop->stopped; i++) {
		struct coop_event *event = coop->ready[i].data.ptr;

		if (!event)
			continue;
		coop->more_ready = (ran || may_wait) && is_turn_over(coop, coop_now());
		if (coop->more_ready) {
			coop->put_off = !ran;
			break;
		}
		event->revents = coop->ready[i].events;
		run_event(coop, event);
		ran++;
	}
	coop->ready_count = 0;
	return ran;
}

/* Does the pass that began at `begin_ns` end now, because descriptors wait, or somebody else's loop does? */
static bool is_pass_over(const struct coop *coop, u64 begin_ns, u64 now_ns)
{
	return now_ns - begin_ns >= PASS_NS && (coop->descriptors.count || !coop->running);
}

static int run_best_effort(struct coop *coop, bool was_due)
{
	const u64 begin_ns = coop_now();
	u64 now_ns = begin_ns;
	int ran = 0;

	while (!coop->stopped && coop->best_effort.count && queue_first_key(&coop->timers) > now_ns && !is_pass_over(coop, begin_ns, now_ns)) {
		if ((ran || was_due) && has_to_yield(coop, now_ns))
			break;
		run_event(coop, coop->best_effort.nodes[0].event);
		ran++;
		now_ns = coop_now();
	}
	return ran;
}

/* coop_poll with something to run. */
static void yield(struct coop *coop)
{
	const struct wish wish = wish_of(coop, queue_first_key(&coop->timers));
	struct advice advice;

	thread_ask(coop->thread, &wish, COOP_STATE_YIELDS);
	sched_yield();
	(void)thread_hear(coop->thread, &advice, PROOF);
	take_advice(coop, &advice);
}

/*
 * coop_poll with nothing to run before `until_ns`, or before a descriptor is ready. Where one was, nobody slept: the scheduler has heard nothing of
 * it, and holds this thread to what it said before, so that it yields. Where the scheduler seems not to be there it is asked once in a period, and
 * where there is no limelight not at all: whoever has slept must not wait for others then.
 */
static void sleep_until(struct coop *coop, u64 until_ns)
{
	const struct wish wish = wish_of(coop, until_ns);
	struct advice advice;

	thread_arm(coop->thread, until_ns == COOP_NEVER ? 0 : until_ns);
	thread_ask(coop->thread, &wish, COOP_STATE_SLEEPS);
	coop->ready_count = epoll_wait(coop->epoll_fd, coop->ready, READY_AT_ONCE, -1);
	if (thread_hear(coop->thread, &advice, HINT) || !coop->thread->slot)
		take_advice(coop, &advice);
	else if (coop->thread->promise != COOP_PROMISE_NONE || coop_now() >= coop->advice.yield_by_ns)
		yield(coop);
}

/* Gives the CPU up where that is due. */
static int ask_scheduler(struct coop *coop, int64_t timeout_ns)
{
	const u64 now_ns = coop_now(), release_ns = queue_first_key(&coop->timers);
	u64 until_ns = release_ns;

	if (release_ns <= now_ns && coop->thread->promise == COOP_PROMISE_NONE)
		/* Nobody would give the CPU back for it. */
		return 0;
	if (coop->best_effort.count || coop->more_ready || release_ns <= now_ns) {
		if (has_to_yield(coop, now_ns))
			yield(coop);
		return 0;
	}
	if (timeout_ns == 0) {
		/* Somebody else's loop may have found a descriptor ready without having slept. */
		if (coop->descriptors.count && coop->thread->promise != COOP_PROMISE_NONE && is_turn_over(coop, now_ns))
			yield(coop);
		return 0;
	}
	if (timeout_ns > 0 && now_ns + (u64)timeout_ns < until_ns)
		until_ns = now_ns + (u64)timeout_ns;
	if (until_ns == COOP_NEVER && !coop->descriptors.count)
		return -ENOENT;
	sleep_until(coop, until_ns);
	return 0;
}

static int dispatch(struct coop *coop, int64_t timeout_ns)
{
	int error, timers, ran;

	back_from_outer_loop(coop);
	error = ask_scheduler(coop, timeout_ns);
	if (error)
		return error;
	timers = run_timers(coop);
	ran = timers + run_descriptors(coop, timers > 0);
	return ran + run_best_effort(coop, timers > 0);
}

/* Entering and leaving what runs events. */
static int begin(struct coop *coop)
{
	const int error = check(coop);

	if (error)
		return error;
	if (coop->dispatching)
		return -EBUSY;
	coop->dispatching = true;
	coop->stopped = false;
	return 0;
}

static int end(struct coop *coop, int result)
{
	coop->dispatching = false;
	if (coop->forks != thread_forks())
		return -ECHILD;
	prepare_for_outer_loop(coop);
	return result;
}

int coop_dispatch(struct coop *coop, int64_t timeout_ns)
{
	const int error = begin(coop);

	return error ? error : end(coop, dispatch(coop, timeout_ns));
}

int coop_run(struct coop *coop)
{
	int result = begin(coop);

	if (result)
		return result;
	coop->running = true;
	while (!coop->stopped && result >= 0)
		result = dispatch(coop, -1);
	coop->running = false;
	return end(coop, result < 0 ? result : 0);
}

int coop_stop(struct coop *coop)
{
	const int error = check(coop);

	if (error)
		return error;
	if (!coop->dispatching)
		return -ENOENT;
	coop->stopped = true;
	return 0;
}

int coop_get_fd(struct coop *coop)
{
	const int error = check(coop);

	if (error)
		return error;
	coop->is_watched = true;
	prepare_for_outer_loop(coop);
	return coop->epoll_fd;
}
