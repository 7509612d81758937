/* SPDX-License-Identifier: MIT */
/*
 * A test program is a table of cases. `PROGRAM CASE` runs one: status 0 it passed, 1 a check failed and was named, 77 it cannot
 * run here. `PROGRAM --list` names them. What a case shows and why its bounds are as they are is said by the Python test of the
 * same name.
 */
#ifndef COOP_TESTING_H
#define COOP_TESTING_H

#include <stdio.h>
#include <stdlib.h>

#include <coop.h>

#define MS 1000000ull
#define US 1000ull
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

struct test_case {
	const char *name;
	void (*run)(void);
};

extern const struct test_case cases[];
extern const size_t case_count;

/* Ends the case as failed, with both values. */
#define CHECK_EQ(have, want)                                                                                            \
	do {                                                                                                            \
		const long long have_ = (long long)(have), want_ = (long long)(want);                                   \
		if (have_ != want_) {                                                                                   \
			fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #have, have_, want_);      \
			exit(1);                                                                                        \
		}                                                                                                       \
	} while (0)

#define CHECK(condition)                                                                                                \
	do {                                                                                                            \
		if (!(condition)) {                                                                                     \
			fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);                       \
			exit(1);                                                                                        \
		}                                                                                                       \
	} while (0)

/* Ends the case as one that cannot run here. */
void skip(const char *why) __attribute__((noreturn));

/* This thread's scheduler, which must come into being. */
struct coop *new_coop(void);

/* Events of each kind. */
struct coop_event timer_at(uint64_t release, coop_callback callback, void *user);
struct coop_event best_effort_of(uint64_t user_virtual_time, coop_callback callback, void *user);
struct coop_event descriptor_of(int fd, uint32_t events, coop_callback callback, void *user);

/* A callback that ends coop_run(). */
void stop_now(struct coop *coop, struct coop_event *event);

/* Uses the CPU for that long. */
void burn(uint64_t ns);

/* xorshift64*, for shuffles that are the same everywhere. */
uint64_t next_random(void);

/* Descriptors this process has open. */
int open_descriptors(void);

#endif
