// SPDX-License-Identifier: GPL-2.0-only
/*
 * limelight's scheduler.
 *
 * The problem: how much CPU a program uses does not tell whether the person needs it. The idea (HuC, Etsion, Tsafrir,
 * Feitelson 2004): the daemon finds out which processes serve the person, directly or through others, and rates them;
 * this scheduler runs them first.
 *
 * What it promises: a runnable task of class HUCIN does not wait behind one of HUCOUT, nor either behind OTHER, beyond one
 * minimum slice, on any CPU that it may use, while its class is inside its share; inside a class CPU time follows the
 * weights, nice and cpu.weight; class OTHER keeps its guaranteed share, and nobody waits longer than about a second.
 *
 * What it is bad at: machines with very many CPUs that all draw on one queue per cache (the queue's lock), and
 * telling apart the threads of one process: a rating is the whole process's.
 *
 * A task that begins to want a CPU passes ll_select_cpu, ll_enqueue or both; there is no ll_runnable, and who sleeps is done
 * with in ll_stopping: each callback costs a look-up, and these run at every wake-up of the machine.
 *
 * rating.bpf.h   which class a task is in           edges.bpf.h   who wakes whom
 * queue.bpf.h    the queues                         cgroup.bpf.h  cpu.weight
 * place.bpf.h    idle CPU, victim or queue          share.bpf.h   the guaranteed share
 * timer.bpf.h    ends of slices, long waits         publish.bpf.h  new ratings take effect
 * math/          the arithmetic, tested on the host
 */
#include <scx/common.bpf.h>
#include <bpf_experimental.h>
#include "../../abi/include/sched_abi.h"
#include "math/fair.h"
#include "math/slice.h"

char _license[] SEC("license") = "GPL";
UEI_DEFINE(uei);

enum { LL_MAX_CPUS = 1024 };

#include "tunables.bpf.h"
#include "task.bpf.h"
#include "rating.bpf.h"
#include "edges.bpf.h"
#include "cgroup.bpf.h"
#include "queue.bpf.h"
#include "share.bpf.h"
#include "place.bpf.h"
#include "timer.bpf.h"
#include "publish.bpf.h"

/* Charge @p for what it has run since it was last charged. */
static void charge(struct task_struct *p, struct task_ctx *tctx, struct cpu_ctx *cctx, u64 now)
{
	u64 ran_ns = now - tctx->charged_at_ns, scale;

	tctx->charged_at_ns = now;
	if (tctx->class == LL_CLASS_KTHREAD)
		return;
	scale = cgroup_scale(tctx->cgroup_slot, tctx->class, now);
	tctx->vtime += ll_vtime_charge(ran_ns, p->scx.weight, scale * tctx->weight_pm / 1000);
	account_share(cctx, tctx->rescued ? LL_CLASS_OTHER : tctx->class, ran_ns);
	if (is_huc_class(tctx->class)) {
		record_run(p, ran_ns);
		spend_budget(tctx, ran_ns);
	}
}

/* @p begins to want a CPU, or wants it still: @woken by somebody, or else new, preempted, or moved. */
static void becomes_runnable(struct task_struct *p, struct task_ctx *tctx, bool woken)
{
	refresh_rating(p, tctx);
	if (woken) {
		note_wakeup(p, tctx);
		tctx->wakeable_at_ns = scx_bpf_now();
	}
	catch_up_vtime(tctx);
	count_runnable(p, tctx);
}

s32 BPF_STRUCT_OPS(ll_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct task_ctx *tctx = task_ctx_of(p);
	bool idle = false;
	s32 cpu, victim;

	cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &idle);
	if (!tctx)
		return cpu;
	becomes_runnable(p, tctx, !(wake_flags & SCX_WAKE_FORK));
	if (idle) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_of(tctx), 0);
		count(LL_STAT_wakeups_direct);
		return cpu;
	}
	victim = pick_victim(p, tctx, prev_cpu);
	if (victim < 0)
		return cpu;
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_of(tctx), SCX_ENQ_PREEMPT);
	count(LL_STAT_wakeups_preempting);
	return victim;
}

void BPF_STRUCT_OPS(ll_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *tctx = task_ctx_of(p);
	s32 cpu = scx_bpf_task_cpu(p), victim;
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	bool wakes = enq_flags & SCX_ENQ_WAKEUP;

	if (!tctx) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_min_ns, enq_flags);
		return;
	}
	becomes_runnable(p, tctx, wakes && !(enq_flags & SCX_ENQ_CPU_SELECTED));
	if (tctx->class == LL_CLASS_KTHREAD) {
		if (cctx->class > LL_CLASS_KTHREAD)
			enq_flags |= SCX_ENQ_PREEMPT;
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, other_slice_max_ns, enq_flags);
		return;
	}
	if (is_idle(cctx, cpu) || (wakes && runs_next(p, tctx, cctx))) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_of(tctx), enq_flags);
		count(LL_STAT_wakeups_direct);
		return;
	}
	victim = pick_victim(p, tctx, cpu);
	if (victim == cpu) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_of(tctx), enq_flags | SCX_ENQ_PREEMPT);
		count(LL_STAT_wakeups_preempting);
		return;
	}
	enqueue_in_class(p, tctx, cpu, enq_flags);
	if (victim >= 0) {
		scx_bpf_kick_cpu(victim, SCX_KICK_PREEMPT);
		return;
	}
	if (wakes)
		share_slice(tctx, cpu, cctx);
	kick_idle_cpu(p);
}

/* Should the task of @tctx, whose slice is over, go on rather than the next of its class? */
static bool keeps_running(struct task_ctx *tctx, s32 cpu, struct cpu_ctx *cctx)
{
	u32 class = tctx->class;
	u64 head;

	if (class == LL_CLASS_OTHER && (waiting[RESCUED] | pinned_waiting(cctx, RESCUED)))
		return false;
	if (pinned_waiting(cctx, class) && head_vtime(pinned_queue(cpu, class), &head) && !ll_vtime_before(tctx->vtime, head))
		return false;
	return !head_vtime(shared_queue(llc_of(cpu), class), &head) || ll_vtime_before(tctx->vtime, head);
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
	return take_rescued(cpu) || take_from_class(cpu, cctx, LL_CLASS_OTHER);
}

/* Try the HuC classes above @below, most urgent first. */
static bool take_huc(s32 cpu, struct cpu_ctx *cctx, u32 below, u64 now)
{
	u32 class;

	bpf_for(class, LL_CLASS_HUCIN, LL_CLASS_OTHER) {
		if (class >= below || !(waiting[class_index(class)] | pinned_waiting(cctx, class)))
			continue;
		if (take_from_class(cpu, cctx, class)) {
			count(class == LL_CLASS_HUCIN ? LL_STAT_dispatched_hucin : LL_STAT_dispatched_hucout);
			return true;
		}
		/* It waits for another CPU: looking again before the next millisecond would only burn time. */
		cctx->no_huc_until_ns = now + 1000000;
	}
	return false;
}

/* The slices of class OTHER tasks: shorter, the more of them wait. Good for a millisecond. */
static void size_slices(struct cpu_ctx *cctx, u64 now)
{
	u64 queued;

	if (now - cctx->slice_at_ns < 1000000)
		return;
	queued = (waiting[LL_CLASS_OTHER] + waiting[RESCUED]) / nr_online + pinned_waiting(cctx, LL_CLASS_OTHER) +
		 pinned_waiting(cctx, RESCUED);
	cctx->slice_at_ns = now;
	cctx->other_slice_ns = ll_fair_slice(other_period_ns, queued, other_slice_min_ns, other_slice_max_ns, other_round_ns);
	cctx->share_slice_ns = ll_share_slice(share_round_ns, share_pm, queued, share_slice_min_ns, slice_min_ns);
}

/* @cpu runs @p from now on, or goes on with it: what wakers on other CPUs see, and when the slice ends. */
static void occupy(struct task_struct *p, struct task_ctx *tctx, s32 cpu, struct cpu_ctx *cctx, u64 now)
{
	u64 slice;

	cctx->claim = 0;
	cctx->class = tctx->class;
	cctx->runs_hub = tctx->rating_flags & LL_RATING_HUB;
	note_virtual_time(p, tctx, cctx, now);
	if (tctx->class != LL_CLASS_OTHER && !tctx->rescued) {
		arm_slice_end(cpu, cctx, slice_of(tctx), now);
		return;
	}
	size_slices(cctx, now);
	slice = cctx->other_slice_ns;
	if (tracking && more_urgent_waits(cctx, LL_CLASS_OTHER) && now >= cctx->no_huc_until_ns)
		slice = share_is_due(cctx) ? cctx->share_slice_ns : 1000;
	arm_slice_end(cpu, cctx, slice, now);
}

/* Does a HuC task want @cctx, one that waits or the one that has just run there? */
static bool huc_wants(struct cpu_ctx *cctx, u32 prev_class)
{
	return is_huc_class(prev_class) || more_urgent_waits(cctx, LL_CLASS_OTHER);
}

void BPF_STRUCT_OPS(ll_dispatch, s32 cpu, struct task_struct *prev)
{
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	struct task_ctx *tctx = NULL;
	u32 prev_class = LL_NR_CLASSES;
	u64 now = scx_bpf_now();

	if (prev && (prev->scx.flags & SCX_TASK_QUEUED)) {
		tctx = task_ctx_of(prev);
		if (tctx) {
			charge(prev, tctx, cctx, now);
			refresh_rating(prev, tctx);
			prev_class = tctx->class;
		}
	}
	if (tracking && huc_wants(cctx, prev_class) && share_is_due(cctx) && take_other(cpu, cctx)) {
		count(LL_STAT_share_grants);
		return;
	}
	if (take_huc(cpu, cctx, prev_class, now))
		return;
	if (tctx && is_huc_class(prev_class) && !keeps_running(tctx, cpu, cctx) && take_huc(cpu, cctx, prev_class + 1, now))
		return;
	if ((!tctx || prev_class == LL_CLASS_OTHER) && !(tctx && keeps_running(tctx, cpu, cctx)) && take_other(cpu, cctx)) {
		count(LL_STAT_dispatched_other);
		return;
	}
	if (!tctx)
		return;
	scx_bpf_task_set_slice(prev, slice_of(tctx));
	occupy(prev, tctx, cpu, cctx, now);
}

void BPF_STRUCT_OPS(ll_running, struct task_struct *p)
{
	struct task_ctx *tctx = task_ctx_of(p);
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	u64 now = scx_bpf_now();

	if (!tctx)
		return;
	/* Who was rescued may be far ahead of its class: whoever wakes next must not be put there, too. */
	tctx->rescued = tctx->waiting_class == RESCUED;
	unmark_waiting(tctx);
	tctx->charged_at_ns = now;
	cctx->has_next = 0;
	if (!tctx->rescued && tctx->class < LL_NR_CLASSES && ll_vtime_before(class_vtime[tctx->class], tctx->vtime))
		class_vtime[tctx->class] = tctx->vtime;
	if (tctx->wakeable_at_ns && is_huc_class(tctx->class))
		record_wait(p, now - tctx->wakeable_at_ns);
	tctx->wakeable_at_ns = 0;
	occupy(p, tctx, cpu, cctx, now);
}

void BPF_STRUCT_OPS(ll_stopping, struct task_struct *p, bool runnable)
{
	struct task_ctx *tctx = task_ctx_of(p);
	struct cpu_ctx *cctx = this_cpu_ctx();

	cctx->class = LL_NR_CLASSES;
	cctx->runs_hub = 0;
	if (!tctx)
		return;
	charge(p, tctx, cctx, scx_bpf_now());
	if (runnable)
		return;
	/* The timer that rescues may have marked it while it was being taken. */
	unmark_waiting(tctx);
	uncount_runnable(tctx);
}

/* @p leaves its queue, or sleeps; who sleeps has been stopped just before, which says it all. */
void BPF_STRUCT_OPS(ll_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct task_ctx *tctx;

	if (deq_flags & SCX_DEQ_SLEEP)
		return;
	tctx = task_ctx_of(p);
	if (!tctx)
		return;
	unmark_waiting(tctx);
	uncount_runnable(tctx);
}

/* A task of a class above ours (FIFO, RR, DEADLINE) took @cpu: what waits in its local queue may run elsewhere. */
void BPF_STRUCT_OPS(ll_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);

	cctx->class = LL_NR_CLASSES;
	cctx->claim = 0;
	scx_bpf_reenqueue_local();
}

s32 BPF_STRUCT_OPS(ll_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_ctx *tctx = bpf_task_storage_get(&task_ctxs, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!tctx)
		return -ENOMEM;
	tctx->class = LL_CLASS_OTHER;
	tctx->vtime = class_vtime[LL_CLASS_OTHER];
	tctx->weight_pm = 1000;
	tctx->counted_class = LL_NR_CLASSES;
	tctx->waiting_class = LL_NR_CLASSES;
	tctx->waiting_cpu = LL_MAX_CPUS;
	tctx->cgroup_slot = slot_of(args->cgroup);
	if (args->fork)
		inherit_rating(p, tctx);
	return 0;
}

void BPF_STRUCT_OPS(ll_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct task_ctx *tctx = task_ctx_of(p);

	if (tctx) {
		unmark_waiting(tctx);
		uncount_runnable(tctx);
		return_budget(p, tctx);
	}
	/* Its first thread may end before the others. Of a fork that failed there was only one. */
	if (args->cancelled ? p->pid == p->tgid : !p->signal->live.counter)
		forget_process(p->tgid);
}

s32 BPF_STRUCT_OPS(ll_cgroup_init, struct cgroup *cgrp, struct scx_cgroup_init_args *args)
{
	return add_cgroup(cgrp, args->weight);
}

void BPF_STRUCT_OPS(ll_cgroup_exit, struct cgroup *cgrp)
{
	remove_cgroup(cgrp);
}

void BPF_STRUCT_OPS(ll_cgroup_move, struct task_struct *p, struct cgroup *from, struct cgroup *to)
{
	struct task_ctx *tctx = task_ctx_of(p);

	if (tctx)
		move_between_cgroups(p, tctx, to);
}

void BPF_STRUCT_OPS(ll_cgroup_set_weight, struct cgroup *cgrp, u32 weight)
{
	set_cgroup_weight(cgrp, weight);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(ll_init)
{
	u32 cpu;

	share_now_pm = share_pm;
	bpf_for(cpu, 0, nr_cpus)
		cpu_ctx_of(cpu)->class = LL_NR_CLASSES;
	return create_queues() ?: start_timers();
}

void BPF_STRUCT_OPS(ll_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

SCX_OPS_DEFINE(limelight_ops,
	       .select_cpu		= (void *)ll_select_cpu,
	       .enqueue			= (void *)ll_enqueue,
	       .dispatch		= (void *)ll_dispatch,
	       .running			= (void *)ll_running,
	       .stopping		= (void *)ll_stopping,
	       .quiescent		= (void *)ll_quiescent,
	       .cpu_release		= (void *)ll_cpu_release,
	       .init_task		= (void *)ll_init_task,
	       .exit_task		= (void *)ll_exit_task,
	       .cgroup_init		= (void *)ll_cgroup_init,
	       .cgroup_exit		= (void *)ll_cgroup_exit,
	       .cgroup_move		= (void *)ll_cgroup_move,
	       .cgroup_set_weight	= (void *)ll_cgroup_set_weight,
	       .init			= (void *)ll_init,
	       .exit			= (void *)ll_exit,
	       /* Or the kernel would run tasks that end before all others. The loader adds the same for tasks that may not migrate. */
	       .flags			= SCX_OPS_ENQ_EXITING,
	       .timeout_ms		= 10000,
	       .name			= "limelight");
