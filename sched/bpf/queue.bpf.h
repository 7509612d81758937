/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The queues: one per class and last-level cache, one per class and CPU for tasks that only this CPU can run, and one per
 * cache for tasks that have waited too long. All are ordered by virtual time, but the last, which go by how long each has waited, HuC tasks,
 * what the kernel has to do and readers of RCU a little before the others.
 */
#ifndef LIMELIGHT_QUEUE_H
#define LIMELIGHT_QUEUE_H

/* Below that, and below two slices, it is not worth another cache. */
enum { MIGRATE_LAG_NS = 20000000 };

/* A CPU whose pinned tasks have fallen behind is theirs for no longer than anybody is promised to wait (design, promise 5). */
enum { PINNED_LAG_NS = 1000000000 };

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

/* The CPU in whose queue @p waits, where that is one of a CPU. */
static s32 queue_cpu(const struct task_struct *p, const struct task_ctx *tctx)
{
	return tctx->coop.cell ? tctx->coop.home : scx_bpf_task_cpu(p);
}

/* Where @p waits on @cpu under @class. Among the tasks of one CPU those that have waited too long are the first of class OTHER. */
static u64 queue_of(const struct task_struct *p, const struct task_ctx *tctx, u32 class, s32 cpu)
{
	if (is_pinned(p, tctx))
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

/*
 * As what a task is counted among those that wait, in one word that changes at once: its class or RESCUED, the CPU where that is a queue of one
 * CPU, since when, and a number that each change counts up, by which who moves a task sees that it was taken or queued anew meanwhile. Of the
 * number there are 2^14: a mover would have to be off its CPU for so many changes of one task to be mistaken.
 */
enum {
	WAITS_CLASS = 3,
	WAITS_NOT = 4,
	WAITS_CPU_SHIFT = 3,
	WAITS_CPU = 2047,
	WAITS_SINCE_SHIFT = 14,
	WAITS_SINCE = WAIT_EPOCHS - 1,
	WAITS_NR = 1 << 18,
};

/* Since when a task waits stays as it is. */
static u32 waits_next(u32 waits, u32 class, u32 cpu)
{
	return ((waits & -(u32)WAITS_NR) + WAITS_NR) | (waits & WAITS_SINCE << WAITS_SINCE_SHIFT) | (cpu & WAITS_CPU) << WAITS_CPU_SHIFT | class;
}

/* The class, or RESCUED, under which the task of @tctx is counted as waiting; LL_NR_CLASSES where it is not. */
static u32 waiting_class(const struct task_ctx *tctx)
{
	u32 waits = tctx->waits;

	return waits & WAITS_NOT ? LL_NR_CLASSES : waits & WAITS_CLASS;
}

/* The CPU in whose own queue the task of @waits is, or was last; LL_MAX_CPUS for a shared one. */
static u32 waiting_cpu(u32 waits)
{
	return waits >> WAITS_CPU_SHIFT & WAITS_CPU;
}

static void count_waiting(u32 waits, s32 by)
{
	u32 class = class_index(waits & WAITS_CLASS), cpu = waiting_cpu(waits);

	if (cpu < LL_MAX_CPUS)
		__sync_fetch_and_add(&cpu_ctx_of(cpu)->pinned_waiting[class], by);
	else
		__sync_fetch_and_add(&waiting[class], by);
	if (class != RESCUED)
		__sync_fetch_and_add(&waiting_since[waits >> WAITS_SINCE_SHIFT & WAITS_SINCE], by);
}

/* @tctx, which is not marked as waiting, is put into a queue now. */
static void mark_waiting(struct task_ctx *tctx, u32 class, u32 pinned_cpu, u64 now)
{
	u32 since = (now >> wait_epoch_shift & WAITS_SINCE) << WAITS_SINCE_SHIFT;
	u32 waits = waits_next((tctx->waits & ~(WAITS_SINCE << WAITS_SINCE_SHIFT)) | since, class, pinned_cpu);

	count_waiting(waits, 1);
	tctx->waits = waits;
}

/* @tctx runs, or is taken out of its queue. From here on nobody who wants to move it does so. */
static void unmark_waiting(struct task_ctx *tctx)
{
	u32 waits;

	tctx->queued_at_ns = 0;
	if (tctx->waits & WAITS_NOT)
		return;
	waits = __sync_fetch_and_or(&tctx->waits, WAITS_NOT);
	if (!(waits & WAITS_NOT))
		count_waiting(waits, -1);
}

/* Have @tctx be counted as @to rather than as @from; false where it is not @from any more. */
static bool change_waiting(struct task_ctx *tctx, u32 from, u32 to)
{
	bool changed;

	count_waiting(to, 1);
	changed = __sync_val_compare_and_swap(&tctx->waits, from, to) == from;
	count_waiting(changed ? from : to, -1);
	return changed;
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
	s32 cpu = queue_cpu(p, tctx);
	u32 from = tctx->waits, to = waits_next(from, class, is_pinned(p, tctx) ? cpu : LL_MAX_CPUS);

	/* Of several that want to move it, one has it from here on. */
	if ((from & WAITS_NOT) || !change_waiting(tctx, from, to))
		return false;
	scx_bpf_dsq_move_set_slice(it, slice_of(tctx));
	scx_bpf_dsq_move_set_vtime(it, vtime);
	if (scx_bpf_dsq_move_vtime(it, p, queue_of(p, tctx, class, cpu), 0))
		return true;
	/* It is where it was, or a CPU has taken it and unmarks it in ll_running(), if it has not done so. */
	change_waiting(tctx, to, from);
	return false;
}

/* Virtual time of the first in @queue; false where it is empty. */
static bool head_vtime(u64 queue, u64 *vtime)
{
	struct task_struct *head = __COMPAT_scx_bpf_dsq_peek(queue);

	if (!head)
		return false;
	*vtime = head->scx.dsq_vtime;
	return true;
}

/*
 * Virtual time of the first of @class in the queue that @cpu shares; false where it is empty, as the count most often says. That may be too low for a
 * moment, while one is moved to another queue: then somebody else runs for one more slice.
 */
static bool shared_head(s32 cpu, u32 class, u64 *vtime)
{
	return waiting[class_index(class)] && head_vtime(shared_queue(llc_of(cpu), class), vtime);
}

/*
 * Pinned tasks. What only one CPU can run falls behind its class for good, where other CPUs have less to do. It keeps that, by which it has this
 * CPU, up to PINNED_LAG_NS: what comes later must not have to wait for years of it. What is beyond that all of the CPU are forgiven at
 * once, or their weights would count for nothing among them: `forgiven` is what has been added to the virtual times of all of them, and their
 * queue is ordered by what they would be without it.
 */
static u32 pinned_clock(s32 cpu, u32 class)
{
	return (u32)cpu << 2 | class;
}

/* Add to @tctx's virtual time what the pinned tasks of @cctx have been forgiven since it was last looked at. */
static void be_forgiven(struct task_ctx *tctx, s32 cpu, const struct cpu_ctx *cctx, u32 class)
{
	u64 forgiven = cctx->forgiven[class_index(class)];

	if (tctx->pinned_clock == pinned_clock(cpu, class))
		tctx->vtime += forgiven - tctx->forgiven;
	tctx->forgiven = forgiven;
}

/* Virtual time of the first that waits for @cpu alone; false where none does. */
static bool pinned_head(s32 cpu, const struct cpu_ctx *cctx, u32 class, u64 *vtime)
{
	if (!head_vtime(pinned_queue(cpu, class), vtime))
		return false;
	*vtime += cctx->forgiven[class_index(class)];
	return true;
}

/* What orders @p among those that wait with it under @class, its own, on @cpu. */
static u64 queue_vtime(const struct task_struct *p, const struct task_ctx *tctx, u32 class, s32 cpu)
{
	if (!is_pinned(p, tctx))
		return tctx->vtime;
	if (tctx->pinned_clock == pinned_clock(cpu, class))
		return tctx->vtime - tctx->forgiven;
	return tctx->vtime - cpu_ctx_of(cpu)->forgiven[class_index(class)];
}

/* The least virtual time of the pinned tasks of @class that wait for @cpu or run there; that of the class where there are none. */
static u64 first_pinned(s32 cpu, const struct cpu_ctx *cctx, u32 class)
{
	u64 clock = class_vtime[class_index(class)], first = clock, runs;

	if (pinned_waiting(cctx, class) && !pinned_waiting(cctx, RESCUED))
		pinned_head(cpu, cctx, class, &first);
	if (cctx->class == class && cctx->runs_pinned) {
		runs = running_vtime(cctx, scx_bpf_now()) + cctx->forgiven[class_index(class)] - cctx->runs_forgiven;
		if (ll_vtime_before(runs, first))
			first = runs;
	}
	return ll_vtime_before(clock, first) ? clock : first;
}

/* The virtual time of @tctx, of @class, with all that it has been forgiven where it was until now. */
static u64 forgiven_vtime(const struct task_ctx *tctx, u32 class)
{
	const struct cpu_ctx *cctx = cpu_ctx_of(tctx->pinned_clock >> 2);

	if (tctx->pinned_clock == NO_PINNED_CLOCK)
		return tctx->vtime;
	return tctx->vtime + cctx->forgiven[class_index(class)] - tctx->forgiven;
}

/*
 * How far @tctx, of @class, is ahead of the first of those whose clock it has gone by: it takes that along, or to go from clock to clock, by changing
 * where one may run, would be a way to be always the first.
 */
static u64 debt_of(const struct task_ctx *tctx, u32 class)
{
	u64 vtime = forgiven_vtime(tctx, class), first = class_vtime[class_index(class)];
	u32 clock = tctx->pinned_clock;

	if (clock != NO_PINNED_CLOCK) {
		if ((clock & 3) != class)
			return 0;
		first = first_pinned(clock >> 2, cpu_ctx_of(clock >> 2), class);
	}
	return ll_vtime_before(first, vtime) ? vtime - first : 0;
}

/* As catch_up_vtime(), for a task that only @cpu can run: who comes there begins where the first of them stands, not behind them all. */
static void catch_up_pinned(struct task_ctx *tctx, s32 cpu, struct cpu_ctx *cctx, u32 class, bool woken)
{
	u64 floor = class_vtime[class_index(class)] - PINNED_LAG_NS, was = forgiven_vtime(tctx, class), debt, first;
	bool comes = tctx->pinned_clock != pinned_clock(cpu, class);

	debt = comes ? debt_of(tctx, class) : 0;
	be_forgiven(tctx, cpu, cctx, class);
	/* Most often, at each dispatch: whoever is further behind comes here itself. */
	if (!comes && !woken && !ll_vtime_before(tctx->vtime, floor))
		return;
	first = first_pinned(cpu, cctx, class);
	if (!comes && !woken && ll_vtime_before(tctx->vtime, first))
		first = tctx->vtime;
	if (ll_vtime_before(first, floor)) {
		cctx->forgiven[class_index(class)] += floor - first;
		be_forgiven(tctx, cpu, cctx, class);
		first = floor;
	}
	if (comes || (woken && ll_vtime_before(tctx->vtime, first)))
		tctx->vtime = first + debt;
	if (comes && tctx->pinned_clock != NO_PINNED_CLOCK)
		tctx->coop.brought_ns = ll_vtime_before(was, tctx->vtime) ? earlier(tctx->vtime - was, other_period_ns) : 0;
	tctx->pinned_clock = pinned_clock(cpu, class);
}

/*
 * "Use it or lose it": a task that slept does not come back with virtual time saved up. The daemon always comes back with
 * some: it has to learn of new input soon, but whoever serves the person goes first.
 */
static __always_inline void catch_up_vtime(const struct task_struct *p, struct task_ctx *tctx, bool woken)
{
	u32 class = tctx->class;
	u64 first;

	if (class == LL_CLASS_KTHREAD)
		return;
	if (class < LL_NR_CLASSES && is_pinned(p, tctx)) {
		catch_up_pinned(tctx, queue_cpu(p, tctx), cpu_ctx_of(queue_cpu(p, tctx)), class, woken);
		return;
	}
	first = class_vtime[class_index(class)];
	if (tctx->pinned_clock != NO_PINNED_CLOCK)
		first += debt_of(tctx, class);
	tctx->pinned_clock = NO_PINNED_CLOCK;
	if ((tctx->rating_flags & LL_RATING_SELF) && class == LL_CLASS_OTHER)
		tctx->vtime = class_vtime[LL_CLASS_OTHER] - other_period_ns;
	else if (class < LL_NR_CLASSES && ll_vtime_before(tctx->vtime, first))
		tctx->vtime = first;
}

/*
 * Where a task that has waited since @since_ns stands among those who have waited too long. A HuC task that any CPU may run counts as having waited
 * for huc_first_ns more: what all have waited for may be a real-time task, and it would wait for a thousand others as long again. No more, for they
 * are owed a share. What the kernel has to do, and the daemon, is before it for as long as it has not waited for 1.4 s (head_start_ns()).
 */
static u64 rescued_vtime(const struct task_struct *p, const struct task_ctx *tctx, u64 since_ns)
{
	if (is_pinned(p, tctx))
		return class_vtime[LL_CLASS_OTHER] - rescue_ahead_ns;
	return since_ns - (is_huc_class(tctx->class) ? huc_first_ns : 0);
}

/*
 * Was @p preempted where it reads what RCU protects? No grace period ends before it goes on, and whom the person needs may wait for that: beside ten
 * spinning processes one took 0.68 s, until the reader was rescued. (The kernel can have such readers boosted; Debian's does not.)
 */
static bool holds_up_grace_period(const struct task_struct *p, u64 enq_flags)
{
	int own = 0;

	/* Each program of ours is a reader in the name of whom it interrupts. Before 6.19 who a real-time task preempts comes here from within another. */
	if (p == bpf_get_current_task_btf())
		own = enq_flags & SCX_ENQ_REENQ ? 3 : 1;
	return bpf_core_field_exists(p->rcu_read_lock_nesting) && p->rcu_read_lock_nesting > own;
}

/* Has the task of @tctx been a reader for as long as anybody is to wait, at each turn that it had? And may it come to the end of that? */
static bool reads_for_long(struct task_ctx *tctx, u64 now)
{
	if (now - tctx->reads_since_ns < rescue_after_ns)
		return false;
	if (now - tctx->reader_window_at_ns >= reader_window_ns) {
		tctx->reader_window_at_ns = now;
		tctx->reader_ran_ns = 0;
	}
	return tctx->reader_ran_ns < reader_budget_ns;
}

/*
 * Does @p, of class OTHER, go before that as such a one? By as much CPU as a kernel thread, its nice value whatever it is (khugepaged is one), for
 * which it is charged. What only one CPU can run does not: its place among those of that CPU is kept by who waits there. Nor where nobody is at the
 * desk, nor cooperative: hackbench would do 4 % less, and still 2 % if only those did who were readers the time before, too. But wherever it is, who
 * has been one for long comes to the end of that: at a short turn each 0.6 s khugepaged copied a huge page for more than 21 s, at which the kernel
 * ends a scheduler.
 */
static bool goes_first_as_reader(const struct task_struct *p, struct task_ctx *tctx, const struct cpu_ctx *cctx, u64 now, u64 enq_flags)
{
	if (tctx->class != LL_CLASS_OTHER || !holds_up_grace_period(p, enq_flags)) {
		tctx->reads_since_ns = 0;
		return false;
	}
	if (!tctx->reads_since_ns)
		tctx->reads_since_ns = now;
	else if (reads_for_long(tctx, now))
		return true;
	return (tracking | cctx->coop_threads) && !is_pinned(p, tctx) &&
	       ll_vtime_before(tctx->vtime, class_vtime[LL_CLASS_OTHER] + vtime_for(p, tctx, kthread_ahead_ns, now));
}

/* Does the task of @tctx, of class OTHER, go before that, as it holds what others wait for (locks.bpf.h)? */
static bool is_lent_place(const struct task_ctx *tctx)
{
	return tctx->lock_class == LL_CLASS_OTHER && tctx->class == LL_CLASS_OTHER;
}

/*
 * Does @p go before its class? Whoever ends does, for what it holds is wanted by others, and without a process id it could not be rescued
 * later. So does a kernel thread that has had its time before everybody (kthread_first_ns), and, for a while after each wake-up and while somebody
 * is at the desk, one that is nice: what khugepaged does in 24 ms with the locks of somebody's memory it would hold these for seconds for, by its
 * weight beside ten busy processes.
 */
static bool goes_before_class(const struct task_struct *p, const struct task_ctx *tctx)
{
	if (is_huc_class(tctx->class))
		return false;
	if (is_exiting(p) || is_lent_place(tctx))
		return true;
	if (tctx->class != LL_CLASS_OTHER || !is_kthread(p))
		return false;
	/* One that never has enough is one of the class: in the long run it gets what the kernel's own scheduler would give it. */
	if (!is_nice(p))
		return ll_vtime_before(tctx->vtime, class_vtime[LL_CLASS_OTHER] + kthread_ahead_ns);
	/* For the person's sake: with nobody at the desk it has its turns (renew_even()), and at the first key after a pause locks.bpf.h has to do. */
	if (!tracking || tctx->indirect_ran_ns >= kthread_budget_ns)
		return false;
	/* Not where HuC tasks leave nothing but the guaranteed share: that is for everybody. */
	return share_credit_ns < -2 * (s64)slice_min_ns;
}

/*
 * For how long @p, which begins to wait before its class, counts as having done so already: what the kernel has to do, and the daemon when it wakes
 * up, is before most of those who have waited too long; a reader of RCU before who has not waited for a second yet.
 */
static u64 head_start_ns(const struct task_struct *p, const struct task_ctx *tctx, bool is_daemon, bool is_reader)
{
	bool is_first = is_daemon ? tctx->wakeable_at_ns : is_kthread(p) && !is_nice(p);

	if (is_first)
		return overdue_after_ns / 2;
	return is_reader ? rescue_after_ns + 4 * rescue_period_ns : rescue_after_ns;
}

/* Put @p into the queue of its class, or among those who have waited too long: who goes before it, and the daemon as one of the first. */
static void enqueue_in_class(struct task_struct *p, struct task_ctx *tctx, s32 cpu, u64 enq_flags)
{
	u64 now = scx_bpf_now(), vtime = queue_vtime(p, tctx, tctx->class, cpu);
	u32 class = tctx->class;
	bool is_daemon = (tctx->rating_flags & LL_RATING_SELF) && class == LL_CLASS_OTHER;
	bool is_reader = goes_first_as_reader(p, tctx, cpu_ctx_of(cpu), now, enq_flags);

	if (is_daemon || is_reader || goes_before_class(p, tctx)) {
		class = RESCUED;
		vtime = rescued_vtime(p, tctx, now - head_start_ns(p, tctx, is_daemon, is_reader));
	}
	tctx->queued_at_ns = now;
	mark_waiting(tctx, class, is_pinned(p, tctx) ? cpu : LL_MAX_CPUS, now);
	scx_bpf_dsq_insert_vtime(p, queue_of(p, tctx, class, cpu), slice_of(tctx), vtime, enq_flags);
	count(LL_STAT_wakeups_queued);
}

/* Is it time for @cctx to look at other caches' queues? Once in LOOK_AGAIN_NS a task may be taken from there. */
static bool looks_far(const struct cpu_ctx *cctx)
{
	return nr_llcs > 1 && scx_bpf_now() - cctx->far_at_ns >= LOOK_AGAIN_NS;
}

/*
 * The queue of another cache whose first task is more than MIGRATE_LAG_NS and two slices of virtual time before @vtime, or 0: where the CPUs of a
 * cache have less to do than those of another, the tasks of that one would fall behind for good.
 */
static u64 queue_behind(s32 cpu, u32 class, u64 vtime)
{
	u64 first = vtime - longer(MIGRATE_LAG_NS, 2 * other_slice_max_ns), head, queue = 0;
	u32 i;

	bpf_for(i, 0, nr_llcs) {
		if (i == llc_of(cpu) || !head_vtime(shared_queue(i, class), &head) || !ll_vtime_before(head, first))
			continue;
		first = head;
		queue = shared_queue(i, class);
	}
	return queue;
}

/* Take the first of another cache's queue, if it has fallen behind those of this one. */
static bool take_from_behind(s32 cpu, struct cpu_ctx *cctx, u32 class)
{
	u64 vtime = class_vtime[class_index(class)], queue;

	shared_head(cpu, class, &vtime);
	queue = queue_behind(cpu, class, vtime);
	if (!queue)
		return false;
	cctx->far_at_ns = scx_bpf_now();
	return scx_bpf_dsq_move_to_local(queue, 0);
}

/* Take the next task of @class that @cpu may run. */
static bool take_from_class(s32 cpu, struct cpu_ctx *cctx, u32 class)
{
	u64 own = pinned_queue(cpu, class), shared = shared_queue(llc_of(cpu), class), own_vtime, shared_vtime;
	u32 i;

	if (looks_far(cctx) && take_from_behind(cpu, cctx, class))
		return true;
	if (own_waiting(cctx, class)) {
		if (!shared_head(cpu, class, &shared_vtime) ||
		    (pinned_head(cpu, cctx, class, &own_vtime) && !ll_vtime_before(shared_vtime, own_vtime)))
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

/* Outside of a dispatch: have the first that waits in @queue run next on @cpu. False where it may not, or another CPU was faster. */
static bool move_first(s32 cpu, u64 queue)
{
	bool moved = false;
	struct task_struct *p;

	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, queue, 0) {
		moved = bpf_cpumask_test_cpu(cpu, p->cpus_ptr) &&
			scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL_ON | cpu, SCX_ENQ_PREEMPT);
		break;
	}
	bpf_rcu_read_unlock();
	return moved;
}

/*
 * Outside of a dispatch: have the first that waits for class OTHER preempt what runs on this CPU, @cpu. False also where the running task has to be
 * told by a kick: older kernels move the other one and no more.
 */
static bool preempt_by_first(s32 cpu)
{
	struct task_struct *current = bpf_get_current_task_btf();
	bool told = current->scx.slice, moved = move_first(cpu, shared_queue(llc_of(cpu), LL_CLASS_OTHER));

	if (moved)
		count(LL_STAT_dispatched_other);
	return moved && told && !current->scx.slice;
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
static __always_inline bool more_urgent_waits(struct cpu_ctx *cctx, u32 class)
{
	if (class > LL_CLASS_HUCIN && (waiting[LL_CLASS_HUCIN] | pinned_waiting(cctx, LL_CLASS_HUCIN)))
		return true;
	return class > LL_CLASS_HUCOUT && (waiting[LL_CLASS_HUCOUT] | pinned_waiting(cctx, LL_CLASS_HUCOUT));
}

#endif /* LIMELIGHT_QUEUE_H */
