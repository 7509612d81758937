/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Groups over several CPUs. A group is one CPU's (group.bpf.h), and its members stay where they are, so those of one CPU may have longer films than
 * those of another, and fall behind: each CPU's members have what they would get alone there, by which theirs get even among themselves only. So
 * what a member counts for beside others (its weight, cgroup and all) is changed a little, by how far its CPU's are behind the mean of all: a CPU
 * that is ahead gives up to a half, and what is given up is for those that are behind, who count twice at most.
 *
 * All members together count for what they would without it: a CPU takes what the others have given up at that moment, for each of its members,
 * whether it waits or not. Who sleeps gives nothing, and neither does a CPU that nobody of the group has wanted in the last steps: theirs are behind
 * by their own will.
 *
 * What it is bad at. Two CPUs that look at once may both take the same, until the next step. Who has given up something and ends, or sleeps, has not
 * paid for all of it: it stands for EVEN_STEPS_VALID steps. It is no CPU time but a part of a member, whatever its cgroup makes of that and
 * whoever is there: one of a light cgroup may give up a half of little for another's twice of much, and one alone on its CPU a half of what nobody
 * else wants. So a member may count twice for as long as its user keeps another one busy elsewhere; never more than twice.
 */
#ifndef LIMELIGHT_EVEN_H
#define LIMELIGHT_EVEN_H

enum {
	EVEN_STEP_NS = LL_EVEN_STEP_MS * 1000000,
	EVEN_STEPS_VALID = 2,
};

/* How long ago @group had its last step, by a clock that may be a little behind the one that it was read from. */
static u64 evened_ago_ns(const struct coop_group *group, u64 now)
{
	return now > group->evened_at_ns ? now - group->evened_at_ns : 0;
}

/* Is what @group was told in a step still true? Who does not come to the next one would keep it for good. */
static bool is_evened(const struct coop_group *group, u64 now)
{
	return evened_ago_ns(group, now) <= EVEN_STEPS_VALID * EVEN_STEP_NS;
}

/* How many of @group profit by what it takes. */
static s64 takers(const struct coop_group *group)
{
	return group->members & LL_EVEN_MEMBERS;
}

/* Add the members that @group has on @cpu to its sum, where some of them have wanted the CPU in the last steps. */
static void add_members(struct coop_group *group, s32 cpu, u64 now)
{
	struct group_key key = { .name = group->key.name, .kind = group->key.kind, .cpu = cpu };
	u32 *number = bpf_map_lookup_elem(&group_numbers, &key);
	struct coop_group *there = number ? group_of(*number) : NULL;
	s64 members, given_pm;
	u64 level;

	/* An element of a hash map may be another key's by the time it is read. */
	if (!there || !has_key(there, &key) || !is_evened(there, now))
		return;
	members = there->wanting & LL_EVEN_MEMBERS;
	level = ll_even_now(there->level, group->speed, evened_ago_ns(there, now) / 1000000);
	group->sum.members += members;
	group->sum.ahead += members * ll_even_within(level, group->level, ll_even_horizon(group->speed));
	given_pm = LL_EVEN_ONE_PM - (s64)there->share_pm;
	if (there != group)
		group->sum.given_pm += (given_pm < 0 ? takers(there) : members) * given_pm;
}

/*
 * Compare the group @number, of which somebody waits, with its members elsewhere, once in a step. Not static: so the verifier looks at it once.
 */
__weak int even_out(u32 number, u64 now)
{
	struct coop_group *group = group_of(number);
	u64 steps, last;
	s64 behind;
	s32 cpu;

	if (!group || evened_ago_ns(group, now) < EVEN_STEP_NS || group->least == COOP_ABI_NEVER)
		return 0;
	/* Two of a group may begin to wait at once: one that is away is under another CPU's lock. */
	last = group->evened_at_ns;
	if (__sync_val_compare_and_swap(&group->evened_at_ns, last, now) != last)
		return 0;
	steps = now > last ? (now - last) / EVEN_STEP_NS : 0;
	group->level = group->least;
	group->wanting = group->heap.count;
	group->sum = (struct ll_even_sum){};
	bpf_for(cpu, 0, nr_cpus)
		add_members(group, cpu, now);
	if (!group->sum.members) {
		group->share_pm = LL_EVEN_ONE_PM;
		return 0;
	}
	behind = ll_even_divide(group->sum.ahead, group->sum.members);
	if (steps <= EVEN_STEPS_VALID)
		group->speed = ll_even_speed(group->speed, ll_even_apart(group->level + behind, group->mean), steps);
	group->mean = group->level + behind;
	group->share_pm = ll_even_share(behind, group->speed, group->sum.given_pm, takers(group));
	return 0;
}

/* The virtual time that @tctx, cooperative, takes rather than @vtime, for its group's sake. */
static u64 evened_vtime(const struct task_ctx *tctx, u64 vtime, u64 now)
{
	struct coop_group *group = nr_cpus > 1 && tctx->coop.group ? group_of(tctx->coop.group) : NULL;
	u32 share_pm = group && is_evened(group, now) ? group->share_pm : LL_EVEN_ONE_PM;

	return share_pm >= LL_EVEN_LEAST_PM && share_pm != LL_EVEN_ONE_PM ? vtime * LL_EVEN_ONE_PM / share_pm : vtime;
}

#endif /* LIMELIGHT_EVEN_H */
