/* SPDX-License-Identifier: MIT */
/*
 * A test program is a number of cases. `PROGRAM CASE` runs one: status 0 it passed, 1 a check failed and was named, 77 it cannot
 * run here. `PROGRAM --list` names them. Each has one sentence or more: what it shows, and why its bounds are what they are. Python makes
 * a test of each by reading the source (coop_programs.py), so the macro stands at the beginning of a line.
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
	struct test_case *next;
};

void add_case(struct test_case *one);

#define CASE(name, sentence)                                                                                            \
	_Static_assert(sizeof(sentence) > 1, "a case says what it shows");                                              \
	static void name(void);                                                                                         \
	__attribute__((constructor)) static void add_##name(void)                                                       \
	{                                                                                                               \
		static struct test_case this = { #name, name, NULL };                                                   \
		add_case(&this);                                                                                        \
	}                                                                                                               \
	static void name(void)

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

/* Submits `count` events to `coop`, each of a descriptor of its own that is ready and stays so. */
void submit_ready(struct coop *coop, struct coop_event *readers, size_t count, coop_callback callback);

/* A callback that ends coop_run(). */
void stop_now(struct coop *coop, struct coop_event *event);

/* Sleeps by poll() until a thread under the preload has its page, where there is one to have. */
void settle_in(void);

/* Uses the CPU for that long. */
void burn(uint64_t ns);

/* xorshift64*, for shuffles that are the same everywhere. */
uint64_t next_random(void);

/* Descriptors this process has open. */
int open_descriptors(void);

#endif
