/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Whose turn it is on a CPU that has nobody to run, or whose running task's slice is over: of a class the next, of the classes the first, and of those
 * that wait for the guaranteed share who has waited too long.
 */
#ifndef LIMELIGHT_TURN_H
#define LIMELIGHT_TURN_H

/* Should the task of @tctx, whose slice is over, go on rather than the next of its class? */
static bool keeps_running(struct task_ctx *tctx, s32 cpu, struct cpu_ctx *cctx)
{
	u32 class = tctx->class;
	u64 head;

	if (class == LL_CLASS_OTHER && (waiting[RESCUED] | pinned_waiting(cctx, RESCUED)))
		return false;
	if (pinned_waiting(cctx, class) && pinned_head(cpu, cctx, class, &head) && !ll_vtime_before(tctx->vtime, head))
		return false;
	if (head_vtime(shared_queue(llc_of(cpu), class), &head) && !ll_vtime_before(tctx->vtime, head))
		return false;
	return !looks_far(cctx) || !queue_behind(cpu, class, tctx->vtime);
}

/* Class OTHER's turn: those who have waited too long first. */
static bool take_other(s32 cpu, struct cpu_ctx *cctx)
{
	if (pinned_waiting(cctx, RESCUED)) {
		/* Those of the whole machine may never come to an end. */
		cctx->own_turn = !cctx->own_turn;
		if (cctx->own_turn && scx_bpf_dsq_move_to_local(pinned_queue(cpu, LL_CLASS_OTHER), 0))
			return true;
	}
	return take_rescued(cpu) || take_next(cpu, cctx, LL_CLASS_OTHER);
}

/*
 * Class HUCOUT's turn, of a guaranteed share: HUCIN leaves it nothing (design, promise 5). Every other one, while one of its tasks has waited too
 * long: as far as that was seen at the last look, so it may have more than its part for rescue_period_ns.
 */
static bool take_late_hucout(s32 cpu, struct cpu_ctx *cctx)
{
	if (!hucout_is_late || !(waiting[LL_CLASS_HUCOUT] | pinned_waiting(cctx, LL_CLASS_HUCOUT)))
		return false;
	cctx->hucout_turn = !cctx->hucout_turn;
	if (!cctx->hucout_turn || !take_next(cpu, cctx, LL_CLASS_HUCOUT))
		return false;
	cctx->late_hucout_runs = 1;
	return true;
}

/* The guaranteed share is due: for those that class HUCIN leaves nothing, too. */
static bool take_share(s32 cpu, struct cpu_ctx *cctx)
{
	return take_late_hucout(cpu, cctx) || take_other(cpu, cctx);
}

/* Try the HuC classes above @below, most urgent first. */
static bool take_huc(s32 cpu, struct cpu_ctx *cctx, u32 below, u64 now)
{
	bool waits = false;
	u32 class;

	bpf_for(class, LL_CLASS_HUCIN, LL_CLASS_OTHER) {
		if (class >= below || !(waiting[class_index(class)] | pinned_waiting(cctx, class)))
			continue;
		if (take_next(cpu, cctx, class)) {
			count(class == LL_CLASS_HUCIN ? LL_STAT_dispatched_hucin : LL_STAT_dispatched_hucout);
			return true;
		}
		waits = true;
	}
	/* For another CPU, all of them: looking again at once would only burn time. */
	if (waits)
		cctx->no_huc_until_ns = now + LOOK_AGAIN_NS;
	return false;
}

#endif /* LIMELIGHT_TURN_H */
