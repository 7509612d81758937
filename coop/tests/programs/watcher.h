/* SPDX-License-Identifier: MIT */
/*
 * What a thread's slot says while it sleeps in a call that libcoop-preload.so wraps: a second thread, which never polls, looks at it meanwhile.
 */
#ifndef COOP_TEST_WATCHER_H
#define COOP_TEST_WATCHER_H

#include "scheduler.h"

/* How long a thread may be kept from the CPU in the middle of a few instructions, on a busy machine. What is told apart is further apart. */
#define BUSY_NS (100 * MS)

/* What a thread waits for, besides time. */
struct waiting {
	int pipe;	/* never readable */
	int timer;	/* in the call's set of descriptors; -1: none */
	int set;	/* an epoll set of the two */
};

/* A call that waits for that, or for a time. */
struct way {
	const char *name;
	int (*wait)(const struct waiting *waiting, int timeout_ms);
};

/* A pipe, and a set with it in. */
struct waiting nothing(void);
/* A timerfd, blocking, that is due at `when`, in ns of CLOCK_MONOTONIC; 0: never. */
int new_timer(uint64_t when);
void set_timer(int timer, uint64_t when);

/* The main thread's slot. */
extern struct coop_slot *watched;
/* What stood there last while it slept. */
extern struct coop_request asleep;
/* Waits, which has to give `result`; what `asleep` is then: all zeros where the watching thread has not run meanwhile. */
struct coop_request seen_while(const struct way *way, const struct waiting *waiting, int timeout_ms, int result);
/* Nothing was seen: try again. On a busy machine the thread that watches may come too late, but not so often. */
bool has_seen_nothing(void);
/* As begin(), until this thread has a slot: its first calls ask for the page. */
struct server *begin_timed(void);

#endif
