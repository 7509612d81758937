/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The queues: one per class and last-level cache, one per class and CPU for tasks that only this CPU can run, and one per
 * cache for tasks that have waited too long. All are ordered by virtual time, but the last, which go by how long each has waited.
 */
#ifndef LIMELIGHT_QUEUE_H
#define LIMELIGHT_QUEUE_H

static u64 shared_queue(u32 llc, u32 class)
{
	return 0x10000 | (llc << 4) | class;
}

static u64 pinned_queue(s32 cpu, u32 class)
{
	return 0x20000 | ((u32)cpu << 4) | class;
}

static u64 rescue_queue(u32 llc)
{
	return 0x30000 | llc;
}

static u32 llc_of(s32 cpu)
{
	return nr_llcs > 1 ? cpu_llc[cpu_index(cpu)] : 0;
}

/* Where @p waits on @cpu under @class. Among the tasks of one CPU those that have waited too long are the first of class OTHER. */
static u64 queue_of(const struct task_struct *p, u32 class, s32 cpu)
{
	if (is_pinned(p))
		return pinned_queue(cpu, class == RESCUED ? LL_CLASS_OTHER : class);
	return class == RESCUED ? rescue_queue(llc_of(cpu)) : shared_queue(llc_of(cpu), class);
}

static s32 create_queues(void)
{
	s32 err = 0;
	u32 class, i;

	bpf_for(i, 0, nr_llcs) {
		bpf_for(class, LL_CLASS_HUCIN, LL_NR_CLASSES)
			err = err ?: scx_bpf_create_dsq(shared_queue(i, class), -1);
		err = err ?: scx_bpf_create_dsq(rescue_queue(i), -1);
	}
	bpf_for(i, 0, nr_cpus)
		bpf_for(class, LL_CLASS_HUCIN, LL_NR_CLASSES)
			err = err ?: scx_bpf_create_dsq(pinned_queue(i, class), -1);
	if (err)
		scx_bpf_error("cannot create the dispatch queues: %d", err);
	return err;
}

static void mark_waiting(struct task_ctx *tctx, u32 class, u32 pinned_cpu)
{
	tctx->waiting_class = class;
	tctx->waiting_cpu = pinned_cpu;
	if (class >= LL_NR_CLASSES)
		return;
	if (pinned_cpu < LL_MAX_CPUS)
		__sync_fetch_and_add(&cpu_ctx_of(pinned_cpu)->pinned_waiting[class], 1);
	else
		__sync_fetch_and_add(&waiting[class], 1);
}

/* The exchange makes sure that of two callers, a CPU that takes the task and ll_publish, one counts down. */
static void unmark_waiting(struct task_ctx *tctx)
{
	u32 class, cpu = tctx->waiting_cpu;

	tctx->queued_at_ns = 0;
	if (tctx->waiting_class >= LL_NR_CLASSES)
		return;
	class = __sync_lock_test_and_set(&tctx->waiting_class, LL_NR_CLASSES);
	if (class >= LL_NR_CLASSES)
		return;
	if (cpu < LL_MAX_CPUS)
		__sync_fetch_and_sub(&cpu_ctx_of(cpu)->pinned_waiting[class], 1);
	else
		__sync_fetch_and_sub(&waiting[class], 1);
}

/*
 * A task that waited as this says could not be moved. Either a CPU has taken it, and ll_running() unmarks it or has done so; or
 * it is where it was. Should it have run and be queued anew by now, that mark is another's to keep.
 */
static void restore_waiting(struct task_ctx *tctx, u32 class, u32 pinned_cpu, u64 queued_at_ns)
{
	if (tctx->queued_at_ns != queued_at_ns)
		return;
	unmark_waiting(tctx);
	tctx->queued_at_ns = queued_at_ns;
	mark_waiting(tctx, class, pinned_cpu);
}

/* Where there are very many of a HuC class their slices are shorter, too: one round of other_round_ns. */
static u64 slice_of(struct task_ctx *tctx)
{
	u64 slice, in_round;

	if (!is_huc_class(tctx->class))
		return other_slice_max_ns;
	if (tctx->rating_flags & LL_RATING_SELF)
		return report_budget_ns;
	slice = ll_rated_slice(huc_slice_ns, tctx->slice_pm, slice_min_ns);
	in_round = other_round_ns / (waiting[class_index(tctx->class)] / nr_online + 1);
	return slice < in_round ? slice : in_round;
}

/*
 * Have @p, which waits in the queue that @it walks, wait under @class from now on, with @vtime in that queue; it has waited as long as
 * before. False where a CPU was faster, and has it.
 */
static bool move_waiting(struct bpf_iter_scx_dsq *it, struct task_struct *p, struct task_ctx *tctx, u32 class, u64 vtime)
{
	s32 cpu = scx_bpf_task_cpu(p);
	u64 queued_at_ns = tctx->queued_at_ns;
	u32 old_class = tctx->waiting_class, old_cpu = tctx->waiting_cpu;

	unmark_waiting(tctx);
	tctx->queued_at_ns = queued_at_ns;
	mark_waiting(tctx, class, is_pinned(p) ? cpu : LL_MAX_CPUS);
	scx_bpf_dsq_move_set_slice(it, slice_of(tctx));
	scx_bpf_dsq_move_set_vtime(it, vtime);
	if (scx_bpf_dsq_move_vtime(it, p, queue_of(p, class, cpu), 0))
		return true;
	restore_waiting(tctx, old_class, old_cpu, queued_at_ns);
	return false;
}

/*
 * "Use it or lose it": a task that slept does not come back with virtual time saved up. The daemon always comes back with
 * some: it has to learn of new input soon, but whoever serves the person goes first.
 */
static void catch_up_vtime(struct task_ctx *tctx)
{
	u32 class = tctx->class;

	if ((tctx->rating_flags & LL_RATING_SELF) && class == LL_CLASS_OTHER)
		tctx->vtime = class_vtime[LL_CLASS_OTHER] - other_period_ns;
	else if (class < LL_NR_CLASSES && ll_vtime_before(tctx->vtime, class_vtime[class]))
		tctx->vtime = class_vtime[class];
}

/* Where a task that has waited since @since_ns stands among those who have waited too long. */
static u64 rescued_vtime(const struct task_struct *p, u64 since_ns)
{
	return is_pinned(p) ? class_vtime[LL_CLASS_OTHER] - rescue_ahead_ns : since_ns;
}

/*
 * Put @p into the queue of its class. Two kinds of tasks wait among those who have waited too long: the daemon, when it wakes as the
 * first of them, and whoever ends, for what it holds is wanted by others, and without a process id it could not be rescued later.
 */
static void enqueue_in_class(struct task_struct *p, struct task_ctx *tctx, s32 cpu, u64 enq_flags)
{
	u64 now = scx_bpf_now(), vtime = tctx->vtime;
	u32 class = tctx->class;

	if ((tctx->rating_flags & LL_RATING_SELF) && class == LL_CLASS_OTHER) {
		class = RESCUED;
		vtime = rescued_vtime(p, now - (tctx->wakeable_at_ns ? overdue_after_ns / 2 : rescue_after_ns));
	} else if (is_exiting(p) && class != LL_CLASS_HUCIN) {
		class = RESCUED;
		vtime = rescued_vtime(p, now - rescue_after_ns);
	}
	unmark_waiting(tctx);
	tctx->queued_at_ns = now;
	mark_waiting(tctx, class, is_pinned(p) ? cpu : LL_MAX_CPUS);
	scx_bpf_dsq_insert_vtime(p, queue_of(p, class, cpu), slice_of(tctx), vtime, enq_flags);
	count(LL_STAT_wakeups_queued);
}

/* Virtual time at the head of @queue, or ~0 if it is empty. */
static bool head_vtime(u64 queue, u64 *vtime)
{
	struct task_struct *head = __COMPAT_scx_bpf_dsq_peek(queue);

	if (!head)
		return false;
	*vtime = head->scx.dsq_vtime;
	return true;
}

/* Take the next task of @class that @cpu may run. */
static bool take_from_class(s32 cpu, struct cpu_ctx *cctx, u32 class)
{
	u64 own = pinned_queue(cpu, class), shared = shared_queue(llc_of(cpu), class), own_vtime, shared_vtime;
	u32 i;

	if (own_waiting(cctx, class) && head_vtime(own, &own_vtime)) {
		if (!head_vtime(shared, &shared_vtime) || !ll_vtime_before(shared_vtime, own_vtime))
			if (scx_bpf_dsq_move_to_local(own, 0))
				return true;
	}
	/* Not only where waiting[] says so: a count may be off for a moment, and who waits must not depend on it. */
	if (scx_bpf_dsq_move_to_local(shared, 0))
		return true;
	if (own_waiting(cctx, class) && scx_bpf_dsq_move_to_local(own, 0))
		return true;
	if (nr_llcs > 1) {
		bpf_for(i, 0, nr_llcs)
			if (i != llc_of(cpu) && scx_bpf_dsq_move_to_local(shared_queue(i, class), 0))
				return true;
	}
	return false;
}

/* Take a task that has waited too long, of any cache: this CPU may be the only one that gets at it. */
static bool take_rescued(s32 cpu)
{
	u32 i;

	if (!waiting[RESCUED])
		return false;
	if (scx_bpf_dsq_move_to_local(rescue_queue(llc_of(cpu)), 0))
		return true;
	bpf_for(i, 0, nr_llcs)
		if (i != llc_of(cpu) && scx_bpf_dsq_move_to_local(rescue_queue(i), 0))
			return true;
	return false;
}

/* Does a task of a class above @class wait for @cpu? */
static bool more_urgent_waits(struct cpu_ctx *cctx, u32 class)
{
	if (class > LL_CLASS_HUCIN && (waiting[LL_CLASS_HUCIN] | pinned_waiting(cctx, LL_CLASS_HUCIN)))
		return true;
	return class > LL_CLASS_HUCOUT && (waiting[LL_CLASS_HUCOUT] | pinned_waiting(cctx, LL_CLASS_HUCOUT));
}

#endif /* LIMELIGHT_QUEUE_H */
