/* SPDX-License-Identifier: GPL-2.0-only */
/* The scheduler's arithmetic, compiled for the host: each check is a rule that the BPF callbacks rely on. See math_host.rs. */
#include <stdint.h>
#include <stdio.h>

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t s64;

#include "../bpf/math/fair.h"
#include "../bpf/math/slice.h"

#define MS 1000000ULL

static int failures;

#define CHECK(condition, ...)                                                              \
	do {                                                                               \
		if (!(condition)) {                                                        \
			failures++;                                                        \
			printf("%s:%d: %s: ", __FILE__, __LINE__, #condition);             \
			printf(__VA_ARGS__);                                               \
			putchar('\n');                                                     \
		}                                                                          \
	} while (0)

static u64 random_state = 88172645463325252ULL;

/* xorshift64: the same numbers every time. */
static u64 random_below(u64 bound)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % bound;
}

/* Virtual time wraps, and the order holds across the wrap. */
static void order_of_virtual_times(void)
{
	CHECK(ll_vtime_before(1, 2) && !ll_vtime_before(2, 1) && !ll_vtime_before(2, 2), "plain order");
	CHECK(ll_vtime_before(~0ULL, 5) && !ll_vtime_before(5, ~0ULL), "across the wrap");
}

/* At nice 0 in no cgroup a nanosecond is a nanosecond; twice the weight or twice the scale halves it. */
static void charges(void)
{
	for (int i = 0; i < 100000; i++) {
		u64 ran = random_below(100 * MS) + 1000, weight = random_below(9900) + 100;
		u64 one = ll_vtime_charge(ran, weight, LL_SCALE_ONE), two = ll_vtime_charge(ran, 2 * weight, LL_SCALE_ONE);
		u64 half_scale = ll_vtime_charge(ran, weight, LL_SCALE_ONE / 2);

		CHECK(ll_vtime_charge(ran, LL_WEIGHT_ONE, LL_SCALE_ONE) == ran, "ran %lu", ran);
		CHECK(one >= 2 * two && one <= 2 * two + 1, "weight %lu: %lu, twice: %lu", weight, one, two);
		CHECK(half_scale >= 2 * one && half_scale <= 2 * one + 1, "half the scale: %lu for %lu", half_scale, one);
	}
	/* The extremes: the least weight in the smallest scale is charged, and nothing overflows. */
	CHECK(ll_vtime_charge(4000 * MS, 1, 1) > 4000 * MS, "least weight");
	CHECK(ll_vtime_charge(1u << 20, 10000, LL_SCALE_ONE) > 0, "greatest weight");
	CHECK(ll_vtime_charge(1000, 0, 0) > 0, "no weight at all");
}

/* The rate that other CPUs estimate with is the one that is charged. */
static void rates(void)
{
	CHECK(ll_vtime_rate_pm(100, 1000) == 1000, "nice 0");
	CHECK(ll_vtime_rate_pm(200, 1000) == 500 && ll_vtime_rate_pm(100, 500) == 2000, "twice and half the weight");
	CHECK(ll_vtime_rate_pm(0, 0) > 0, "no weight at all");
}

/* Shares in a hierarchy: two cgroups of weights 100 and 300 with 1 and 5 equal tasks get a quarter and three quarters. */
static void hierarchy(void)
{
	u64 a = ll_cgroup_scale(LL_SCALE_ONE, 100, 1 * 100), b = ll_cgroup_scale(LL_SCALE_ONE, 300, 5 * 100);
	u64 of_a = 1 * 100 * a, of_b = 5 * 100 * b;

	CHECK(of_b > of_a * 299 / 100 && of_b < of_a * 301 / 100, "%lu and %lu", of_a, of_b);
	CHECK(ll_cgroup_scale(1, 1, 1000000) == 1, "a scale is never 0");
	CHECK(ll_cgroup_scale(LL_SCALE_ONE, 100, 0) == LL_SCALE_ONE, "nothing active inside");
}

/* Everybody once a period while slices may be that long; a round of a thousand still fits the bound of promise 5. */
static void slices(void)
{
	for (u64 waiting = 0; waiting <= 5000; waiting++) {
		u64 slice = ll_fair_slice(20 * MS, waiting, MS / 2, 5 * MS, 350 * MS);

		CHECK(slice > 0 && slice <= 5 * MS, "%lu waiting: %lu", waiting, slice);
		CHECK(slice * (waiting + 1) <= 350 * MS, "%lu waiting: a round of %lu", waiting, slice * (waiting + 1));
		CHECK(slice >= MS / 2 || waiting >= 700, "%lu waiting: %lu", waiting, slice);
	}
	for (u64 waiting = 0; waiting <= 5000; waiting++) {
		u64 slice = ll_share_slice(450 * MS, 60, waiting, MS / 40, MS / 2);

		CHECK(slice >= MS / 40 && slice <= MS / 2, "%lu wait for the share: %lu", waiting, slice);
		CHECK(slice * (waiting + 1) <= 27 * MS || waiting > 1000, "%lu: a round of %lu", waiting, slice * (waiting + 1));
	}
	CHECK(ll_rated_slice(20 * MS, 500, MS) == 10 * MS && ll_rated_slice(20 * MS, 1, MS) == MS, "rated slices");
}

/* What is owed never leaves its bounds, and over a long time what is paid is what was earned. */
static void share(void)
{
	s64 cap = 5 * MS, credit = 0;
	u64 higher = 0, lower = 0;

	for (int i = 0; i < 100000; i++) {
		u64 ran = random_below(2 * MS);

		if (credit >= (s64)(MS / 2)) {
			credit = ll_share_pay(credit, MS / 2, cap);
			lower += MS / 2;
		} else {
			credit = ll_share_earn(credit, ran, 60, cap);
			higher += ran;
		}
		CHECK(credit <= cap && credit >= -cap, "%ld", credit);
	}
	CHECK(lower * 1000 >= higher * 59 && lower * 1000 <= higher * 61, "%lu for %lu", lower, higher);
}

static void buckets(void)
{
	CHECK(ll_log2_bucket(0, 32) == 0 && ll_log2_bucket(1, 32) == 0, "least");
	for (u32 bit = 1; bit < 32; bit++) {
		CHECK(ll_log2_bucket(1ULL << bit, 32) == bit, "2^%u", bit);
		CHECK(ll_log2_bucket((1ULL << bit) - 1, 32) == bit - 1, "2^%u - 1", bit);
	}
	CHECK(ll_log2_bucket(~0ULL, 32) == 31 && ll_log2_bucket(1 << 20, 8) == 7, "greatest");
}

int main(void)
{
	order_of_virtual_times();
	charges();
	rates();
	hierarchy();
	slices();
	share();
	buckets();
	return failures ? 1 : 0;
}
