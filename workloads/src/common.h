/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared by the workload programs: clocks, argument parsing, work of a known length.
 *
 * All times come from CLOCK_MONOTONIC, which is virtual time where the laboratory measures.
 */
#ifndef LIMELIGHT_WORKLOADS_COMMON_H
#define LIMELIGHT_WORKLOADS_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define NS_PER_US 1000ULL
#define NS_PER_MS 1000000ULL
#define NS_PER_S 1000000000ULL

/* Now, in ns of CLOCK_MONOTONIC. */
uint64_t now_ns(void);

/* CPU time this thread has used, in ns. */
uint64_t thread_cpu_ns(void);

/* Sleeps until the CLOCK_MONOTONIC time `when_ns`. */
void sleep_until_ns(uint64_t when_ns);

/* Some microseconds of arithmetic: between two looks at a clock, which is a system call here, so that those are a small part. */
void burn_some(void);

/* Uses `cpu_ns` of this thread's own CPU time, whoever else runs meanwhile. */
void burn_cpu_ns(uint64_t cpu_ns);

/* SIGTERM ends neither this thread nor those that it starts: await_end() waits for it. */
void hold_end(void);
void await_end(void);

/*
 * Does `steps_per_ms` steps of arithmetic (seven instructions each) for each ms of `us`, however long they take: what comes between, interrupts and
 * switches, is no work. With 0 of them it uses so much CPU time.
 */
void burn_us(uint64_t us, uint64_t steps_per_ms);

/* Prints "PROGRAM: message" and exits with status 2 (usage) or 1 (system). */
void die_usage(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void die_errno(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* Starts process `index` of `count`, counted from 0, which dies with the caller: true in it, false in the caller. Dies where there is no more. */
bool fork_one(uint64_t index, uint64_t count);

/* Parses `text` as a whole number in [low, high], or dies naming `what`, the value and the range. */
uint64_t parse_number(const char *what, const char *text, uint64_t low, uint64_t high);

/* xorshift64*: the same seed gives the same sequence everywhere. The seed 0 is taken as 1. */
struct random_state {
	uint64_t value;
};
void random_seed(struct random_state *state, uint64_t seed);
uint64_t random_next(struct random_state *state);
/* Uniform in [low, high]. */
uint64_t random_between(struct random_state *state, uint64_t low, uint64_t high);

/*
 * Puts the caller above every ordinary task (SCHED_FIFO): for measuring instruments only, so that what they see is not
 * their own waiting. Children fall back to the ordinary class. Dies when not allowed, unless `optional`.
 */
void become_instrument(bool optional);

/* Ends that: to write what was seen, and to end, takes ms in which nobody else would run. */
void become_ordinary(void);

/* Keeps the caller, and whom it starts, on CPU 0, or dies. */
void pin_to_one_cpu(void);

/* A growing list of sample values (ns), kept in memory and written after the run. */
struct samples {
	uint64_t *values;
	size_t count, room;
};
void samples_add(struct samples *samples, uint64_t value_ns);
/* Writes `"name_ns": [..]` without a line break. */
void samples_write(FILE *out, const char *name, const struct samples *samples);
/* The same of what is no time: `unit` is written behind the name. */
void samples_write_in(FILE *out, const char *name, const char *unit, const struct samples *samples);

#endif
