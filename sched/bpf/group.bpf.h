/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Groups of cooperative threads (section 3.1). The threads of a group pool their CPU time, and the one of the least user virtual time has it. So each
 * has a virtual time of its own, as everybody has, and whenever one is the first of its class, it changes places with the one that matters more: that
 * runs now, and pays with the other's place. What they get together is what each would get alone, whoever of them gets it. A group is one CPU's: its
 * members elsewhere are another one, because nobody can take their place here. What is between those is evened out by what they count for: there a
 * CPU's may get up to twice of what they would alone, and others that much less (even.bpf.h). And it is one kind's: members of another class or
 * weight are another one, too, as their places cost something else. Where one of those was the first of all, nobody changed places any more.
 *
 * What it is bad at: the weight of a cgroup is no part of the kind, since it counts for more or less from one moment to the next, by who else is
 * active there. Who would be the first of its group, and is of a cgroup that makes less of it, keeps the others from sharing for so long.
 *
 * A group is named by its user and a number, so whoever of that user joins has its owner's consent. A process of another user has it by a token,
 * which it has handed to the daemon; then the number that it chose stands for that group (page.bpf.h), for as long as the consent lasts. Its
 * threads leave at their next call, or the next time they wait, whichever comes first. A group counts for the user of whoever made it, a guest or
 * not: the kind is theirs to choose.
 */
#ifndef LIMELIGHT_GROUP_H
#define LIMELIGHT_GROUP_H

enum {
	/*
	 * One for each CPU and kind of each group; a user but root who has more has their threads alone in groups of their own. There is room for the
	 * groups of fifteen users, as for their threads and their pages; each takes 16 KiB, most of that for its heap, 8 MiB in all.
	 */
	COOP_MAX_GROUPS_OF_USER = 32,
	COOP_MAX_GROUPS = 512,		/* a power of two */
	COOP_GROUPS_TRIED = 64,		/* to find an unused one, at a call; the next call looks on */
	GROUP_IN_THE_MAKING = 1U << 31,
};

struct group_key {
	u64 name;		/* user id and number, see group_name() */
	u64 kind;		/* see kind_of() */
	u64 cpu;
};

struct coop_group {
	struct bpf_spin_lock lock;
	struct group_key key;
	u32 members;		/* 0: it is nobody's; GROUP_IN_THE_MAKING: its key is not to be read */
	u32 uid;		/* for whom it counts */
	u32 least_pid;		/* the one to run of those that wait */
	u64 least;		/* and its user virtual time; COOP_ABI_NEVER where none waits */
	u64 evened_at_ns;	/* when it was last compared with the group's members on other CPUs (even.bpf.h) */
	u64 level;		/* and `least` then */
	u32 wanting;		/* and how many waited */
	u64 mean;		/* and that of all of them */
	u64 speed;		/* by how much that grows in a step, see ll_even_speed() */
	u32 share_pm;		/* what each member counts for, in thousandths of its weight */
	struct ll_even_sum sum;	/* for even_out() alone: in memory, or the verifier follows it through each turn of a loop */
	struct ll_heap heap;
};

/* Number 0 is none. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, COOP_MAX_GROUPS);
	__type(key, u32);
	__type(value, struct coop_group);
} coop_groups SEC(".maps");

/* Their numbers. An entry is there from a little after its group is made until a little after its last member has left. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, COOP_MAX_GROUPS);
	__type(key, struct group_key);
	__type(value, u32);
} group_numbers SEC(".maps");

/* Those of each user who owns some. */
struct user_counts group_users SEC(".maps");

/* Where an unused one is looked for next. */
u32 next_group;

/* As release_places, in the heaps of groups. */
u16 group_places[LL_HEAP_ITEMS];

static struct coop_group *group_of(u32 number)
{
	return bpf_map_lookup_elem(&coop_groups, &number);
}

/* As change_queue(), for the queue of a group: @item waits with @user_vtime, or not at all. */
__weak bool change_group_queue(u32 number, u32 item, u64 user_vtime)
{
	struct coop_group *group = group_of(number);
	bool done = true;

	if (!group)
		return false;
	bpf_spin_lock(&group->lock);
	if (user_vtime == COOP_ABI_NEVER)
		ll_heap_remove(&group->heap, group_places, item);
	else
		done = ll_heap_insert(&group->heap, group_places, item, user_vtime);
	group->least = ll_heap_first(&group->heap, COOP_ABI_NEVER);
	group->least_pid = release_pids[group->heap.at[0].item & (LL_HEAP_ITEMS - 1)];
	bpf_spin_unlock(&group->lock);
	return done;
}

/* The least user virtual time of @tctx's group, itself left out: it runs. COOP_ABI_NEVER where there is none. */
static u64 least_of_group(const struct task_ctx *tctx)
{
	struct coop_group *group = group_of(tctx->coop.group);

	return tctx->coop.group && group ? group->least : COOP_ABI_NEVER;
}

/* One member of @group less. Its key is its own for as long as it has one. */
static void drop_member(struct coop_group *group)
{
	struct group_key key = group->key;
	u32 uid = group->uid;

	if (__sync_fetch_and_sub(&group->members, 1) != 1)
		return;
	bpf_map_delete_elem(&group_numbers, &key);
	dismiss_user(&group_users, uid);
}

/* Is @group that of @key? */
static bool has_key(const struct coop_group *group, const struct group_key *key)
{
	return group->key.name == key->name && group->key.kind == key->kind && group->key.cpu == key->cpu;
}

/* What the places of @p cost, but for its cgroup's part: those who differ in it are members of different groups. */
static u64 kind_of(const struct task_struct *p, const struct task_ctx *tctx)
{
	return (u64)p->scx.weight << 32 | (u64)tctx->class << 16 | (u16)tctx->weight_pm;
}

static void leave_group(struct task_ctx *tctx)
{
	struct coop_group *group = group_of(tctx->coop.group);

	if (!tctx->coop.group || !group)
		return;
	drop_member(group);
	__sync_fetch_and_sub(&coop_grouped, 1);
	tctx->coop.group = 0;
	tctx->coop.gid = 0;
	tctx->coop.is_guest = 0;
}

/* Become a member of @group, if that has the @key; false where it has not, or has it no more. */
static bool enter_group(struct coop_group *group, const struct group_key *key)
{
	u32 members = group->members;

	if (!members || (members & GROUP_IN_THE_MAKING) || !has_key(group, key))
		return false;
	if (__sync_val_compare_and_swap(&group->members, members, members + 1) != members)
		return false;
	/* Its last member may have left before we came, and somebody else have taken it. */
	if (has_key(group, key))
		return true;
	drop_member(group);
	return false;
}

/* A group that is nobody's, with one member of user @uid and the @key; 0 where none is found. */
static u32 make_group(const struct group_key *key, u32 uid)
{
	struct coop_group *group;
	u32 i, number, first = next_group;

	bpf_for(i, 0, COOP_GROUPS_TRIED) {
		number = (first + i) & (COOP_MAX_GROUPS - 1);
		group = number ? group_of(number) : NULL;
		if (!group || group->members || __sync_val_compare_and_swap(&group->members, 0, GROUP_IN_THE_MAKING | 1))
			continue;
		next_group = number + 1;
		group->key = *key;
		group->uid = uid;
		group->evened_at_ns = 0;
		group->speed = 0;
		group->share_pm = LL_EVEN_ONE_PM;
		__sync_fetch_and_and(&group->members, ~GROUP_IN_THE_MAKING);
		return number;
	}
	next_group = first + COOP_GROUPS_TRIED;
	return 0;
}

/*
 * Have somebody of user @uid become a member of the group @key, a new one if need be. Its number; 0 where there is no room, where two come at once,
 * or the last one is just leaving: the next call tries again.
 */
static u32 find_group(const struct group_key *key, u32 uid)
{
	u32 *found = bpf_map_lookup_elem(&group_numbers, key), number;
	struct coop_group *group;

	if (found) {
		number = READ_ONCE(*found);
		group = group_of(number);
		return group && enter_group(group, key) ? number : 0;
	}
	if (!admit_user(&group_users, uid, COOP_MAX_GROUPS_OF_USER))
		return 0;
	number = make_group(key, uid);
	if (number && !bpf_map_update_elem(&group_numbers, key, &number, BPF_NOEXIST))
		return number;
	/* Who has entered it nevertheless, by what was found before, has the user counted less when it leaves. */
	group = group_of(number);
	if (number && group && __sync_fetch_and_sub(&group->members, 1) != 1)
		return 0;
	dismiss_user(&group_users, uid);
	return 0;
}

/*
 * The group @number, if it is new, begins where @was, of the same name and CPU but of another kind, stood: by what a HuC thread is rated its kind
 * changes now and then, and all that has been found out about its CPU would be lost. Where that is not true of it, it is for two steps.
 */
static void begin_as(u32 number, const struct coop_group *was)
{
	struct coop_group *group = group_of(number);

	if (!group || group->evened_at_ns)
		return;
	group->level = was->level;
	group->mean = was->mean;
	group->speed = was->speed;
	group->share_pm = was->share_pm;
	group->evened_at_ns = was->evened_at_ns;
}

/* Has @tctx, of some group and with page @number, entered it before its consents changed for the last time? */
static bool is_consent_old(const struct task_ctx *tctx, u32 number)
{
	return tctx->coop.consents != consents_now(number);
}

/* The group of @p, of @tctx, whose page is @number, is the one that it calls @gid from now on; 0: none. */
static void change_group(const struct task_struct *p, struct task_ctx *tctx, u32 number, u32 gid)
{
	struct group_key key = { .kind = kind_of(p, tctx), .cpu = tctx->coop.home };
	struct coop_group *group = group_of(tctx->coop.group), *was = tctx->coop.group ? group : NULL;
	u32 barrier;

	tctx->coop.consents = consents_now(number);
	/* What is read of consents from here on is no older than that: an atomic whose value is used is a barrier. */
	barrier = __sync_fetch_and_add(&coop_grouped, 0);
	barrier_var(barrier);
	key.name = group_name(number, gid);
	if (gid && tctx->coop.group && group && has_key(group, &key)) {
		tctx->coop.gid = gid;
		return;
	}
	if (was && (was->key.name != key.name || was->key.cpu != key.cpu))
		was = NULL;
	leave_group(tctx);
	/* Without a page it is nobody's: all whose daemon has ended would be one user. */
	if (gid && number < COOP_MAX_PAGES)
		tctx->coop.group = find_group(&key, user_of_page(number));
	if (!tctx->coop.group)
		return;
	if (was)
		begin_as(tctx->coop.group, was);
	__sync_fetch_and_add(&coop_grouped, 1);
	tctx->coop.gid = gid;
	tctx->coop.kind = key.kind;
	tctx->coop.is_guest = key.name >> LL_GROUP_UID_SHIFT != user_of_page(number);
}

/* @one and @other, both of @cpu and @class, change places in the order of virtual time. */
static void swap_vtimes(struct task_ctx *one, struct task_ctx *other, s32 cpu, u32 class)
{
	u32 rate_pm = one->coop.rate_pm;
	u64 vtime;

	if (nr_cpus > 1) {
		be_forgiven(one, cpu, cpu_ctx_of(cpu), class);
		be_forgiven(other, cpu, cpu_ctx_of(cpu), class);
	}
	vtime = one->vtime;
	one->vtime = other->vtime;
	other->vtime = vtime;
	/* How far ahead that is goes by the rate that it was charged at. */
	one->coop.rate_pm = other->coop.rate_pm;
	other->coop.rate_pm = rate_pm;
}

/* Do the cgroups of @one and @other make the same of a weight now? Two users' are never the same one. */
static bool scale_the_same(const struct task_ctx *one, const struct task_ctx *other)
{
	u64 now = scx_bpf_now();

	return one->cgroup_slot == other->cgroup_slot ||
	       fresh_cgroup_scale(one->cgroup_slot, one->class, now) == fresh_cgroup_scale(other->cgroup_slot, other->class, now);
}

/* Does the place of @one in the order of virtual time cost @other the same? Else a group would be a way to get more than its weights. */
static bool weigh_the_same(const struct task_struct *one, const struct task_ctx *of_one, const struct task_struct *other,
			   const struct task_ctx *of_other)
{
	return one->scx.weight == other->scx.weight && of_one->weight_pm == of_other->weight_pm && scale_the_same(of_one, of_other);
}

/*
 * Has @tctx run on, or slept elsewhere, since its last call? What it said then of its events is for its group no more, or it could be the first for
 * good. Who is ahead of its class is told slices, but not demoted for running on: so by what it ran, too.
 */
static bool is_out_of_touch(const struct task_ctx *tctx)
{
	return (tctx->coop.standing & (COOP_DEMOTED_OVERRAN | COOP_DEMOTED_SLEPT)) || tctx->coop.ran_ns > (s64)(other_period_ns + coop_slack_ns);
}

/*
 * Would whoever has the place of @tctx on @cpu for its own be believed there? Else it waits for its turn, and not for others': who had been prompt
 * for longer than its share would hand that on, and live on its group. Half of what is allowed, as the other one's own releases come on top of it.
 */
static bool is_place_for_others(const struct task_ctx *tctx, s32 cpu)
{
	return !ll_vtime_before(after_turn(tctx, cpu_ctx_of(cpu)) + rated_ns(tctx, coop_ahead_ns / 2), tctx->vtime);
}

/* Have the most important of @first's group run here in its place, if that is another one. */
static bool take_more_important(s32 cpu, const struct task_struct *first, struct task_ctx *tctx)
{
	struct coop_group *group = group_of(tctx->coop.group);
	struct task_struct *p;
	struct task_ctx *of_p;
	bool taken = false;

	/* Who has no best-effort event is awake for something else, a descriptor say: it has its place for itself. */
	if (!group || tctx->coop.user_vtime == COOP_ABI_NEVER || group->least >= tctx->coop.user_vtime || is_out_of_touch(tctx))
		return false;
	p = bpf_task_from_pid(group->least_pid);
	if (!p)
		return false;
	of_p = task_ctx_of(p);
	if (of_p && of_p->class == tctx->class && waiting_class(of_p) == tctx->class && of_p->coop.group == tctx->coop.group &&
	    is_item_of(p, of_p, of_p->coop.item, cpu) && weigh_the_same(first, tctx, p, of_p))
		taken = take_from_queue(cpu, p, queue_of(p, of_p, tctx->class, cpu), 0);
	if (taken)
		swap_vtimes(of_p, tctx, cpu, tctx->class);
	bpf_task_release(p);
	return taken;
}

/* Of the first of @class, which waits in @queue: have the one run that its group has for its place. False where that is itself. */
static bool take_in_place_of_first(s32 cpu, u32 class, u64 queue)
{
	struct task_struct *first;
	struct task_ctx *tctx;
	bool taken = false;

	bpf_for_each(scx_dsq, first, queue, 0) {
		tctx = task_ctx_of(first);
		/* Who is there for having waited too long keeps that. */
		if (!tctx || !tctx->coop.group || waiting_class(tctx) != class)
			break;
		taken = take_more_important(cpu, first, tctx);
		if (!taken)
			break;
		scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, queue_vtime(first, tctx, class, cpu));
		scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, first, queue, 0);
		break;
	}
	return taken;
}

/* Take the next task of @class that @cpu may run, as take_from_class() does; of a group, the most important one. */
static bool take_next(s32 cpu, struct cpu_ctx *cctx, u32 class)
{
	u64 queue = shared_queue(llc_of(cpu), class), own_vtime, shared_vtime;

	if (!coop_grouped)
		return take_from_class(cpu, cctx, class);
	if (nr_cpus > 1) {
		if (!pinned_head(cpu, cctx, class, &own_vtime))
			return take_from_class(cpu, cctx, class);
		if (shared_head(cpu, class, &shared_vtime) && ll_vtime_before(shared_vtime, own_vtime))
			return take_from_class(cpu, cctx, class);
		queue = pinned_queue(cpu, class);
	}
	return take_in_place_of_first(cpu, class, queue) || take_from_class(cpu, cctx, class);
}

#endif /* LIMELIGHT_GROUP_H */
