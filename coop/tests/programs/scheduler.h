/* SPDX-License-Identifier: MIT */
/*
 * Stands in for the scheduler in tests: a program that links it has a sched_yield() of its own, which the library calls as it
 * would the kernel's. It sees the thread's slot and answers in it, as ops.yield will.
 */
#ifndef COOP_TEST_SCHEDULER_H
#define COOP_TEST_SCHEDULER_H

#include <coop.h>

#include "server.h"

/* What it answers next; it fills in the call. */
extern struct coop_answer next_answer;
void answer_with(u64 release_ns, u64 slice_end_ns, u64 user_virtual_time, u32 standing);
/* False: nobody answers. */
extern bool scheduler_is_there;
/* The page it looks at. */
extern struct coop_slot *shared;
/* What it was told last, and how often it was told something. */
extern struct coop_request last_request;
extern int yields;
/* And how often a thread let it know that it is there. */
extern int introductions;
/* Runs before it answers. */
extern void (*on_yield)(void);

/* The calling thread's slot; NULL where it has none. */
struct coop_slot *own_slot(void);
/* A daemon that is right, and this scheduler, which lets everybody run for ever. */
struct server *begin(void);
/* The same, and this thread's struct coop, attached. */
struct coop *begin_with_coop(struct server **server);
/* Calls coop_poll() once. */
enum coop_promise promise_of_a_call(void);
/* Calls until the promise is kept: where the machine is busy the page comes later than coop_new() waits. */
void wait_until_kept(struct server *server);

#endif
