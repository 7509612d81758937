/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Arithmetic of a group that has members on several CPUs: how much more or less than a member's own weight each counts for on one of them. No BPF,
 * no kernel: host tests compile this file too (sched/tests/math_host.rs).
 *
 * User virtual times are numbers of the program's own, in units that nobody else knows, and it may lie. So they are compared by their differences
 * only, and a CPU is given no more than the others have given up at that moment, whatever was said. A difference counts up to the horizon, beyond
 * which a CPU could not catch up faster: so what all give up is what is asked for, and one that says that it is far behind for good, beside N others
 * of as many members, costs each of them one part in N at most, and half of what it has in any case.
 */
#ifndef LIMELIGHT_MATH_EVEN_H
#define LIMELIGHT_MATH_EVEN_H

enum ll_even_consts {
	LL_EVEN_ONE_PM = 1000,
	LL_EVEN_LEAST_PM = 500,
	LL_EVEN_MOST_PM = 2000,
	/* What is behind by as many steps of the mean's as this counts twice: half a second where a step is 50 ms. */
	LL_EVEN_HORIZON = 10,
	/* Of the mean's progress one part in so many is the last step's. */
	LL_EVEN_SMOOTH = 8,
	LL_EVEN_LEAP = 4,
	LL_EVEN_STEP_MS = 50,
	LL_EVEN_SPEED_SHIFT = 8,
	LL_EVEN_MEMBERS = 0xfff,
};

#define LL_EVEN_APART (1LL << 40)

/* What is known of a group's members on all CPUs, as seen from one. */
struct ll_even_sum {
	s64 ahead;	/* by how much they are ahead of its own members, together */
	s64 given_pm;	/* what those elsewhere have given up, in thousandths of a member's weight; negative: what they have been given */
	u32 members;
};

/* The difference at which a CPU counts twice, where the mean goes on by @speed a step; 0: not known. */
static inline u64 ll_even_horizon(u64 speed)
{
	return (speed * LL_EVEN_HORIZON) >> LL_EVEN_SPEED_SHIFT;
}

/* By how much the user virtual time @other is ahead of @own; negative: behind. */
static inline s64 ll_even_apart(u64 other, u64 own)
{
	s64 apart = (s64)(other - own);

	if (apart > LL_EVEN_APART)
		return LL_EVEN_APART;
	return apart < -LL_EVEN_APART ? -LL_EVEN_APART : apart;
}

/* The same, no further than @horizon. */
static inline s64 ll_even_within(u64 other, u64 own, u64 horizon)
{
	s64 apart = ll_even_apart(other, own), most = horizon < LL_EVEN_APART ? (s64)horizon : LL_EVEN_APART;

	if (apart > most)
		return most;
	return apart < -most ? -most : apart;
}

/* Where @level, of @age_ms ago, is by now. Else everybody would take the others to be behind: by half a step, as each looks at its own last. */
static inline u64 ll_even_now(u64 level, u64 speed, u64 age_ms)
{
	return level + ((speed * age_ms / LL_EVEN_STEP_MS) >> LL_EVEN_SPEED_SHIFT);
}

static inline s64 ll_even_divide(s64 value, u64 by)
{
	return value < 0 ? -(s64)((u64)-value / by) : (s64)((u64)value / by);
}

/*
 * The progress of the mean in a step, as a fixed point number of LL_EVEN_SPEED_SHIFT bits, where it was @speed (0: not known) and has come by
 * @moved in @steps. What goes back is not counted, and of a jump as much as four steps: somebody has come or gone.
 */
static inline u64 ll_even_speed(u64 speed, s64 moved, u64 steps)
{
	u64 now;

	if (moved < 0 || moved >= LL_EVEN_APART || !steps)
		return speed;
	now = ((u64)moved << LL_EVEN_SPEED_SHIFT) / steps;
	if (!speed)
		return now;
	if (now > LL_EVEN_LEAP * speed)
		now = LL_EVEN_LEAP * speed;
	return speed - speed / LL_EVEN_SMOOTH + now / LL_EVEN_SMOOTH;
}

/*
 * What each of @members counts for here, in thousandths of its weight, where the mean of all is @behind ahead of them and goes on by @speed a
 * step. Proportional, as who is behind catches up by itself once it has more: with the difference alone nothing swings.
 */
static inline u32 ll_even_share(s64 behind, u64 speed, s64 given_pm, u32 members)
{
	u64 horizon = ll_even_horizon(speed);
	s64 share, most;

	if (!horizon || !members)
		return LL_EVEN_ONE_PM;
	share = LL_EVEN_ONE_PM + ll_even_divide(behind * LL_EVEN_ONE_PM, horizon);
	if (share < LL_EVEN_LEAST_PM)
		return LL_EVEN_LEAST_PM;
	if (share <= LL_EVEN_ONE_PM)
		return share;
	most = given_pm > 0 ? LL_EVEN_ONE_PM + given_pm / members : LL_EVEN_ONE_PM;
	if (share > most)
		share = most;
	return share < LL_EVEN_MOST_PM ? share : LL_EVEN_MOST_PM;
}

#endif /* LIMELIGHT_MATH_EVEN_H */
