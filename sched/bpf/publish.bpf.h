/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * New ratings take effect: every task looks its class up at its next turn, and the waiting tasks of a process that has just
 * become HuC change queue at once. Otherwise the first key press after a pause would wait behind the whole of class OTHER.
 */
#ifndef LIMELIGHT_PUBLISH_H
#define LIMELIGHT_PUBLISH_H

/* Move @p, which waits in the queue that @it walks, to the queue of its new class. */
static void requeue(struct bpf_iter_scx_dsq *it, struct task_struct *p, struct task_ctx *tctx)
{
	s32 cpu = queue_cpu(p, tctx), victim;
	bool goes_first;
	u32 class;
	u64 vtime;

	refresh_rating(p, tctx);
	goes_first = is_lent_place(tctx);
	class = goes_first ? RESCUED : tctx->class;
	/* Who is to run for having waited too long keeps that, unless it can go before. */
	if (waiting_class(tctx) == RESCUED && tctx->class != LL_CLASS_HUCIN && tctx->lock_class >= LL_NR_CLASSES)
		return;
	if (!(goes_first || is_huc_class(class)) || waiting_class(tctx) == class)
		return;
	vtime = goes_first ? rescued_vtime(p, tctx, tctx->queued_at_ns - rescue_after_ns) : queue_vtime(p, tctx, class, cpu);
	if (!move_waiting(it, p, tctx, class, vtime))
		return;
	count(LL_STAT_reclassified);
	victim = pick_victim(p, tctx, cpu);
	if (victim >= 0)
		scx_bpf_kick_cpu(victim, SCX_KICK_PREEMPT);
}

/* The tasks of process @tgid in @queue, or where @pid is not 0 that one only, change queue if their class has changed. */
static void requeue_process(u64 queue, u32 tgid, u32 pid)
{
	struct task_struct *p;
	struct task_ctx *tctx;

	if (!scx_bpf_dsq_nr_queued(queue))
		return;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, queue, 0) {
		if (p->tgid != tgid || (pid && p->pid != pid))
			continue;
		tctx = task_ctx_of(p);
		if (tctx)
			requeue(BPF_FOR_EACH_ITER, p, tctx);
		if (pid)
			break;
	}
	bpf_rcu_read_unlock();
}

SEC("syscall")
int ll_publish(struct ll_publish_args *args)
{
	u32 tgid = args->tgid, i, class;

	tracking = args->tracking;
	__sync_fetch_and_add(&rating_epoch, 1);
	if (!tgid)
		return 0;
	bpf_for(i, 0, nr_llcs) {
		bpf_for(class, LL_CLASS_HUCOUT, LL_NR_CLASSES)
			requeue_process(shared_queue(i, class), tgid, 0);
		requeue_process(rescue_queue(i), tgid, 0);
	}
	bpf_for(i, 0, nr_cpus)
		bpf_for(class, LL_CLASS_HUCOUT, LL_NR_CLASSES)
			requeue_process(pinned_queue(i, class), tgid, 0);
	return 0;
}

#endif /* LIMELIGHT_PUBLISH_H */
