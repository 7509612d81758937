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
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

/* How long coop_new() waits for a daemon that is there. It starves at worst behind those it serves; who comes later is told later. */
#define PATIENCE_MS 10

/* How long a thread that found no free slot does without. */
#define FULL_NS (100 * NS_PER_MS)
/* And how often one that has a slot, but goes unheard there, introduces itself again. */
#define AGAIN_NS NS_PER_S

static unsigned int forks;

/* A thread's own, so that its first call may be in a signal handler: nothing is allocated. */
static _Thread_local struct thread own;
static _Thread_local struct thread *known;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t at_exit;
static int once_error;
/*
 * 1, in memory that a child finds wiped: fork() tells of itself (pthread_atfork()), clone(2) does not, and its child has no page where
 * its parent's was. Where the kernel has no such memory it is always 1.
 */
static unsigned int *guard;

static u64 read_clock(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (u64)now.tv_sec * NS_PER_S + (u64)now.tv_nsec;
}

uint64_t coop_now(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

/*
 * coop_now() as of the last tick: for what has to be looked at many times a second at the most, at a quarter of the price, for every call pays it.
 */
static u64 now_roughly(void)
{
	return read_clock(CLOCK_MONOTONIC_COARSE);
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
	self->look_ns = 0;
	self->slot = NULL;
	self->page = NULL;
}

static void end_thread(void *data)
{
	struct thread *self = data;
	struct stretch stretch;

	stretch_begin(&stretch);
	leave_page(self);
	if (self->timer_fd >= 0)
		close(self->timer_fd);
	known = NULL;
	stretch_end(&stretch);
}

/* The child's only thread is the caller of fork(). Its timer and its slot are still the parent's. */
static void start_over(void)
{
	forks++;
	*guard = 1;
	if (!known)
		return;
	if (known->timer_fd >= 0)
		close(known->timer_fd);
	known = NULL;
	pthread_setspecific(at_exit, NULL);
}

static void start_over_in_child(void)
{
	attach_in_child();
	start_over();
}

static void make_guard(void)
{
	static unsigned int unguarded;
	const size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	guard = memory == MAP_FAILED || madvise(memory, bytes, MADV_WIPEONFORK) ? &unguarded : memory;
	*guard = 1;
}

static void prepare_process(void)
{
	make_guard();
	once_error = -pthread_key_create(&at_exit, end_thread);
	if (!once_error)
		once_error = -pthread_atfork(attach_before_fork, attach_in_parent, start_over_in_child);
}

/* As early as can be: a first call in a signal handler finds it done. */
__attribute__((constructor)) static void prepare_early(void)
{
	pthread_once(&once, prepare_process);
	attach_make_room();
}

/* Before anything that this thread had is looked at. */
static void notice_unseen_fork(void)
{
	if (!guard || *guard)
		return;
	attach_in_unseen_child();
	start_over();
}

unsigned int thread_forks(void)
{
	notice_unseen_fork();
	return forks;
}

static struct thread *new_thread(int *error)
{
	pthread_once(&once, prepare_process);
	*error = once_error ? once_error : -pthread_setspecific(at_exit, &own);
	if (*error)
		return NULL;
	own = (struct thread){ .timer_fd = -1 };
	known = &own;
	return known;
}

struct thread *thread_known(void)
{
	notice_unseen_fork();
	return known;
}

struct thread *thread_self(int *error)
{
	struct thread *self = thread_known();

	return self ? self : new_thread(error);
}

int thread_open_timer(struct thread *self)
{
	if (self->timer_fd < 0)
		self->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	return self->timer_fd < 0 ? -errno : 0;
}

int thread_bind(struct coop *loop, struct thread **self)
{
	int error;

	*self = thread_self(&error);
	if (!*self)
		return error;
	if ((*self)->loop)
		return -EBUSY;
	error = thread_open_timer(*self);
	if (error)
		return error;
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

		if (__atomic_compare_exchange_n(&slot->request.tid, &holder, tid, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
			/* Who had it before may have died asleep. */
			slot->request.state = COOP_STATE_RUNS;
			return slot;
		}
		if (holder == tid)
			return slot;
	}
	return NULL;
}

/* The scheduler looks at the pages of threads only that it knows, and it gets to know this one when that yields. */
static void introduce(struct thread *self)
{
	struct coop_request *request = &self->slot->request;

	/* Higher than what an earlier holder of the slot may have been answered. */
	if (request->call > self->call)
		self->call = request->call;
	/* What went unanswered without this slot says nothing of it. */
	self->missed = 0;
	request->state = COOP_STATE_RUNS;
	sched_yield();
}

/*
 * The scheduler may have let go of a thread that has its slot still: it was of a real-time class for a while, or its user had too many. Who yields is
 * taken up again by that; who only sleeps would not be.
 */
static bool is_unheard(const struct thread *self)
{
	return self->slot && self->missed >= PROOF;
}

/* Where the process has another page than this thread, or this thread has no slot yet, or nobody looks there. */
static void settle(struct thread *self)
{
	const u64 now_ns = now_roughly();
	struct stretch stretch;

	if (now_ns >= atomic_load_explicit(&attach_next_ns, memory_order_relaxed))
		attach_step(now_ns);
	if (self->page == atomic_load_explicit(&attach_page, memory_order_relaxed) &&
	    (!self->page || (self->slot && !is_unheard(self)) || now_ns < self->look_ns))
		return;
	stretch_begin(&stretch);
	if (self->page != atomic_load(&attach_page)) {
		leave_page(self);
		self->page = attach_hold();
	}
	if (self->page && !self->slot) {
		self->look_ns = now_ns + FULL_NS;
		self->slot = take_slot(self->page);
		if (self->slot)
			introduce(self);
	} else if (is_unheard(self)) {
		self->look_ns = now_ns + AGAIN_NS;
		introduce(self);
	}
	stretch_end(&stretch);
}

void thread_ask(struct thread *self, const struct wish *wish, enum coop_state state)
{
	struct coop_request *request;

	settle(self);
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

bool thread_hear_again(struct thread *self, struct advice *advice)
{
	const struct coop_answer *answer;
	u64 release_ns, slice_end_ns;

	if (!self->slot || __atomic_load_n(&self->slot->answer.call, __ATOMIC_ACQUIRE) != self->call)
		return false;
	answer = &self->slot->answer;
	release_ns = answer->release_ns;
	slice_end_ns = answer->slice_end_ns;
	advice->yield_by_ns = release_ns < slice_end_ns ? release_ns : slice_end_ns;
	advice->user_virtual_time = answer->user_virtual_time;
	self->promise = answer->standing == COOP_STANDING_GOOD ? COOP_PROMISE_KEPT : COOP_PROMISE_DEMOTED;
	return true;
}

bool thread_hear(struct thread *self, struct advice *advice, enum evidence evidence)
{
	*advice = (struct advice){ .yield_by_ns = COOP_NEVER, .user_virtual_time = COOP_NEVER };
	if (self->slot)
		self->slot->request.state = COOP_STATE_RUNS;
	if (thread_hear_again(self, advice)) {
		self->missed = 0;
		return true;
	}
	self->missed += evidence;
	if (!self->slot || is_unheard(self))
		self->promise = COOP_PROMISE_NONE;
	return false;
}

void thread_arm(struct thread *self, u64 when_ns)
{
	/* The kernel takes signed seconds; what is later than 292 years comes then. */
	const u64 when = when_ns > INT64_MAX ? INT64_MAX : when_ns;
	const struct itimerspec setting = {
		.it_value = timespec_of(when),
	};

	if (self->armed_ns == when_ns)
		return;
	self->armed_ns = when_ns;
	(void)timerfd_settime(self->timer_fd, TFD_TIMER_ABSTIME, &setting, NULL);
}

static int sleep_until(struct thread *self, u64 release_ns)
{
	/* What the thread's loop waits for in somebody else's. */
	const u64 before_ns = self->armed_ns;
	struct pollfd timer = { .fd = self->timer_fd, .events = POLLIN };
	int error = 0;

	thread_arm(self, release_ns);
	/* A read() would be restarted by some signals. */
	if (poll(&timer, 1, -1) < 0)
		error = -errno;
	thread_arm(self, self->loop ? before_ns : 0);
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
	if (!yields)
		error = thread_open_timer(self);
	if (error)
		return error;
	self->polls = true;
	thread_ask(self, &wish, yields ? COOP_STATE_YIELDS : COOP_STATE_SLEEPS);
	if (yields)
		sched_yield();
	else
		error = sleep_until(self, wish.release_ns);
	(void)thread_hear(self, &advice, yields ? PROOF : HINT);
	self->polls = false;
	if (timer)
		timer->release = advice.yield_by_ns;
	if (best_effort)
		best_effort->user_virtual_time = advice.user_virtual_time;
	return error;
}

/* Another copy of this library in the same process may have the same slot. */
static bool does_another_copy_sleep(const struct thread *self)
{
	return self->slot && !self->sleeps && self->slot->request.state != COOP_STATE_RUNS;
}

int coop_sleep_begin(uint64_t release)
{
	const struct wish wish = { .gid = COOP_GROUP_SELF, .release_ns = release, .user_virtual_time = COOP_NEVER };
	struct thread *self;
	int error;

	self = thread_self(&error);
	if (!self)
		return error;
	if (self->loop || self->polls)
		return -EBUSY;
	settle(self);
	if (does_another_copy_sleep(self))
		return -EBUSY;
	self->sleeps = true;
	self->sleeps_until_ns = release;
	thread_ask(self, &wish, COOP_STATE_SLEEPS);
	return 0;
}

uint64_t coop_sleep_end(void)
{
	struct thread *self = thread_known();
	struct advice advice;

	if (!self || !self->sleeps)
		return COOP_NEVER;
	self->sleeps = false;
	/* What something else woke may not have slept at all. */
	(void)thread_hear(self, &advice, coop_now() >= self->sleeps_until_ns ? HINT : NO_EVIDENCE);
	return advice.yield_by_ns;
}

enum coop_promise coop_promise(void)
{
	const struct thread *self = thread_known();

	return self ? self->promise : COOP_PROMISE_NONE;
}

int coop_promise_error(void)
{
	const struct thread *self = thread_known();
	int error;

	if (self && self->promise != COOP_PROMISE_NONE)
		return 0;
	if (self && self->page && self->page == atomic_load(&attach_page)) {
		if (!self->slot)
			return -EUSERS;
		return is_unheard(self) ? -ENODATA : -EINPROGRESS;
	}
	error = atomic_load(&attach_error);
	return error ? error : -EINPROGRESS;
}
