/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where a task that wakes up runs: an idle CPU that shares a cache, else a CPU that runs something less urgent, else its
 * queue. The idle CPU is the kernel's choice (scx_bpf_select_cpu_dfl knows SMT, caches and nodes); the victim is ours.
 */
#ifndef LIMELIGHT_PLACE_H
#define LIMELIGHT_PLACE_H

/*
 * Does what runs on @cctx have to make way for a task of @class with @vtime? Within a class, only for one that is far
 * behind: the running task's vtime here is that of when it started, so the answer errs towards letting it run.
 */
static bool yields_to(const struct cpu_ctx *cctx, u32 class, u64 vtime)
{
	u32 running = cctx->class;

	if (running >= LL_NR_CLASSES || cctx->claim)
		return false;
	if (running != class)
		return running > class;
	return is_huc_class(class) && ll_vtime_before(vtime + preempt_lag_ns, cctx->vtime);
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

	if (tctx->class == LL_CLASS_OTHER)
		return -1;
	if (try_victim(p, tctx, prev_cpu))
		return prev_cpu;
	if (nr_cpus == 1 || is_pinned(p))
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
