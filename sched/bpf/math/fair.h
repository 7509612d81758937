/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Arithmetic of fair sharing. No BPF, no kernel: host tests compile this file too (sched/tests/math_host.rs).
 *
 * Weights are sched_ext's: 100 is nice 0, 1..10000. A cgroup scales the weights of what is in it by
 * (its own weight / the sum of the active weights inside it), so a flat queue ordered by virtual time shares the CPU as
 * the hierarchy says. Scales are fixed point with LL_SCALE_ONE = 1.0.
 */
#ifndef LIMELIGHT_MATH_FAIR_H
#define LIMELIGHT_MATH_FAIR_H

enum ll_fair_consts {
	LL_WEIGHT_ONE = 100,
	LL_SCALE_SHIFT = 20,
	LL_SCALE_ONE = 1 << LL_SCALE_SHIFT,
};

/* Is virtual time a before b? Right across wrap-around while they are less than 2^63 apart. */
static inline int ll_vtime_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

/*
 * The scale of a cgroup of weight @weight whose active contents weigh @inside, in a parent of scale @parent_scale.
 * Never 0: a task must always be charged a finite amount.
 */
static inline u64 ll_cgroup_scale(u64 parent_scale, u64 weight, u64 inside)
{
	u64 scale;

	if (!inside)
		inside = weight ? weight : 1;
	scale = parent_scale * weight / inside;
	return scale ? scale : 1;
}

/* Virtual time to charge for @run_ns of CPU to a task of @weight in a cgroup of @scale. */
static inline u64 ll_vtime_charge(u64 run_ns, u64 weight, u64 scale)
{
	u64 effective = (weight ? weight : 1) * scale;

	/* Longer runs than 4 s at a time do not happen (the tick charges); clamping keeps the product in 64 bits. */
	if (run_ns > 4000000000ULL)
		run_ns = 4000000000ULL;
	return ((run_ns * LL_WEIGHT_ONE) << 8) / ((effective >> (LL_SCALE_SHIFT - 8)) ? (effective >> (LL_SCALE_SHIFT - 8)) : 1);
}

/* How fast virtual time passes for a task of @weight that has @weight_pm thousandths of it: 1000 at nice 0 and all of it. */
static inline u32 ll_vtime_rate_pm(u64 weight, u32 weight_pm)
{
	u64 effective = weight * weight_pm;

	return LL_WEIGHT_ONE * 1000 * 1000ULL / (effective ? effective : 1);
}

#endif /* LIMELIGHT_MATH_FAIR_H */
