/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where a task that wakes up runs: an idle CPU that shares a cache, else a CPU that runs something less urgent, else its
 * queue. The idle CPU is the kernel's choice (scx_bpf_select_cpu_dfl knows SMT, caches and nodes); the victim is ours.
 */
#ifndef LIMELIGHT_PLACE_H
#define LIMELIGHT_PLACE_H

/* Keep for other CPUs what they need to tell the virtual time of @p while it runs on @cctx. */
static void note_virtual_time(const struct task_struct *p, const struct task_ctx *tctx, struct cpu_ctx *cctx, u64 now)
{
	cctx->vtime = tctx->vtime;
	cctx->running_since_ns = now;
	cctx->vtime_rate_pm = ll_vtime_rate_pm(p->scx.weight, tctx->weight_pm);
}

/* Virtual time of what runs on @cctx, estimated at @now. Cgroups are left out. */
static u64 running_vtime(const struct cpu_ctx *cctx, u64 now)
{
	s64 ran_ns = now - cctx->running_since_ns;

	/* It may have only just started there, by a clock a little ahead of ours. */
	return cctx->vtime + (ran_ns > 0 ? ran_ns : 0) * cctx->vtime_rate_pm / 1000;
}

/*
 * Does what runs on @cctx have to make way for a task of @class with @vtime? Within a class, only for one that is far
 * behind; the estimate's error makes a task wait for the end of a slice at worst.
 */
static bool yields_to(const struct cpu_ctx *cctx, u32 class, u64 vtime)
{
	u32 running = cctx->class;

	if (running >= LL_NR_CLASSES || cctx->claim)
		return false;
	if (running != class)
		return running > class;
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

	return yields_to(cctx, tctx->class, tctx->vtime) && bpf_cpumask_test_cpu(cpu, p->cpus_ptr) &&
	       claim_cpu(cctx, tctx->class);
}

/*
 * A CPU whose running task makes way for @p, or -1. Where @p ran before comes first (its cache), then this CPU (its
 * waker's data), then one that runs class OTHER, then any.
 */
static s32 pick_victim(struct task_struct *p, struct task_ctx *tctx, s32 prev_cpu)
{
	s32 this_cpu = bpf_get_smp_processor_id(), fallback = -1;
	u32 cpu;

	if (try_victim(p, tctx, prev_cpu))
		return prev_cpu;
	if (nr_cpus == 1 || is_pinned(p) || tctx->class == LL_CLASS_OTHER)
		return -1;
	if (this_cpu != prev_cpu && try_victim(p, tctx, this_cpu))
		return this_cpu;
	bpf_for(cpu, 0, nr_cpus) {
		if (!yields_to(cpu_ctx_of(cpu), tctx->class, tctx->vtime) || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		if (cpu_ctx_of(cpu)->class == LL_CLASS_OTHER && try_victim(p, tctx, cpu))
			return cpu;
		fallback = cpu;
	}
	return fallback >= 0 && try_victim(p, tctx, fallback) ? fallback : -1;
}

/* Is @cpu idle? Then it is ours from now on. */
static bool is_idle(const struct cpu_ctx *cctx, s32 cpu)
{
	return cctx->class >= LL_NR_CLASSES && scx_bpf_test_and_clear_cpu_idle(cpu);
}

/*
 * Would @p, which wakes up, be the next to run on the only CPU it may use? Then it need not go through a queue. Only while nobody is
 * at the desk: what is behind the running task cannot be overtaken, except by what preempts. No more than one at a time,
 * and none that is ahead of its class by more than a slice.
 */
static bool runs_next(struct task_struct *p, struct task_ctx *tctx, struct cpu_ctx *cctx)
{
	u32 class = LL_CLASS_OTHER;

	if (tracking || tctx->class != class || cctx->has_next || (nr_cpus > 1 && !is_pinned(p)))
		return false;
	if ((waiting[class] | waiting[RESCUED] | pinned_waiting(cctx, class)) ||
	    ll_vtime_before(class_vtime[class] + other_slice_min_ns, tctx->vtime))
		return false;
	cctx->has_next = 1;
	return true;
}

/* An idle CPU could run something of what is queued: wake it. */
static void kick_idle_cpu(struct task_struct *p)
{
	s32 cpu;

	if (nr_cpus == 1 || is_pinned(p))
		return;
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

#endif /* LIMELIGHT_PLACE_H */
