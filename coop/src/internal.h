/* SPDX-License-Identifier: MIT */
/*
 * What the parts of libcoop know of each other: loop.c (the application scheduler, section 2) stands on thread.c (one
 * thread's conversation with the scheduler, section 3.1), which stands on attach.c (how the process got its page).
 */
#ifndef COOP_INTERNAL_H
#define COOP_INTERNAL_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "coop.h"
#include "coop_abi.h"

#define NS_PER_MS 1000000ULL
#define NS_PER_S 1000000000ULL

static inline struct timespec timespec_of(u64 ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S) };
}

/* The page of this process: shared by its threads, unmapped by the last one to leave. */
struct page {
	struct coop_slot *cells;	/* cell 0 is the header */
	size_t bytes;
	u32 slots;
	atomic_uint holders;
};

/* When attach_step() is next worth its system calls; any thread may look. */
extern _Atomic(u64) attach_next_ns;
/* The current page; only to be compared. attach_hold() is how to use it. */
extern _Atomic(struct page *) attach_page;
/* Why there is none, as coop_promise_error() has it; 0: there is one, or there is no answer yet. */
extern _Atomic(int) attach_error;

/* One step of getting or losing the page; never waits. */
void attach_step(u64 now_ns);
/* Steps until there is a page, or it is clear that there will be none, or `patience_ms` have passed. */
void attach_wait(int patience_ms);
/*
 * Asks the daemon, and waits for the answer, a second at most. 0 or the daemon's errno; -ENOTCONN: there is no page, so nobody to
 * be asked; -ECONNRESET: it hung up instead; -ETIMEDOUT; -EPROTO: it talks nonsense.
 */
int attach_ask(struct coop_ask *ask, struct coop_reply *reply);
/* The current page, held, or NULL. */
struct page *attach_hold(void);
void attach_release(struct page *page);
/* As the library is loaded. */
void attach_make_room(void);
/* Around fork(): the child starts without page and connection. */
void attach_before_fork(void);
void attach_in_parent(void);
void attach_in_child(void);
/* The same in a child that was made behind fork()'s back: nobody took the lock for it. */
void attach_in_unseen_child(void);

/*
 * A stretch in which this thread is neither interrupted by a handler (which may call into the library, for poll(2) is allowed
 * there, and libcoop-preload.so sits in it) nor cancelled: what is half done, or locked, would stay so.
 */
struct stretch {
	sigset_t mask;
	int cancel_state;
};

void stretch_begin(struct stretch *stretch);
void stretch_end(const struct stretch *stretch);

/* One thread's side of the conversation. */
struct thread {
	struct page *page;	/* held; NULL where there is none */
	struct coop_slot *slot;	/* this thread's; NULL also where all were taken */
	struct coop *loop;	/* its application scheduler */
	bool polls;		/* it is in coop_poll() */
	bool sleeps;		/* it is between coop_sleep_begin() and coop_sleep_end() */
	u64 sleeps_until_ns;	/* what it said there */
	u64 look_ns;		/* when it is next worth looking for a free slot */
	u64 call;		/* of the last request */
	u64 armed_ns;		/* what the timer is set to; 0: to nothing */
	int timer_fd;		/* -1, or a timerfd, because those know no timer slack: other sleeps end up to 50 us late */
	unsigned int missed;	/* evidence since the last answer that there is no scheduler */
	enum coop_promise promise;
};

/* What a thread tells: COOP_NEVER where it has none. */
struct wish {
	u32 gid;
	u64 release_ns;
	u64 user_virtual_time;
};

/* What it is told: COOP_NEVER where there is none, or no scheduler. */
struct advice {
	u64 yield_by_ns;
	u64 user_virtual_time;
};

/* How many fork()s lie between the first process and this one. In a child that was made by clone(2) itself, the first call starts over. */
unsigned int thread_forks(void);

/* The calling thread's, made on its first call; NULL with a negative errno in *error, which is otherwise left or set to 0. */
struct thread *thread_self(int *error);
/* The same if there is one. */
struct thread *thread_known(void);
/* Makes its timer where it has none: 0 or a negative errno. */
int thread_open_timer(struct thread *self);
/* Writes the request. The caller then gives up the CPU. */
void thread_ask(struct thread *self, const struct wish *wish, enum coop_state state);
/*
 * What a missing answer says: a scheduler sees every sched_yield(), but not a sleep that was over before it began (so it takes
 * two in a row), and nothing is known of what somebody else's loop did in between.
 */
enum evidence {
	NO_EVIDENCE = 0,
	HINT = 1,
	PROOF = 2,
};

/* Reads the answer, and says that the thread runs. False where there is none. */
bool thread_hear(struct thread *self, struct advice *advice, enum evidence evidence);
/* The answer to the same call, which is another one after the thread was preempted. False where there is none: then `advice` is as it was. */
bool thread_hear_again(struct thread *self, struct advice *advice);
/* Sets the timer to an absolute time; 0: to nothing. */
void thread_arm(struct thread *self, u64 when_ns);
/* What coop_new() and coop_free() do to the thread. */
int thread_bind(struct coop *loop, struct thread **self);

/* A queue of events by (key, order of submission): a binary heap whose events know their place. */
struct node {
	u64 key;
	u64 order;
	struct coop_event *event;
};

struct queue {
	struct node *nodes;
	size_t count, room;
};

/* -ENOMEM leaves the queue as it was. */
int queue_push(struct queue *queue, struct coop_event *event, u64 key, u64 order);
/* Takes out an event that is in this queue. */
void queue_remove(struct queue *queue, struct coop_event *event);
/* Key of the first; COOP_NEVER where it is empty. */
static inline u64 queue_first_key(const struct queue *queue)
{
	return queue->count ? queue->nodes[0].key : COOP_NEVER;
}

#endif /* COOP_INTERNAL_H */
