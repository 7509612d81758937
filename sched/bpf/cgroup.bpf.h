/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cpu.weight for sched_ext: the cgroup hierarchy flattened into each task's effective weight.
 *
 * Every cgroup knows, per class, the sum of the weights of what is active in it: its runnable tasks and its active
 * children. A task's effective weight is its own, times weight/sum of each cgroup above it (math/fair.h). One queue
 * per class ordered by the virtual time so charged shares the CPU as the hierarchy says, without a queue per cgroup.
 *
 * Races: the sums are atomics but a cgroup's step from idle to active and its parent's are not one transaction. Two CPUs
 * may leave a parent's sum wrong by one child's weight for the length of one callback; the charge of that moment is off by
 * as much and nothing is remembered of it. Scales are cached for SCALE_VALID_NS, so a share may lag by that long.
 */
#ifndef LIMELIGHT_CGROUP_H
#define LIMELIGHT_CGROUP_H

enum cgroup_limits {
	MAX_CGROUPS = 16384,
	MAX_CGROUP_DEPTH = 16,
	SCALE_VALID_NS = 4000000,
};

/* One cgroup. A slot of an array, not an entry of a map: the hot path goes up the hierarchy at every wake-up and sleep. */
struct cgroup_ctx {
	u32 parent;			/* slot of the cgroup above it */
	u32 weight;			/* cpu.weight */
	u32 active_weight[LL_NR_CLASSES];	/* sum of the weights of what is active inside */
	u32 counted_weight[LL_NR_CLASSES];	/* what this cgroup has added to its parent's sum */
	u64 scale[LL_NR_CLASSES];
	u64 scale_at_ns[LL_NR_CLASSES];
};

/* Slot 0 is every root's, and that of what found no room: what is in it is not scaled. */
struct cgroup_ctx cgroups[MAX_CGROUPS];

/* Which slot a cgroup has, by its id, and the slots that are free. Only for cgroups that come, go or change. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_CGROUPS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64);
	__type(value, u32);
} cgroup_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, MAX_CGROUPS);
	__type(value, u32);
} free_slots SEC(".maps");

/* The lowest slot that was never used. The kernel serialises the callbacks for cgroups. */
u32 fresh_slot = 1;

static struct cgroup_ctx *cgroup_ctx_of(u32 slot)
{
	barrier_var(slot);
	return &cgroups[slot & (MAX_CGROUPS - 1)];
}

/* Add @delta to the weight active in cgroup @slot and, where that makes it active or idle, in those above it. */
static void shift_active_weight(u32 slot, u32 class, s32 delta)
{
	struct cgroup_ctx *cctx;
	u32 before;
	int level;

	if (class >= LL_NR_CLASSES)
		return;
	bpf_for(level, 0, MAX_CGROUP_DEPTH) {
		if (!slot)
			return;
		cctx = cgroup_ctx_of(slot);
		before = __sync_fetch_and_add(&cctx->active_weight[class], delta);
		if (delta > 0 && before == 0) {
			delta = cctx->weight;
			cctx->counted_weight[class] = delta;
		} else if (delta < 0 && before + delta == 0) {
			delta = -(s32)cctx->counted_weight[class];
		} else {
			return;
		}
		slot = cctx->parent;
	}
}

/* Most tasks of a small system are the root's, which has no sum; even a call that returns at once costs as much as what is asked here. */
static __always_inline void count_active_weight(const struct task_ctx *tctx, s32 delta)
{
	if (tctx->cgroup_slot)
		shift_active_weight(tctx->cgroup_slot, tctx->counted_class, delta);
}

/* What a task keeps of its cgroup. */
static u32 slot_of(struct cgroup *cgrp)
{
	u64 id = cgrp && cgrp->level > 0 ? cgrp->kn->id : 0;
	u32 *slot = id ? bpf_map_lookup_elem(&cgroup_slots, &id) : NULL;

	return slot ? *slot : 0;
}

static __always_inline void uncount_runnable(struct task_ctx *tctx)
{
	if (tctx->counted_class == LL_NR_CLASSES)
		return;
	count_active_weight(tctx, -(s32)tctx->counted_weight);
	tctx->counted_class = LL_NR_CLASSES;
}

/* @p wants a CPU, or does so still, maybe with another class or weight. */
static __always_inline void count_runnable(struct task_struct *p, struct task_ctx *tctx)
{
	u32 weight = p->scx.weight;

	if (tctx->counted_class == tctx->class && tctx->counted_weight == weight)
		return;
	uncount_runnable(tctx);
	tctx->counted_class = tctx->class;
	tctx->counted_weight = weight;
	count_active_weight(tctx, tctx->counted_weight);
}

/* The scale of cgroup @slot for @class: from the cache, or from its ancestors downwards. */
static u64 cgroup_scale(u32 slot, u32 class, u64 now)
{
	struct cgroup_ctx *own = cgroup_ctx_of(slot), *cctx;
	u64 scale = LL_SCALE_ONE;
	int level;

	class = class_index(class);
	if (own->scale_at_ns[class] && now - own->scale_at_ns[class] < SCALE_VALID_NS)
		return own->scale[class];
	/* A product, so the order of the levels does not matter. */
	bpf_for(level, 0, MAX_CGROUP_DEPTH) {
		if (!slot)
			break;
		cctx = cgroup_ctx_of(slot);
		scale = ll_cgroup_scale(scale, cctx->weight, cctx->active_weight[class]);
		slot = cctx->parent;
	}
	own->scale[class] = scale;
	own->scale_at_ns[class] = now;
	return scale;
}

/* The virtual time that @p, of @tctx, takes for @ran_ns of a CPU. */
static __always_inline u64 vtime_for(const struct task_struct *p, const struct task_ctx *tctx, u64 ran_ns, u64 now)
{
	u64 scale = tctx->cgroup_slot ? cgroup_scale(tctx->cgroup_slot, tctx->class, now) : LL_SCALE_ONE;

	return ll_vtime_charge(ran_ns, p->scx.weight, scale * tctx->weight_pm / 1000);
}

/* The scale as of now: to be compared with another one's, which the cache may have of another time. */
static u64 fresh_cgroup_scale(u32 slot, u32 class, u64 now)
{
	cgroup_ctx_of(slot)->scale_at_ns[class_index(class)] = 0;
	return cgroup_scale(slot, class, now);
}

/*
 * A slot that nobody uses, or 0. The one that was left longest ago: on some kernels a cgroup goes before the last of its tasks
 * has done so, which is still counted in its slot.
 */
static u32 take_slot(void)
{
	u32 slot;

	if (fresh_slot < MAX_CGROUPS)
		return fresh_slot++;
	return bpf_map_pop_elem(&free_slots, &slot) ? 0 : slot;
}

/* Beyond MAX_CGROUPS cgroups their tasks count as the root's, which is no reason to refuse the cgroup. */
static s32 add_cgroup(struct cgroup *cgrp, u32 weight)
{
	struct cgroup_ctx zero = {}, *cctx;
	struct cgroup *parent;
	u64 id = cgrp->kn->id;
	u32 slot;

	if (cgrp->level == 0)
		return 0;
	slot = take_slot();
	if (!slot)
		return 0;
	cctx = cgroup_ctx_of(slot);
	*cctx = zero;
	cctx->weight = weight;
	parent = bpf_cgroup_ancestor(cgrp, cgrp->level - 1);
	if (parent) {
		cctx->parent = slot_of(parent);
		bpf_cgroup_release(parent);
	}
	return bpf_map_update_elem(&cgroup_slots, &id, &slot, BPF_ANY);
}

static void remove_cgroup(struct cgroup *cgrp)
{
	u64 id = cgrp->kn->id;
	u32 slot = slot_of(cgrp);

	if (!slot)
		return;
	bpf_map_delete_elem(&cgroup_slots, &id);
	bpf_map_push_elem(&free_slots, &slot, BPF_ANY);
}

/* cpu.weight was written: correct what this cgroup, where active, has added to its parent. */
static void set_cgroup_weight(struct cgroup *cgrp, u32 weight)
{
	u32 slot = slot_of(cgrp);
	struct cgroup_ctx *cctx = cgroup_ctx_of(slot);
	int class;
	s32 delta;

	if (!slot)
		return;
	cctx->weight = weight;
	bpf_for(class, 0, LL_NR_CLASSES) {
		if (!cctx->active_weight[class])
			continue;
		delta = (s32)weight - (s32)cctx->counted_weight[class];
		cctx->counted_weight[class] = weight;
		shift_active_weight(cctx->parent, class, delta);
	}
}

static void move_between_cgroups(struct task_struct *p, struct task_ctx *tctx, struct cgroup *to)
{
	bool was_counted = tctx->counted_class != LL_NR_CLASSES;

	uncount_runnable(tctx);
	tctx->cgroup_slot = slot_of(to);
	if (was_counted)
		count_runnable(p, tctx);
}

#endif /* LIMELIGHT_CGROUP_H */
