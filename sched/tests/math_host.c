/* SPDX-License-Identifier: GPL-2.0-only */
/* The scheduler's arithmetic, compiled for the host: each check is a rule that the BPF callbacks rely on. See math_host.rs. */
#include <stdint.h>

#include "host/check.h"

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t s64;

#include "../bpf/math/fair.h"
#include "../bpf/math/slice.h"
#include "../bpf/math/heap.h"
#include "../bpf/math/reserve.h"
#include "../bpf/math/even.h"
#include "../bpf/math/bucket.h"

#define MS 1000000ULL

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

/* Any of a thousand items can be taken out at any time, and the first is always the least of those that are in. */
static void heaps(void)
{
	static struct ll_heap heap;
	static u16 places[LL_HEAP_ITEMS];
	static u64 keys[LL_HEAP_ITEMS];	/* 0: it is not in */
	u32 count = 0;

	for (int step = 0; step < 200000; step++) {
		u32 item = random_below(LL_HEAP_ITEMS / 2) * 2, other;
		u64 least = ~0ULL;

		if (keys[item]) {
			CHECK(ll_heap_remove(&heap, places, item), "item %u is in", item);
			keys[item] = 0;
			count--;
		} else if (count < LL_HEAP_ROOM) {
			u64 key = 1 + random_below(5000);

			CHECK(ll_heap_insert(&heap, places, item, key), "there is room beside %u", count);
			keys[item] = key;
			count++;
		} else {
			CHECK(!ll_heap_insert(&heap, places, item, 1), "it is full");
		}
		CHECK(heap.count == count && !ll_heap_remove(&heap, places, item | 1), "%u are in, not %u", heap.count, count);
		if (step % 100)
			continue;
		for (other = 0; other < LL_HEAP_ITEMS; other++)
			if (keys[other] && keys[other] < least)
				least = keys[other];
		CHECK(ll_heap_first(&heap, ~0ULL) == least, "first %lu, least %lu", ll_heap_first(&heap, ~0ULL), least);
	}
}

/* One item that two CPUs put into two heaps at once, and twice into one, cannot stay their first for good: each of them can be emptied. */
static void heaps_that_share_an_item(void)
{
	static struct ll_heap both[2];
	static u16 places[LL_HEAP_ITEMS];

	for (u32 item = 0; item < 20; item++)
		for (u32 copy = 0; copy < 4; copy++)
			CHECK(ll_heap_insert(&both[copy / 2], places, item, 1 + random_below(50)), "there is room");
	for (u32 heap = 0; heap < 2; heap++)
		for (u32 left = 40; left; left--)
			CHECK(ll_heap_remove(&both[heap], places, both[heap].at[0].item), "the first of %u can be taken out", left);
}

/* Listing 1, each of its cases: 5 ms in every 30. */
static void periods(void)
{
	struct ll_period p = {};

	CHECK(ll_renew(&p, 5 * MS, 30 * MS, 100 * MS, 0, 0), "the first");
	CHECK(p.start_ns == 100 * MS && p.deadline_ns == 130 * MS && p.budget_ns == (s64)(5 * MS), "begins at once: %lu", p.start_ns);
	p.budget_ns = MS;
	CHECK(ll_renew(&p, 5 * MS, 30 * MS, 129 * MS, 1, 0) == LL_GOES_ON, "budget left, before the deadline");
	CHECK(ll_renew(&p, 5 * MS, 30 * MS, 131 * MS, 0, 0) == LL_GOES_ON, "a missed deadline: its work is pushed through");
	CHECK(ll_renew(&p, 5 * MS, 30 * MS, 150 * MS, 1, 0) == LL_WAS_IDLE && p.start_ns == 150 * MS, "it slept: a new period, at once");
	CHECK(p.budget_ns == (s64)(5 * MS), "and nothing is saved up: %ld", p.budget_ns);
	p.budget_ns = 0;
	CHECK(ll_renew(&p, 5 * MS, 30 * MS, 156 * MS, 0, 0) == LL_WAS_HONOURED && p.start_ns == 180 * MS, "spent: from the deadline on");
	CHECK(p.deadline_ns == 210 * MS, "for a whole period: %lu", p.deadline_ns);
	p.budget_ns = -(s64)MS;
	ll_renew(&p, 5 * MS, 30 * MS, 190 * MS, 0, 0);
	CHECK(p.budget_ns == (s64)(4 * MS), "what it overran is paid back: %ld", p.budget_ns);
	p.budget_ns = -(s64)(500 * MS);
	ll_renew(&p, 5 * MS, 30 * MS, 800 * MS, 0, 0);
	CHECK(p.budget_ns > 0 && p.start_ns == 800 * MS, "but not for ever: %ld", p.budget_ns);
	p = (struct ll_period){ 100 * MS, 130 * MS, 3 * MS };
	CHECK(ll_renew(&p, 5 * MS, 30 * MS, 111 * MS, 1, 1) == LL_GOES_ON, "it wakes up, and has used 2 ms where its rate is 1.8");
	CHECK(ll_renew(&p, 5 * MS, 30 * MS, 113 * MS, 1, 1) == LL_WAS_IDLE && p.start_ns == 113 * MS, "2 where it is 2.2: a new period");
}

/* Whoever wants all it can get has @runtime in each period, and no more, whenever it is given the CPU. */
static void no_more_than_its_budget(void)
{
	struct ll_period p = {};
	u64 now = 1000 * MS, began = now, got = 0;

	for (int i = 0; i < 100000; i++) {
		ll_renew(&p, 5 * MS, 30 * MS, now, 0, 0);
		if (p.start_ns <= now && p.budget_ns > 0) {
			u64 ran = random_below(2 * MS);

			ran = ran < (u64)p.budget_ns ? ran : (u64)p.budget_ns;
			p.budget_ns -= (s64)ran;
			got += ran;
			now += ran;
		}
		now += random_below(2 * MS);
	}
	CHECK(got <= 5 * MS * ((now - began) / (30 * MS) + 1), "%lu in %lu", got, now - began);
}

/* Whoever wakes every 30 ms and wants 4 of its 5 has them at once, wherever its first period began, from the fourth wake-up on. */
static void periods_follow_wakeups(void)
{
	for (u64 offset = 0; offset < 30 * MS; offset += MS / 4) {
		struct ll_period p = {};
		u64 waits = 0;

		ll_renew(&p, 5 * MS, 30 * MS, 1000 * MS, 0, 0);
		p.budget_ns -= (s64)(2 * MS);	/* what its start took */
		for (int i = 0; i < 20; i++) {
			u64 now = 1000 * MS + offset + i * 30 * MS, left = 4 * MS;

			ll_renew(&p, 5 * MS, 30 * MS, now, 1, 1);
			while (left) {
				u64 ran = left < (u64)p.budget_ns ? left : (u64)p.budget_ns;

				if (p.start_ns > now && i > 2)
					waits++;
				now = p.start_ns > now ? p.start_ns : now;
				p.budget_ns -= (s64)ran;
				left -= ran;
				now += ran;
				ll_renew(&p, 5 * MS, 30 * MS, now, 0, 0);
			}
		}
		CHECK(!waits, "%lu times, with %lu us from its start to its first wake-up", waits, offset / 1000);
	}
}

/* Who executes another program has what is left of its period, within what that one may have; and nothing of one that is over. */
static void executions_take_their_period_along(void)
{
	struct ll_period left = { 100 * MS, 130 * MS, 3 * MS }, next;

	next = ll_take_over(&left, 5 * MS, 30 * MS, 110 * MS);
	CHECK(next.start_ns == 100 * MS && next.deadline_ns == 130 * MS && next.budget_ns == (s64)(3 * MS), "the same again");
	next = ll_take_over(&left, 2 * MS, 10 * MS, 110 * MS);
	CHECK(next.deadline_ns == 120 * MS && next.budget_ns == (s64)(2 * MS), "one that asks for less, sooner");
	next = ll_take_over(&left, 20 * MS, 100 * MS, 110 * MS);
	CHECK(next.deadline_ns == 130 * MS && next.budget_ns == (s64)(3 * MS), "one that asks for more has that from the next period on");
	next = ll_take_over(&left, 2 * MS, 10 * MS, 90 * MS);
	CHECK(next.start_ns == 100 * MS && next.deadline_ns == 110 * MS, "its period is still to begin");
	next = ll_take_over(&left, 5 * MS, 30 * MS, 130 * MS);
	CHECK(!next.deadline_ns && !next.budget_ns, "it is over");
}

/* R_load is the mean of four seconds, S_load comes down to it, and what uses all it asked for is not admitted twice meanwhile. */
static void loads(void)
{
	struct ll_load load = {};
	u32 bandwidth = ll_bandwidth_ppm(20 * MS, 100 * MS), used = 0, admitted = 0;

	CHECK(bandwidth == 200000 && ll_bandwidth_ppm(MS, 3000 * MS) == 333, "%u", bandwidth);
	/* One after another comes, and uses all of it at once. */
	for (int second = 0; second < 60; second++) {
		for (int comes = 0; comes < 3; comes++) {
			if (!ll_admits(&load, bandwidth, 800001))
				continue;
			load.expected_ppm += bandwidth;
			admitted++;
		}
		used = admitted * bandwidth;
		ll_load_second(&load, used);
		CHECK(used <= 1000000, "%u in second %d", used, second);
	}
	CHECK(admitted >= 4 && load.recent_ppm == used, "R_load %u of %u", load.recent_ppm, used);
	/* They become idle. */
	for (int second = 0; second < 40; second++)
		ll_load_second(&load, 0);
	CHECK(ll_load_of(&load) < 10000, "S_load %u", load.expected_ppm);
	CHECK(ll_still_expected(200000, 0, 0) == 200000 && ll_still_expected(200000, 1, 0) == 175000, "its part decays as S_load does");
	CHECK(ll_huc_room(&load, 300000) == 300000 && ll_huc_room(&load, 500001) == 500000, "what the HuC classes take, up to a half");
	load = (struct ll_load){};
	ll_load_second(&load, 400000);
	CHECK(ll_huc_room(&load, 0) == 400000, "in the last second");
	for (int second = 0; second < 3; second++)
		ll_load_second(&load, 0);
	CHECK(ll_huc_room(&load, 0) == 100000, "in the last four");
	ll_load_second(&load, 0);
	CHECK(!ll_huc_room(&load, 0), "and no longer, whatever S_load is");
	for (int second = 0; second < 40; second++)
		ll_load_second(&load, 0);
	CHECK(ll_running_ppm(100 * MS, 50 * MS) == 400000 && ll_running_ppm(100 * MS, 200 * MS) == 400000, "a second's beginning tells little");
	CHECK(ll_running_ppm(300 * MS, 500 * MS) == 600000 && ll_running_ppm(0, 0) == 0, "and then what it is");
	CHECK(ll_is_overloaded(&load, 900001, 900000) && !ll_is_overloaded(&load, 900000, 900000), "of the second that is under way");
	ll_load_second(&load, 900001);
	CHECK(ll_is_overloaded(&load, 0, 900000) && load.recent_ppm == 225000, "of the last one");
	CHECK(!ll_surges(5000, 0, 40 * MS, 100 * MS) && ll_surges(5001, 0, 40 * MS, 100 * MS), "5 ms of one that used nothing");
	CHECK(!ll_surges(3000, 0, 3 * MS, 30 * MS) && ll_surges(3001, 0, 3 * MS, 30 * MS), "a budget");
	CHECK(!ll_surges(170000, 165000, 5 * MS, 30 * MS) && ll_surges(215000, 165000, 5 * MS, 30 * MS), "a period more in a second is none");
	CHECK(!ll_surges(400000, 200000, 200 * MS, 1000 * MS) && !ll_surges(2000000, 0, 2000 * MS, 4000 * MS), "nor where a period is long");
	CHECK(ll_lacks_room(&load, 575000, 0, 800000) && !ll_lacks_room(&load, 574000, 0, 800000), "beside what others use");
	CHECK(!ll_lacks_room(&load, 574000, 300000, 800000) && !ll_lacks_room(&load, 799999, 225000, 800000), "its own use is not others'");
	CHECK(ll_still_expected(200000, 1000, 0) == 0 && ll_still_expected(200000, 1000, 50000) == 50000, "to what it uses");
}

/* What a member counts for: more where its CPU is behind, but no more than others have given up; whatever they say. */
static void evened_shares(void)
{
	const u64 speed = 3 << LL_EVEN_SPEED_SHIFT;

	CHECK(ll_even_share(0, speed, 0, 4) == 1000 && ll_even_share(100, 0, 4000, 4) == 1000, "nobody is behind, or it is not known by how much");
	CHECK(ll_even_share(15, speed, 0, 4) == 1000, "nothing is given up");
	CHECK(ll_even_share(15, speed, 4000, 4) == 1500, "behind by half of what counts twice: %u", ll_even_share(15, speed, 4000, 4));
	CHECK(ll_even_share(15, speed, 400, 4) == 1100, "no more than is given up");
	CHECK(ll_even_share(-9, speed, -400, 4) == 700, "ahead: it gives up");
	for (int i = 0; i < 100000; i++) {
		s64 behind = ll_even_apart(random_below(~0ULL), random_below(~0ULL)), given = (s64)random_below(80000) - 40000;
		u32 members = random_below(64) + 1, share = ll_even_share(behind, random_below(1ULL << 48), given, members);

		CHECK(share >= LL_EVEN_LEAST_PM && share <= LL_EVEN_MOST_PM, "share %u", share);
		CHECK(share <= LL_EVEN_ONE_PM || (s64)(share - LL_EVEN_ONE_PM) * members <= given, "share %u of %ld", share, given);
	}
}

enum { EVEN_CPUS = 64 };

/* What the members of @cpus CPUs, one on each, count for together, where the first is @behind the others, which are alike. */
static u64 counted_for(int cpus, u64 behind, u64 speed, u32 *first)
{
	u32 share_pm[EVEN_CPUS];
	u64 together = 0;

	for (int i = 0; i < cpus; i++)
		share_pm[i] = LL_EVEN_ONE_PM;
	for (int step = 0; step < 200; step++) {
		int own = step % cpus;
		s64 ahead = 0, given = 0;

		for (int i = 0; i < cpus; i++) {
			ahead += ll_even_within(i ? 1ULL << 50 : (1ULL << 50) - behind, own ? 1ULL << 50 : (1ULL << 50) - behind, ll_even_horizon(speed));
			if (i != own)
				given += LL_EVEN_ONE_PM - (s64)share_pm[i];
		}
		share_pm[own] = ll_even_share(ll_even_divide(ahead, cpus), speed, given, 1);
	}
	for (int i = 0; i < cpus; i++)
		together += share_pm[i];
	*first = share_pm[0];
	return together / cpus;
}

/* However far one is behind, what the others give up is what it takes: nothing is lost between them, and it costs them a part of their number. */
static void what_is_given_up_is_taken(void)
{
	const u64 speed = 50000ULL << LL_EVEN_SPEED_SHIFT;

	for (int cpus = 2; cpus <= EVEN_CPUS; cpus *= 2) {
		for (u64 behind = 1000; behind < 1ULL << 49; behind *= 30) {
			u32 first = 0;
			u64 mean = counted_for(cpus, behind, speed, &first);

			CHECK(mean >= 985 && mean <= LL_EVEN_ONE_PM, "%d CPUs, one %lu behind: %lu counted, the first %u", cpus, behind, mean, first);
			CHECK(first >= LL_EVEN_ONE_PM, "the first %u", first);
		}
	}
	CHECK(ll_even_now(7, speed, 0) == 7 && ll_even_now(7, speed, 100) == 100007, "two steps later");
}

/* By how much the mean grows in a step: learnt within some steps; what is a jump, or goes back, says nothing of it. */
static void speed_of_the_mean(void)
{
	u64 speed = 0;

	for (int step = 0; step < 60; step++)
		speed = ll_even_speed(speed, step < 30 ? 1000 : 4000, 2);
	CHECK(speed > 1900 << LL_EVEN_SPEED_SHIFT && speed <= 2000 << LL_EVEN_SPEED_SHIFT, "speed %lu", speed);
	CHECK(ll_even_speed(speed, -5, 1) == speed && ll_even_speed(speed, LL_EVEN_APART, 1) == speed, "who comes or goes");
	CHECK(ll_even_speed(speed, LL_EVEN_APART - 1, 1) <= speed + speed / 2, "a jump counts as four steps");
	CHECK(ll_even_apart(5, ~0ULL) == 6 && ll_even_apart(~0ULL, 5) == -6, "across the wrap");
}

/* Half of the time is never too much, in however many pieces; all of it is soon, and no longer than twice the room takes to leave. */
static void leaky_bucket(void)
{
	struct ll_bucket bucket = { 0 }, other = { 0 };
	const u64 piece = LL_BUCKET_ROOM_NS - 1, small = LL_BUCKET_ROOM_NS / 10;
	u64 now = 1ULL << 62, full;

	CHECK(!ll_bucket_is_over(&bucket, now) && !ll_bucket_is_over(&bucket, 0), "it is empty");
	for (int i = 0; i < 1000; i++, now += 2 * piece) {
		ll_bucket_fill(&bucket, piece, now);
		CHECK(!ll_bucket_is_over(&bucket, now), "half of the time, %d times", i);
	}
	for (full = 0; !ll_bucket_is_over(&bucket, now); full += small, now += small)
		ll_bucket_fill(&bucket, small, now);
	CHECK(full > LL_BUCKET_ROOM_NS && full <= 2 * (LL_BUCKET_ROOM_NS + small), "all of the time, for %lu ns", full);
	ll_bucket_fill(&bucket, ~0ULL, now);
	CHECK(ll_bucket_level(&bucket, now) == LL_BUCKET_MOST_NS && ll_bucket_level(&bucket, now - 1) == LL_BUCKET_MOST_NS, "no more than the most");
	CHECK(ll_bucket_is_over(&bucket, now + 2 * LL_BUCKET_ROOM_NS - 1), "until half has left");
	CHECK(!ll_bucket_is_over(&bucket, now + 2 * LL_BUCKET_ROOM_NS) && !ll_bucket_level(&bucket, ~0ULL), "and no longer");
	ll_bucket_fill(&other, 5, now);
	ll_bucket_fill(&other, 5, now - 1000);
	CHECK(ll_bucket_level(&other, now - 1000) == 10, "what was before: nothing has left");
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
	heaps();
	heaps_that_share_an_item();
	periods();
	no_more_than_its_budget();
	periods_follow_wakeups();
	executions_take_their_period_along();
	loads();
	evened_shares();
	what_is_given_up_is_taken();
	speed_of_the_mean();
	leaky_bucket();
	return failures ? 1 : 0;
}
