// SPDX-License-Identifier: MIT
/*
 * One thread's conversation with the scheduler: coop_poll (section 3.1), as a slot in a page shared with the scheduler
 * (abi/include/coop_abi.h has the rules) and a system call that gives up the CPU. Nothing in the page is trusted further
 * than advice goes: the worst it can do is to make this thread yield too often, or too rarely.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

/* How long coop_new() waits for a daemon that is there. It starves at worst behind those it serves; who comes later is told later. */
#define PATIENCE_MS 10

unsigned int thread_forks;

static _Thread_local struct thread *known;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t at_exit;
static int once_error;

uint64_t coop_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static u32 thread_id(void)
{
	return (u32)syscall(SYS_gettid);
}

static void leave_page(struct thread *self)
{
	if (self->slot) {
		self->slot->request.state = COOP_STATE_RUNS;
		__atomic_store_n(&self->slot->request.tid, 0, __ATOMIC_RELEASE);
	}
	if (self->page)
		attach_release(self->page);
	self->slot = NULL;
	self->page = NULL;
}

static void end_thread(void *data)
{
	struct thread *self = data;

	leave_page(self);
	close(self->timer_fd);
	free(self);
	known = NULL;
}

/* The child's only thread is the caller of fork(). Its timer and its slot are still the parent's. */
static void start_over_in_child(void)
{
	thread_forks++;
	attach_in_child();
	if (!known)
		return;
	close(known->timer_fd);
	free(known);
	known = NULL;
	pthread_setspecific(at_exit, NULL);
}

static void prepare_process(void)
{
	once_error = -pthread_key_create(&at_exit, end_thread);
	if (!once_error)
		once_error = -pthread_atfork(attach_before_fork, attach_in_parent, start_over_in_child);
}

static struct thread *new_thread(int *error)
{
	struct thread *self;

	pthread_once(&once, prepare_process);
	*error = once_error;
	if (once_error)
		return NULL;
	self = calloc(1, sizeof(*self));
	if (!self) {
		*error = -ENOMEM;
		return NULL;
	}
	self->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	if (self->timer_fd < 0) {
		*error = -errno;
		free(self);
		return NULL;
	}
	*error = -pthread_setspecific(at_exit, self);
	if (*error) {
		close(self->timer_fd);
		free(self);
		return NULL;
	}
	known = self;
	return self;
}

struct thread *thread_known(void)
{
	return known;
}

struct thread *thread_self(int *error)
{
	return known ? known : new_thread(error);
}

int thread_bind(struct coop *loop, struct thread **self)
{
	int error;

	*self = thread_self(&error);
	if (!*self)
		return error;
	if ((*self)->loop)
		return -EBUSY;
	(*self)->loop = loop;
	if (!(*self)->page)
		attach_wait(PATIENCE_MS);
	return 0;
}

/* Takes a free slot, or the one this thread has already by another copy of this library. */
static struct coop_slot *take_slot(const struct page *page)
{
	const u32 tid = thread_id();

	for (u32 index = 1; index <= page->slots; index++) {
		struct coop_slot *slot = &page->cells[index];
		u32 holder = 0;

		if (__atomic_compare_exchange_n(&slot->request.tid, &holder, tid, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED) || holder == tid)
			return slot;
	}
	return NULL;
}

/* Where the process has another page than this thread, or this thread has no slot yet. */
static void settle(struct thread *self, u64 now_ns)
{
	if (now_ns >= atomic_load_explicit(&attach_next_ns, memory_order_relaxed))
		attach_step(now_ns);
	if (self->page != atomic_load_explicit(&attach_page, memory_order_relaxed)) {
		leave_page(self);
		self->page = attach_hold();
	}
	if (self->page && !self->slot) {
		self->slot = take_slot(self->page);
		/* Higher than what an earlier holder of the slot may have been answered. */
		if (self->slot && self->slot->request.call > self->call)
			self->call = self->slot->request.call;
	}
}

void thread_ask(struct thread *self, const struct wish *wish, enum coop_state state)
{
	struct coop_request *request;

	settle(self, coop_now());
	self->call++;
	if (!self->slot)
		return;
	request = &self->slot->request;
	request->release_ns = wish->release_ns;
	request->user_virtual_time = wish->user_virtual_time;
	request->gid = wish->gid;
	request->state = state;
	__atomic_store_n(&request->call, self->call, __ATOMIC_RELEASE);
}

bool thread_hear(struct thread *self, struct advice *advice, enum evidence evidence)
{
	const struct coop_answer *answer;
	u64 release_ns, slice_end_ns;

	*advice = (struct advice){ .yield_by_ns = COOP_NEVER, .user_virtual_time = COOP_NEVER };
	if (self->slot)
		self->slot->request.state = COOP_STATE_RUNS;
	if (!self->slot || __atomic_load_n(&self->slot->answer.call, __ATOMIC_ACQUIRE) != self->call) {
		self->missed += evidence;
		if (!self->slot || self->missed >= PROOF)
			self->promise = COOP_PROMISE_NONE;
		return false;
	}
	self->missed = 0;
	answer = &self->slot->answer;
	release_ns = answer->release_ns;
	slice_end_ns = answer->slice_end_ns;
	advice->yield_by_ns = release_ns < slice_end_ns ? release_ns : slice_end_ns;
	advice->user_virtual_time = answer->user_virtual_time;
	self->promise = answer->standing == COOP_STANDING_GOOD ? COOP_PROMISE_KEPT : COOP_PROMISE_DEMOTED;
	return true;
}

void thread_arm(struct thread *self, u64 when_ns)
{
	/* The kernel takes signed seconds; what is later than 292 years comes then. */
	const u64 when = when_ns > INT64_MAX ? INT64_MAX : when_ns;
	const struct itimerspec setting = {
		.it_value = { .tv_sec = (time_t)(when / NS_PER_S), .tv_nsec = (long)(when % NS_PER_S) },
	};

	if (self->armed_ns == when_ns)
		return;
	self->armed_ns = when_ns;
	(void)timerfd_settime(self->timer_fd, TFD_TIMER_ABSTIME, &setting, NULL);
}

static int sleep_until(struct thread *self, u64 release_ns)
{
	struct pollfd timer = { .fd = self->timer_fd, .events = POLLIN };
	int error = 0;

	thread_arm(self, release_ns);
	/* A read() would be restarted by some signals. */
	if (poll(&timer, 1, -1) < 0)
		error = -errno;
	thread_arm(self, 0);
	return error;
}

int coop_poll(uint32_t gid, struct coop_event *timer, struct coop_event *best_effort)
{
	struct wish wish = { .gid = gid, .release_ns = COOP_NEVER, .user_virtual_time = COOP_NEVER };
	struct advice advice;
	struct thread *self;
	bool yields;
	int error = 0;

	if ((timer && timer->type != COOP_TIMER) || (best_effort && best_effort->type != COOP_BEST_EFFORT))
		return -EINVAL;
	if (timer)
		wish.release_ns = timer->release;
	if (best_effort)
		wish.user_virtual_time = best_effort->user_virtual_time;
	if (wish.release_ns == COOP_NEVER && wish.user_virtual_time == COOP_NEVER)
		return -EINVAL;
	self = thread_self(&error);
	if (!self)
		return error;
	yields = wish.user_virtual_time != COOP_NEVER || wish.release_ns <= coop_now();
	thread_ask(self, &wish, yields ? COOP_STATE_YIELDS : COOP_STATE_SLEEPS);
	if (yields)
		sched_yield();
	else
		error = sleep_until(self, wish.release_ns);
	(void)thread_hear(self, &advice, yields ? PROOF : HINT);
	if (timer)
		timer->release = advice.yield_by_ns;
	if (best_effort)
		best_effort->user_virtual_time = advice.user_virtual_time;
	return error;
}

enum coop_promise coop_promise(void)
{
	return known ? known->promise : COOP_PROMISE_NONE;
}
