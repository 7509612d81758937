/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A leaky bucket: what somebody has used of something of late. What goes in leaves at half the speed of the clock, and what is more than the room at
 * any moment is over. No BPF, no kernel: host tests compile this file too (sched/tests/math_host.rs).
 */
#ifndef LIMELIGHT_MATH_BUCKET_H
#define LIMELIGHT_MATH_BUCKET_H

enum ll_bucket_consts {
	LL_BUCKET_ROOM_NS = 1000000,
	/* However much was used, it is over for no longer than this takes to leave. */
	LL_BUCKET_MOST_NS = 2 * LL_BUCKET_ROOM_NS,
	LL_BUCKET_LEAVES = 2,
};

/* All zero: empty. */
struct ll_bucket {
	u64 level_ns;
	u64 at_ns;	/* when that was so */
};

/* @now may be a little before: then nothing has left. */
static inline u64 ll_bucket_level(const struct ll_bucket *bucket, u64 now)
{
	u64 left = now > bucket->at_ns ? (now - bucket->at_ns) / LL_BUCKET_LEAVES : 0;

	return left < bucket->level_ns ? bucket->level_ns - left : 0;
}

static inline int ll_bucket_is_over(const struct ll_bucket *bucket, u64 now)
{
	return ll_bucket_level(bucket, now) > LL_BUCKET_ROOM_NS;
}

static inline void ll_bucket_fill(struct ll_bucket *bucket, u64 ns, u64 now)
{
	u64 level = ll_bucket_level(bucket, now), room = LL_BUCKET_MOST_NS - level;

	bucket->level_ns = ns < room ? level + ns : LL_BUCKET_MOST_NS;
	bucket->at_ns = now;
}

#endif /* LIMELIGHT_MATH_BUCKET_H */
