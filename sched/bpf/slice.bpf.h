/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How long the task that a CPU runs may do so: by its class, by who waits, and by the releases and deadlines that come.
 */
#ifndef LIMELIGHT_SLICE_H
#define LIMELIGHT_SLICE_H

/* The slices of class OTHER tasks: shorter, the more of them wait. Good for LOOK_AGAIN_NS. */
static void size_slices(struct cpu_ctx *cctx, u64 now)
{
	u64 queued;

	if (now - cctx->slice_at_ns < LOOK_AGAIN_NS)
		return;
	queued = (waiting[LL_CLASS_OTHER] + waiting[RESCUED]) / nr_online + pinned_waiting(cctx, LL_CLASS_OTHER) +
		 pinned_waiting(cctx, RESCUED);
	cctx->slice_at_ns = now;
	cctx->other_slice_ns = ll_fair_slice(other_period_ns, queued, other_slice_min_ns, other_slice_max_ns, other_round_ns);
	cctx->share_slice_ns = ll_share_slice(share_round_ns, share_pm, queued, share_slice_min_ns, slice_min_ns);
}

/*
 * The task of @tctx runs on @cctx, or goes on: as the first of its class, whose clock it moves. Who was rescued may be far ahead of the class, and
 * who runs for its release too, and a kernel thread: whoever wakes next must not be put there.
 */
static __always_inline void advance_clock(const struct task_struct *p, const struct task_ctx *tctx, const struct cpu_ctx *cctx)
{
	u32 class = tctx->class;

	if (class >= LL_NR_CLASSES || is_kthread(p) || tctx->rescued || cctx->runs_rank || runs_for_release(tctx, cctx))
		return;
	if (ll_vtime_before(class_vtime[class], tctx->vtime))
		class_vtime[class] = tctx->vtime;
}

/* The slice of a class OTHER task that runs on @cctx now, or is rescued; @overtook one that was sent here to preempt. */
static __always_inline u64 slice_of_other(struct cpu_ctx *cctx, bool overtook, u64 now)
{
	size_slices(cctx, now);
	cctx->huc_waits_at_ns = 0;
	/* Not only while somebody is at the desk: hubs are HUCIN always. */
	if (more_urgent_waits(cctx, LL_CLASS_OTHER) && now >= cctx->no_huc_until_ns)
		return share_is_due(cctx) ? cctx->share_slice_ns : AT_ONCE_NS;
	return overtook ? AT_ONCE_NS : cctx->other_slice_ns;
}

/*
 * The slice of a kernel thread that runs on @cctx before everybody; where nobody could want to come before it, it may as well go on. One that works
 * for others (the writeback of a disk, say, for milliseconds in one go) makes way for a release or a HuC task once it has run for kthread_first_ns.
 */
static u64 slice_of_kthread(const struct task_struct *p, const struct task_ctx *tctx, struct cpu_ctx *cctx, u64 now)
{
	u64 next;

	cctx->kthread_waits = 0;
	cctx->runs_worker = works_for_others(p);
	if (cctx->runs_worker) {
		if (makes_way_for_huc(cctx, tctx, now))
			return left_before_huc(cctx, tctx, now);
		cctx->huc_waits_at_ns = 0;
		next = cctx->coop_threads ? next_release(scx_bpf_task_cpu(p), LL_CLASS_OTHER, true) : COOP_ABI_NEVER;
		next = next > cctx->coop_now_ns ? next - cctx->coop_now_ns : 0;
		return next < kthread_first_ns ? kthread_first_ns : next < other_slice_max_ns ? next : other_slice_max_ns;
	}
	if (!(tracking | cctx->coop_threads | cctx->reservations) || tctx->indirect_ran_ns >= kthread_first_ns)
		return other_slice_max_ns;
	return kthread_first_ns - tctx->indirect_ran_ns;
}

/* The slice of a HuC task that runs on @cctx now, perhaps before a kernel thread that it has passed. */
static __always_inline u64 slice_of_huc(struct task_ctx *tctx, struct cpu_ctx *cctx, u64 now)
{
	u64 slice = slice_of(tctx), left;

	cctx->huc_waits_at_ns = 0;
	if (!cctx->kthread_waits)
		return slice;
	left = now < cctx->huc_first_until_ns ? cctx->huc_first_until_ns - now : 0;
	return earlier(slice, longer(left, slice_min_ns));
}

/* @cpu runs @p from now on, or goes on with it: what wakers on other CPUs see, and when the slice ends. */
static __always_inline void occupy(struct task_struct *p, struct task_ctx *tctx, s32 cpu, struct cpu_ctx *cctx, u64 now)
{
	bool overtook = cctx->claim && cctx->claim - 1 < tctx->class && scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu);
	u64 slice;

	cctx->claim = 0;
	cctx->class = tctx->class;
	cctx->runs_hub = tctx->rating_flags & LL_RATING_HUB;
	cctx->runs_first = is_lent_place(tctx);
	note_virtual_time(p, tctx, cctx, now);
	if (tctx->class == LL_CLASS_KTHREAD)
		slice = slice_of_kthread(p, tctx, cctx, now);
	else
		slice = tctx->class != LL_CLASS_OTHER && !tctx->rescued ? slice_of_huc(tctx, cctx, now) : slice_of_other(cctx, overtook, now);
	cctx->runs_rank = 0;
	if (cctx->reservations | tctx->reserve.number)
		slice = slice_until_deadline(p, tctx, cpu, slice, now);
	advance_clock(p, tctx, cctx);
	/* A tick is too coarse for a release, or for a period's start. */
	if (cctx->coop_threads)
		end_slice_in(cpu, cctx, slice_until_release(p, tctx, cctx, slice), now);
	else if (cctx->reservations | tctx->reserve.number)
		end_slice_in(cpu, cctx, slice, now);
	else
		arm_slice_end(cpu, cctx, slice, now);
}

/* Should the task of @tctx, whose slice is over, go on rather than the next of its class? */
static bool keeps_running(struct task_ctx *tctx, s32 cpu, struct cpu_ctx *cctx)
{
	u32 class = tctx->class;
	u64 head;

	if (is_lent_place(tctx))
		return !rescue_comes_first(cctx);
	if (class == LL_CLASS_OTHER && (waiting[RESCUED] | pinned_waiting(cctx, RESCUED)))
		return false;
	if (pinned_waiting(cctx, class) && pinned_head(cpu, cctx, class, &head) && !ll_vtime_before(tctx->vtime, head))
		return false;
	if (shared_head(cpu, class, &head) && !ll_vtime_before(tctx->vtime, head))
		return false;
	return !looks_far(cctx) || !queue_behind(cpu, class, tctx->vtime);
}

/* @prev, whose slice is over, goes on with another one: a HuC task that was rescued as one of its class, for which others do not pay. */
static void go_on(struct task_struct *prev, struct task_ctx *tctx, s32 cpu, struct cpu_ctx *cctx, u64 now)
{
	if (is_huc_class(tctx->class))
		tctx->rescued = 0;
	scx_bpf_task_set_slice(prev, slice_of(tctx));
	occupy(prev, tctx, cpu, cctx, now);
}

#endif /* LIMELIGHT_SLICE_H */
