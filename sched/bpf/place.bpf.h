/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where a task that wakes up runs: straight behind a waker that hands over to it, else an idle CPU that shares a cache, else a CPU that
 * runs something less urgent, else its queue. The idle CPU is the kernel's choice (scx_bpf_select_cpu_dfl knows SMT, caches and nodes);
 * the victim is ours.
 */
#ifndef LIMELIGHT_PLACE_H
#define LIMELIGHT_PLACE_H

/*
 * Does what runs on @cctx have to make way for a task of @class with @vtime? Within a class, only for one that is far
 * behind; the estimate's error makes a task wait for the end of a slice at worst.
 */
static bool yields_to(const struct cpu_ctx *cctx, u32 class, u64 vtime)
{
	u32 running = cctx->class;

	if (running >= LL_NR_CLASSES || cctx->claim)
		return false;
	/* Who runs on a reservation makes way for an earlier rank only; but one that makes room, for HuC tasks too while a login is about. */
	if (cctx->runs_rank && !(cctx->runs_makes_room && is_huc_class(class) && is_login_about(scx_bpf_now())))
		return false;
	if (running != class)
		return running > class;
	if (cctx->coop_until_ns || cctx->runs_first)
		return false;
	return ll_vtime_before(vtime + preempt_lag_ns, running_vtime(cctx, scx_bpf_now()));
}

/* Reserve @cctx for a task of @class: of two wakers that choose the same CPU, one must look for another. */
static bool claim_cpu(struct cpu_ctx *cctx, u32 class)
{
	return __sync_val_compare_and_swap(&cctx->claim, 0, class + 1) == 0;
}

static bool try_victim(struct task_struct *p, struct task_ctx *tctx, s32 cpu)
{
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);

	return (yields_to(cctx, tctx->class, tctx->vtime) || (tctx->coop.cell && makes_way_for_release(cctx, tctx))) &&
	       bpf_cpumask_test_cpu(cpu, p->cpus_ptr) &&
	       claim_cpu(cctx, tctx->class);
}

/* May @p take @cpu, which is free to switch, from a task of a less urgent class? */
static bool takes_from_below(struct task_struct *p, struct task_ctx *tctx, s32 cpu)
{
	const struct cpu_ctx *cctx = cpu_ctx_of(cpu);

	return cctx->class > tctx->class && !cctx->goes_through_queues && try_victim(p, tctx, cpu);
}

/*
 * A CPU that runs something less urgent than @p, which is not of class OTHER, or -1. Where @p ran before comes first (its cache), then this
 * CPU (its waker's data), then one that runs class OTHER, then any. Not one whose timer goes through the queues: pick_victim() takes that where
 * there is no other.
 */
static s32 pick_below(struct task_struct *p, struct task_ctx *tctx, s32 prev_cpu, s32 this_cpu)
{
	s32 fallback = -1;
	u32 cpu;

	if (takes_from_below(p, tctx, prev_cpu))
		return prev_cpu;
	if (this_cpu != prev_cpu && takes_from_below(p, tctx, this_cpu))
		return this_cpu;
	bpf_for(cpu, 0, nr_cpus) {
		if (cpu_ctx_of(cpu)->class == LL_CLASS_OTHER && takes_from_below(p, tctx, cpu))
			return cpu;
		if (cpu_ctx_of(cpu)->class == LL_CLASS_HUCOUT && !cpu_ctx_of(cpu)->goes_through_queues)
			fallback = cpu;
	}
	return fallback >= 0 && takes_from_below(p, tctx, fallback) ? fallback : -1;
}

/*
 * A CPU whose running task makes way for @p, or -1. One of @p's own class does so only where nothing less urgent runs: or the display server
 * would be preempted, and have to find another CPU, by the very client that it wakes up, while class OTHER has all the other CPUs.
 */
static s32 pick_victim(struct task_struct *p, struct task_ctx *tctx, s32 prev_cpu)
{
	s32 this_cpu = bpf_get_smp_processor_id(), cpu;
	bool everywhere = nr_cpus > 1 && !is_pinned(p, tctx) && tctx->class != LL_CLASS_OTHER;

	cpu = everywhere ? pick_below(p, tctx, prev_cpu, this_cpu) : -1;
	if (cpu >= 0)
		return cpu;
	if (try_victim(p, tctx, prev_cpu))
		return prev_cpu;
	if (!everywhere)
		return -1;
	if (this_cpu != prev_cpu && try_victim(p, tctx, this_cpu))
		return this_cpu;
	bpf_for(cpu, 0, nr_cpus)
		if (try_victim(p, tctx, cpu))
			return cpu;
	return -1;
}

/* Is @cpu idle? Then it is ours from now on. */
static bool is_idle(const struct cpu_ctx *cctx, s32 cpu)
{
	return cctx->class >= LL_NR_CLASSES && scx_bpf_test_and_clear_cpu_idle(cpu);
}

/* @p runs next on the CPU that was chosen for it; with SCX_ENQ_PREEMPT in @enq_flags now. */
static __always_inline void run_next(struct task_struct *p, struct task_ctx *tctx, u64 enq_flags, u32 stat)
{
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_of(tctx), enq_flags);
	count(stat);
}

/* Where @p, cooperative, runs: on its own CPU, at once where that is idle or makes way. */
static s32 select_home(struct task_struct *p, struct task_ctx *tctx)
{
	s32 cpu = home_of(p, tctx);

	if (is_idle(cpu_ctx_of(cpu), cpu)) {
		run_next(p, tctx, 0, LL_STAT_wakeups_direct);
	} else if (pick_victim(p, tctx, cpu) == cpu) {
		run_next(p, tctx, SCX_ENQ_PREEMPT, LL_STAT_wakeups_preempting);
	}
	return cpu;
}

/* Is no CPU idle? One that has just found nothing to run, but has not said so yet, is missed, as by the kernel's own search. */
static bool all_busy(void)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	bool busy = bpf_cpumask_empty(idle);

	scx_bpf_put_idle_cpumask(idle);
	return busy;
}

/*
 * The kernel's choice of an idle CPU for @p, which wakes up; @prev_cpu where none is, and @idle is left alone. The waker's hint that it is about
 * to sleep (WF_SYNC), by which the kernel would have put @p right behind it with other CPUs idle, is not for HuC tasks: a display server gives
 * it to each client whose events it sends, and has others' to send before it sleeps.
 */
static s32 pick_idle(struct task_struct *p, const struct task_ctx *tctx, s32 prev_cpu, u64 wake_flags, bool *idle)
{
	/* There is nothing to choose from, and the kernel would take a while to find that out. */
	if (all_busy())
		return prev_cpu;
	if (is_huc_class(tctx->class))
		wake_flags &= ~(u64)SCX_WAKE_SYNC;
	return scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, idle);
}

/*
 * Virtual time of the first in @cpu's queue of class OTHER; false where there is none, for who waits elsewhere only may be waiting
 * for this CPU to look there. Good for LOOK_AGAIN_NS: one that comes in that time with an earlier one waits no longer for it.
 */
static __always_inline bool first_waiting(s32 cpu, struct cpu_ctx *cctx, u64 now, u64 *vtime)
{
	if (now - cctx->head_at_ns >= LOOK_AGAIN_NS) {
		if (!shared_head(cpu, LL_CLASS_OTHER, &cctx->head_vtime))
			return false;
		cctx->head_at_ns = now;
	}
	*vtime = cctx->head_vtime;
	return true;
}

/* Is nobody at the desk, and does nobody but class OTHER's own queue want @cctx, where a task of that class runs? */
static __always_inline bool is_others_own(struct cpu_ctx *cctx)
{
	u32 class = LL_CLASS_OTHER;

	return !tracking && !(cctx->coop_threads | cctx->reservations) && cctx->class == class && !(waiting[RESCUED] | own_waiting(cctx, class)) &&
	       !more_urgent_waits(cctx, class);
}

/*
 * A task hands over when it wakes up another and sleeps at once, time after time, as the two ends of a pipe do that pass one message to and
 * fro. Waking it on an idle CPU would gain nothing: one of the two sleeps always, and what the interrupt and the end of idleness cost
 * (some 10 us, more on deep idle states) is longer than the waker still runs. The kernel's hint alone (WF_SYNC) says too little: every
 * writer to a pipe or socket gives it. Who was expected to hand over and computes instead makes way after HANDS_OVER_WAIT_NS: nobody else can
 * take who waits behind it.
 */
enum { HANDS_OVER_NS = 20000, HANDS_OVER_TIMES = 8, HANDS_OVER_WAIT_NS = 1000000 };

/* The running task of @cctx stops: has it, if it woke up another and said that it would sleep, done so at once? */
static void note_handover(struct task_ctx *tctx, const struct cpu_ctx *cctx, bool sleeps, u64 now)
{
	if (!cctx->woke_sync_at_ns)
		return;
	if (!sleeps || now - cctx->woke_sync_at_ns > HANDS_OVER_NS)
		tctx->handed_over = 0;
	else if (tctx->handed_over < HANDS_OVER_TIMES)
		tctx->handed_over++;
}

/*
 * Does @p, last on @prev_cpu, run on this CPU next, because the task that runs here and wakes it up hands over? Only while nobody is at the
 * desk and nobody waits, so that there is nobody whom it could overtake. Should it not be allowed here any more, the kernel chooses.
 */
static bool follows_waker(struct task_struct *p, struct task_ctx *tctx, s32 cpu, s32 prev_cpu)
{
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);

	if (cctx->class != LL_CLASS_OTHER || (cctx->coop_threads | cctx->reservations) || !bpf_in_task())
		return false;
	cctx->woke_sync_at_ns = tctx->wakeable_at_ns;
	if (cctx->hands_over < HANDS_OVER_TIMES || tracking || cctx->has_next || tctx->class != LL_CLASS_OTHER || anyone_waits(cctx))
		return false;
	if (cpu != prev_cpu && !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
		return false;
	cctx->has_next = 1;
	return true;
}

/*
 * Would @p, which the running task wakes up, be among the next to run on this CPU? Then it need not go through a queue:
 * it runs after its waker, while what that has sent it is still in the caches, and less of that piles up. Where it may use other CPUs only
 * while enough wait for each of these to have another one: who is behind a running task is not taken from there. Only while nobody
 * is at the desk and no HuC task waits: what is behind the running task cannot be overtaken, except by what preempts. One
 * at a time, and one more for each that preempts; none that is ahead of the first in the queue, or of its class, by more than a slice.
 */
static bool runs_next(struct task_struct *p, struct task_ctx *tctx, s32 cpu, struct cpu_ctx *cctx)
{
	u32 class = LL_CLASS_OTHER;
	u64 limit = class_vtime[class];

	if (tctx->class != class || cctx->has_next || !is_others_own(cctx))
		return false;
	if (nr_cpus > 1 && !is_pinned(p, tctx) && waiting[class] < nr_online)
		return false;
	if (cpu != bpf_get_smp_processor_id() || !bpf_in_task())
		return false;
	if (waiting[class] && !first_waiting(cpu, cctx, tctx->wakeable_at_ns, &limit))
		return false;
	if (ll_vtime_before(limit + other_slice_min_ns, tctx->vtime))
		return false;
	cctx->has_next = 1;
	return true;
}

/* An idle CPU could run something of what is queued: wake it. */
static void kick_idle_cpu(struct task_struct *p, const struct task_ctx *tctx)
{
	s32 cpu;

	if (nr_cpus == 1 || is_pinned(p, tctx) || all_busy())
		return;
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

#endif /* LIMELIGHT_PLACE_H */
