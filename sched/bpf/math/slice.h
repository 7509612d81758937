/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Arithmetic of time slices and of the guaranteed share. No BPF, no kernel: host tests compile this file too.
 */
#ifndef LIMELIGHT_MATH_SLICE_H
#define LIMELIGHT_MATH_SLICE_H

/*
 * The slice of a class OTHER task when @waiting tasks wait for each CPU: everybody runs once a @period_ns, in slices
 * of @min_ns to @max_ns (the fair-share rule of cooperative polling, section 3.2); below @min_ns where else a round would
 * be longer than @round_ns.
 */
static inline u64 ll_fair_slice(u64 period_ns, u64 waiting, u64 min_ns, u64 max_ns, u64 round_ns)
{
	u64 slice = period_ns / (waiting + 1), least = round_ns / (waiting + 1);

	if (least > min_ns)
		least = min_ns;
	if (slice < least)
		return least;
	return slice > max_ns ? max_ns : slice;
}

/*
 * The slice of a class OTHER task while HuC tasks want the CPU and @waiting tasks wait for the guaranteed share: as many as
 * @share_pm thousandths of a round hold, one after another, of @min_ns to @max_ns each.
 */
static inline u64 ll_share_slice(u64 round_ns, u32 share_pm, u64 waiting, u64 min_ns, u64 max_ns)
{
	u64 slice = round_ns * share_pm / 1000 / (waiting + 1);

	if (slice < min_ns)
		return min_ns;
	return slice > max_ns ? max_ns : slice;
}

/* The slice of a HuC task that earns @slice_pm thousandths of @full_ns, at least @min_ns (HuC, section 5.1). */
static inline u64 ll_rated_slice(u64 full_ns, u32 slice_pm, u64 min_ns)
{
	u64 slice = full_ns * slice_pm / 1000;

	return slice < min_ns ? min_ns : slice;
}

/*
 * The account of the guaranteed share: what the lower class is owed, in ns. It earns @share_pm thousandths of what
 * the higher classes run, and pays what it runs itself. It can neither save up nor owe more than @cap_ns, so that an
 * idle second before does not excuse starvation now, and a starved second does not become a burst later.
 */
static inline s64 ll_share_earn(s64 credit, u64 higher_ran_ns, u32 share_pm, s64 cap_ns)
{
	credit += (s64)(higher_ran_ns * share_pm / 1000);
	return credit > cap_ns ? cap_ns : credit;
}

static inline s64 ll_share_pay(s64 credit, u64 lower_ran_ns, s64 cap_ns)
{
	credit -= (s64)lower_ran_ns;
	return credit < -cap_ns ? -cap_ns : credit;
}

/* Bucket of a latency histogram: floor(log2(ns)), at most @buckets - 1. */
static inline u32 ll_log2_bucket(u64 ns, u32 buckets)
{
	u32 bucket = 0;

	if (ns >> 32)
		return buckets - 1;
	if (ns >> 16) { bucket += 16; ns >>= 16; }
	if (ns >> 8) { bucket += 8; ns >>= 8; }
	if (ns >> 4) { bucket += 4; ns >>= 4; }
	if (ns >> 2) { bucket += 2; ns >>= 2; }
	if (ns >> 1) bucket += 1;
	return bucket < buckets ? bucket : buckets - 1;
}

#endif /* LIMELIGHT_MATH_SLICE_H */
