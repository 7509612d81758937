// SPDX-License-Identifier: MIT
#include "timers.h"

#include <coop.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/timerfd.h>

#define NS_PER_S 1000000000ull
#define WORD_BITS 64
/* Descriptors from here on are not known; four times what a login session may have by default is plenty for an event loop. */
#define MAX_FDS 4096
/* Timers in sets. A loop has one or a few; more are not known. */
#define MAX_PAIRS 256
/* The kernel's own bound on sets in sets (EP_MAX_NESTS). */
#define MAX_DEPTH 5

_Static_assert(sizeof(fd_mask) * 8 == WORD_BITS, "an fd_set is made of the same words");

static _Atomic(uint64_t) timers[MAX_FDS / WORD_BITS];
static _Atomic(uint64_t) sets[MAX_FDS / WORD_BITS];
/* Where there is none of either, nobody looks. */
static atomic_bool has_timers;
/* The set above, the member below; 0 is free. */
static _Atomic(uint64_t) pairs[MAX_PAIRS];
/* Pairs from here on have always been free. */
static atomic_uint pairs_end;

static bool has(const _Atomic(uint64_t) *bits, int fd)
{
	return fd >= 0 && fd < MAX_FDS && atomic_load_explicit(&bits[fd / WORD_BITS], memory_order_relaxed) >> fd % WORD_BITS & 1;
}

static void set_bit(_Atomic(uint64_t) *bits, int fd)
{
	atomic_fetch_or(&bits[fd / WORD_BITS], 1ull << fd % WORD_BITS);
}

static void clear_bit(_Atomic(uint64_t) *bits, int fd)
{
	atomic_fetch_and(&bits[fd / WORD_BITS], ~(1ull << fd % WORD_BITS));
}

static uint64_t pair_of(int set, int member)
{
	return (uint64_t)(set + 1) << 32 | (uint32_t)(member + 1);
}

static int set_of(uint64_t pair)
{
	return (int)(pair >> 32) - 1;
}

static int member_of(uint64_t pair)
{
	return (int)(uint32_t)pair - 1;
}

/* The number is a new file's: what was known of an old one is not true of it. */
static void forget(int fd)
{
	const unsigned int end = atomic_load(&pairs_end);

	clear_bit(timers, fd);
	clear_bit(sets, fd);
	for (unsigned int i = 0; i < end; i++) {
		const uint64_t pair = atomic_load(&pairs[i]);

		if (pair && (set_of(pair) == fd || member_of(pair) == fd))
			atomic_store(&pairs[i], 0);
	}
}

static bool is_in_range(int fd)
{
	return fd >= 0 && fd < MAX_FDS;
}

void timers_add(int fd)
{
	if (!is_in_range(fd))
		return;
	forget(fd);
	set_bit(timers, fd);
	atomic_store(&has_timers, true);
}

void timers_add_set(int set)
{
	if (!is_in_range(set))
		return;
	forget(set);
	set_bit(sets, set);
}

void timers_drop(int set, int fd)
{
	const unsigned int end = atomic_load(&pairs_end);

	if (!is_in_range(set) || !is_in_range(fd))
		return;
	for (unsigned int i = 0; i < end; i++) {
		uint64_t pair = pair_of(set, fd);

		atomic_compare_exchange_strong(&pairs[i], &pair, 0);
	}
}

void timers_put(int set, int fd)
{
	if (!has(sets, set) || !(has(timers, fd) || has(sets, fd)))
		return;
	timers_drop(set, fd);
	for (unsigned int i = 0; i < MAX_PAIRS; i++) {
		uint64_t free = 0;
		unsigned int end;

		if (!atomic_compare_exchange_strong(&pairs[i], &free, pair_of(set, fd)))
			continue;
		end = atomic_load(&pairs_end);
		while (end <= i && !atomic_compare_exchange_weak(&pairs_end, &end, i + 1))
			;
		return;
	}
}

/* When one timer is due next. One that is due already makes the call return at once. */
static uint64_t expiry_of(int timer)
{
	/* Read first: who is interrupted in between is told to be due too early, not too late. */
	const uint64_t now = coop_now();
	const int error = errno;
	struct itimerspec setting;

	if (timerfd_gettime(timer, &setting)) {
		errno = error;
		forget(timer);
		return COOP_NEVER;
	}
	if (!setting.it_value.tv_sec && !setting.it_value.tv_nsec)
		return COOP_NEVER;
	/* What is left, on the timer's own clock; the wall clock may be set meanwhile. */
	return now + (uint64_t)setting.it_value.tv_sec * NS_PER_S + (uint64_t)setting.it_value.tv_nsec;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t first_of(int fd, int depth)
{
	const unsigned int end = atomic_load(&pairs_end);
	uint64_t first = COOP_NEVER;

	if (has(timers, fd))
		return expiry_of(fd);
	if (!has(sets, fd) || depth > MAX_DEPTH)
		return COOP_NEVER;
	for (unsigned int i = 0; i < end; i++) {
		const uint64_t pair = atomic_load_explicit(&pairs[i], memory_order_relaxed);

		if (pair && set_of(pair) == fd)
			first = earlier(first, first_of(member_of(pair), depth + 1));
	}
	return first;
}

uint64_t timers_first_of_set(int set)
{
	return has_timers ? first_of(set, 1) : COOP_NEVER;
}

uint64_t timers_first_of_poll(const struct pollfd *fds, nfds_t count)
{
	uint64_t first = COOP_NEVER;

	/* More than there can be: the kernel refuses it. */
	for (nfds_t i = 0; has_timers && count <= MAX_FDS && i < count; i++)
		if (fds[i].events & POLLIN)
			first = earlier(first, first_of(fds[i].fd, 1));
	return first;
}

uint64_t timers_first_of_select(int count, const fd_set *fds)
{
	uint64_t first = COOP_NEVER;

	if (!has_timers || !fds)
		return COOP_NEVER;
	/*
	 * Programs with more than FD_SETSIZE descriptors bring larger sets, and others a count that is larger than their set: the kernel reads
	 * no further than descriptors are open. So only where one of ours is.
	 */
	for (int word = 0; word < MAX_FDS / WORD_BITS && word * WORD_BITS < count; word++) {
		const uint64_t ours = timers[word] | sets[word];
		uint64_t known = ours ? (uint64_t)fds->fds_bits[word] & ours : 0;

		for (; known; known &= known - 1) {
			const int fd = word * WORD_BITS + __builtin_ctzll(known);

			if (fd < count)
				first = earlier(first, first_of(fd, 1));
		}
	}
	return first;
}

bool timers_wait_of_read(int fd, uint64_t *due)
{
	const int error = errno;
	int flags;

	if (!has_timers || !has(timers, fd))
		return false;
	*due = expiry_of(fd);
	/* It may turn out to be none: the number is another file's now. */
	if (!has(timers, fd))
		return false;
	/* Asked each time: the program may have changed it, or another one that has the same timer. */
	flags = fcntl(fd, F_GETFL);
	errno = error;
	return flags >= 0 && !(flags & O_NONBLOCK);
}
