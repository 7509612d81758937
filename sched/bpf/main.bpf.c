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
 * A task that begins to want a CPU passes ll_select_cpu, ll_enqueue or both; there is no ll_runnable. Who sleeps is done with
 * in ll_stopping, and who is taken out of its queue for a change, of its nice value say, comes back through ll_enqueue, or from the CPU, and
 * then through ll_running; there is no ll_quiescent: each callback costs a hundred instructions and more, and these run at every
 * wake-up of the machine.
 *
 * rating.bpf.h   which class a task is in           edges.bpf.h   who wakes whom
 * queue.bpf.h    the queues                         cgroup.bpf.h  cpu.weight
 * place.bpf.h    idle CPU, victim or queue          share.bpf.h   the guaranteed share
 * timer.bpf.h    ends of slices, long waits         publish.bpf.h  new ratings take effect
 * locks.bpf.h    who holds what a HuC task waits for
 * coop.bpf.h     cooperative threads                even.bpf.h    and their groups over several CPUs
 * release.bpf.h  when they are due                group.bpf.h   who of them goes first
 * login.bpf.h    who is not to be locked out      users.bpf.h   what each user may have
 * reserve.bpf.h  reservations: who has one        deadline.bpf.h  and by when it is to be kept
 * budget.bpf.h   their periods and budgets         admit.bpf.h   who is admitted, and where
 * load.bpf.h     how much load they make, and who loses one for that
 * slice.bpf.h    how long who runs may do so      math/         the arithmetic, tested on the host
 */
#include <scx/common.bpf.h>
#include <bpf_experimental.h>
#include "../../abi/include/sched_abi.h"
#include "../../abi/include/coop_abi.h"
#include "math/fair.h"
#include "math/slice.h"
#include "math/heap.h"
#include "math/reserve.h"
#include "math/even.h"
#include "math/bucket.h"

char _license[] SEC("license") = "GPL";
UEI_DEFINE(uei);

enum { LL_MAX_CPUS = 1024 };

/* The slice of who must not run now, but does. */
enum { AT_ONCE_NS = 1000 };

#include "tunables.bpf.h"
#include "task.bpf.h"
#include "rating.bpf.h"
#include "edges.bpf.h"
#include "cgroup.bpf.h"
#include "queue.bpf.h"
#include "share.bpf.h"
#include "users.bpf.h"
#include "release.bpf.h"
#include "page.bpf.h"
#include "group.bpf.h"
#include "even.bpf.h"
#include "coop.bpf.h"
#include "login.bpf.h"
#include "budget.bpf.h"
#include "admit.bpf.h"
#include "reserve.bpf.h"
#include "place.bpf.h"
#include "timer.bpf.h"
#include "deadline.bpf.h"
#include "load.bpf.h"
#include "slice.bpf.h"
#include "publish.bpf.h"
#include "locks.bpf.h"

/* Charge @p for what it has run since it was last charged. */
static __always_inline void charge(struct task_struct *p, struct task_ctx *tctx, struct cpu_ctx *cctx, u64 now)
{
	u64 ran_ns = now - tctx->charged_at_ns;

	/* Another CPU changes it, its nice value or where it may run, and that one's clock is a little behind. */
	if ((s64)ran_ns < 0)
		return;
	tctx->charged_at_ns = now;
	if (tctx->class == LL_CLASS_KTHREAD)
		return spend_first(p, tctx, ran_ns);
	pass_vtime(p, tctx, cctx, ran_ns, now);
	account_share(cctx, cctx->runs_rank ? earns_as(now) : tctx->rescued ? LL_CLASS_OTHER : tctx->class, ran_ns,
		      tctx->rating_flags & (LL_RATING_SELF | LL_RATING_HELPER));
	count_huc(cctx, tctx, ran_ns);
	tctx->reader_ran_ns += tctx->reads_since_ns ? ran_ns : 0;
	if (tctx->reserve.number)
		charge_reserved(p, tctx, cctx, ran_ns, now);
	if (tctx->login.left_ns)
		spend_login(tctx, ran_ns);
	if (tctx->lock_class < LL_NR_CLASSES) {
		spend_lock_budget(tctx, ran_ns);
	} else if (is_huc_class(tctx->class)) {
		record_stint(p, tctx, ran_ns);
		spend_budget(tctx, ran_ns);
	} else if (is_kthread(p)) {
		spend_even(p, tctx, ran_ns);
	}
}

/* @p begins to want a CPU, or wants it still: @woken by somebody, or else new, preempted, or moved. */
static __always_inline void becomes_runnable(struct task_struct *p, struct task_ctx *tctx, bool woken)
{
	if (woken && is_kthread(p))
		renew_first(p, tctx);
	if (woken && tctx->login.is_one)
		refill_login(tctx);
	if (tctx->login.left_ns)
		note_login();
	refresh_rating(p, tctx);
	/* Whose place it catches up with depends on where it stays. */
	if (tctx->coop.cell)
		home_of(p, tctx);
	if (woken) {
		if (tctx->blocked_on)
			leave_lock(p, tctx);
		note_wakeup(p, tctx);
		tctx->reads_since_ns = 0;
		tctx->wakeable_at_ns = scx_bpf_now();
		if (coop_in_play)
			note_interrupt(tctx->wakeable_at_ns);
	}
	catch_up_vtime(p, tctx, woken);
	count_runnable(p, tctx);
	if (tctx->reserve.number)
		wants_cpu(tctx);
}

s32 BPF_STRUCT_OPS(ll_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct task_ctx *tctx = task_ctx_of(p);
	bool idle = false;
	s32 cpu = bpf_get_smp_processor_id(), victim;

	if (!tctx)
		return scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &idle);
	becomes_runnable(p, tctx, !(wake_flags & SCX_WAKE_FORK));
	if (tctx->coop.cell)
		return select_home(p, tctx);
	if (tctx->reserve.number && select_reserved(p, tctx, &cpu))
		return cpu;
	if ((wake_flags & SCX_WAKE_SYNC) && follows_waker(p, tctx, cpu, prev_cpu)) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, other_slice_max_ns, 0);
		end_slice_in(cpu, cpu_ctx_of(cpu), HANDS_OVER_WAIT_NS, tctx->wakeable_at_ns);
		count(LL_STAT_wakeups_direct);
		return cpu;
	}
	cpu = pick_idle(p, tctx, prev_cpu, wake_flags, &idle);
	if (idle) {
		run_next(p, tctx, 0, LL_STAT_wakeups_direct);
		return cpu;
	}
	victim = pick_victim(p, tctx, prev_cpu);
	if (victim < 0)
		return cpu;
	run_next(p, tctx, SCX_ENQ_PREEMPT, LL_STAT_wakeups_preempting);
	return victim;
}

/* @p, which @wakes up or has run before, waits in a queue, and nobody makes way at once. */
static void call_cpu(struct task_struct *p, struct task_ctx *tctx, s32 cpu, struct cpu_ctx *cctx, bool wakes)
{
	if (wakes && is_huc_class(tctx->class))
		share_slice(p, tctx, cpu, cctx);
	kick_idle_cpu(p, tctx);
}

/* @p waits in a queue of @cpu's: for its class, and for what else it has. @victim makes way for it; -1: nobody does. */
static void enqueue_waiting(struct task_struct *p, struct task_ctx *tctx, s32 cpu, s32 victim, u64 enq_flags)
{
	if (tctx->coop.cell)
		enqueue_coop(p, tctx, enq_flags);
	else
		enqueue_in_class(p, tctx, cpu, enq_flags);
	if (tctx->reserve.number)
		enqueue_reserved(p, tctx);
	if (tctx->coop.cell)
		return;
	if (victim >= 0)
		scx_bpf_kick_cpu(victim, SCX_KICK_PREEMPT);
	else
		call_cpu(p, tctx, cpu, cpu_ctx_of(cpu), enq_flags & SCX_ENQ_WAKEUP);
}

/* Before everybody but whoever it has made way for; at its slice's end behind others of its kind, or a third starved, but for class OTHER there. */
static void enqueue_kthread(struct task_struct *p, struct cpu_ctx *cctx, u64 enq_flags)
{
	bool gives_way = !(enq_flags & SCX_ENQ_WAKEUP) && (cctx->kthread_gives_way || (!cctx->has_next && p == bpf_get_current_task_btf()));

	cctx->kthread_gives_way = 0;
	if (cctx->class > LL_CLASS_KTHREAD && !gives_way)
		enq_flags |= SCX_ENQ_PREEMPT;
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, other_slice_max_ns, enq_flags);
}

void BPF_STRUCT_OPS(ll_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *tctx = task_ctx_of(p);
	s32 cpu = scx_bpf_task_cpu(p), victim = -1;
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	bool wakes = enq_flags & SCX_ENQ_WAKEUP;
	enum reserved_place place = BY_CLASS;

	if (!tctx) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_min_ns, enq_flags);
		return;
	}
	/* It may come from a queue, out of which it was taken to be changed. */
	unmark_waiting(tctx);
	becomes_runnable(p, tctx, wakes && !(enq_flags & SCX_ENQ_CPU_SELECTED));
	if (tctx->class == LL_CLASS_KTHREAD)
		return enqueue_kthread(p, cctx, enq_flags);
	if (tctx->reserve.number)
		place = place_reserved(p, tctx, cpu, enq_flags);
	if (place == RUNS_NEXT)
		return;
	if (place == BY_DEADLINE || is_away(p, tctx))
		goto queue;
	if (is_idle(cctx, cpu) || (wakes && runs_next(p, tctx, cpu, cctx))) {
		run_next(p, tctx, enq_flags, LL_STAT_wakeups_direct);
		return;
	}
	victim = pick_victim(p, tctx, cpu);
	if (victim == cpu) {
		run_next(p, tctx, enq_flags | SCX_ENQ_PREEMPT, LL_STAT_wakeups_preempting);
		return;
	}
queue:
	enqueue_waiting(p, tctx, cpu, victim, enq_flags);
}

/* @p, of @tctx, has run until now, and could go on. */
static void settle_stint(struct task_struct *p, struct task_ctx *tctx, struct cpu_ctx *cctx, u64 now)
{
	charge(p, tctx, cctx, now);
	police_slice(tctx, cctx);
	refresh_rating(p, tctx);
	/* Or one that goes on and on would be ever further behind. */
	if (is_pinned(p, tctx))
		catch_up_vtime(p, tctx, false);
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

/* Try the HuC classes above @below, most urgent first. */
static bool take_huc(s32 cpu, struct cpu_ctx *cctx, u32 below, u64 now)
{
	u32 class;

	/* Most often; the loop alone costs ten times as much. */
	if (!more_urgent_waits(cctx, below))
		return false;
	bpf_for(class, LL_CLASS_HUCIN, LL_CLASS_OTHER) {
		if (class >= below || !(waiting[class_index(class)] | pinned_waiting(cctx, class)) || !take_next(cpu, cctx, class))
			continue;
		count(class == LL_CLASS_HUCIN ? LL_STAT_dispatched_hucin : LL_STAT_dispatched_hucout);
		return true;
	}
	/* For another CPU, all of them: looking again at once would only burn time. */
	cctx->no_huc_until_ns = now + LOOK_AGAIN_NS;
	return false;
}

/* @prev, of @tctx, a kernel thread whose slice on @cpu is over, makes way for a HuC task, if it works for others and one waits. */
static bool give_way_to_huc(const struct task_struct *prev, struct task_ctx *tctx, s32 cpu, struct cpu_ctx *cctx, u64 now)
{
	if (!works_for_others(prev) || !makes_way_for_huc(cctx, tctx, now) || left_before_huc(cctx, tctx, now) > AT_ONCE_NS)
		return false;
	if (!take_huc(cpu, cctx, LL_CLASS_OTHER, now))
		return false;
	let_huc_pass(cctx, tctx, now);
	return true;
}

/*
 * Have the thread run, or go on, whose release is due, if there is one; @tctx is of @prev, where that could go on. A kernel thread that works for
 * others makes way: slice_of_kthread() ends its slice for that.
 */
static bool dispatch_release(struct task_struct *prev, struct task_ctx *tctx, s32 cpu, struct cpu_ctx *cctx, u64 now)
{
	u32 above = tctx ? tctx->class : LL_NR_CLASSES;
	bool is_anyone_due = part_releases(cpu);

	if (tctx && goes_on_for_release(tctx, cpu, cctx)) {
		go_on(prev, tctx, cpu, cctx, now);
		return true;
	}
	if (above != LL_CLASS_KTHREAD)
		return is_anyone_due && take_due(cpu, cctx, above, 0);
	return works_for_others(prev) && give_way(cpu, cctx, 0);
}

/* Have the task run, or go on, that is entitled to @cpu and is the first by rank, if there is one; @tctx is of @prev, where that could go on. */
static bool dispatch_deadline(struct task_struct *prev, struct task_ctx *tctx, s32 cpu, struct cpu_ctx *cctx, u64 now)
{
	enum first_deadline found = find_first_deadline(prev, tctx, cpu, cctx, now);

	if (found == DEADLINE_GOES_ON && tctx)
		go_on(prev, tctx, cpu, cctx, now);
	return found != NO_DEADLINE;
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

	if (cctx->raise_pid)
		raise_holder(cctx);
	look_at_coop_clock(cctx);
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED))
		tctx = task_ctx_of(prev);
	if (tctx) {
		settle_stint(prev, tctx, cctx, now);
		prev_class = tctx->class;
	}
	if (cctx->reservations && dispatch_deadline(prev, tctx, cpu, cctx, now))
		return;
	if (cctx->coop_threads && dispatch_release(prev, tctx, cpu, cctx, now))
		return;
	if (share_is_due(cctx) && huc_wants(cctx, prev_class) && take_other(cpu, cctx)) {
		count(LL_STAT_share_grants);
		return;
	}
	if (take_huc(cpu, cctx, prev_class, now) || (tctx && prev_class == LL_CLASS_KTHREAD && give_way_to_huc(prev, tctx, cpu, cctx, now)))
		return;
	if (tctx && is_huc_class(prev_class) && !keeps_running(tctx, cpu, cctx) && take_huc(cpu, cctx, prev_class + 1, now))
		return;
	if ((!tctx || prev_class == LL_CLASS_OTHER) && !(tctx && keeps_running(tctx, cpu, cctx)) && take_other(cpu, cctx)) {
		count(LL_STAT_dispatched_other);
		return;
	}
	if (!tctx || (tctx->coop.group && take_more_important(cpu, prev, tctx)))
		return;
	go_on(prev, tctx, cpu, cctx, now);
}

/* How long @tctx has waited since it was woken; at least 1, and the waker's clock may have been a little ahead of ours. */
static u64 waited_ns(const struct task_ctx *tctx, u64 now)
{
	return now > tctx->wakeable_at_ns ? now - tctx->wakeable_at_ns : 1;
}

void BPF_STRUCT_OPS(ll_running, struct task_struct *p)
{
	struct task_ctx *tctx = task_ctx_of(p);
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	u64 now = scx_bpf_now();

	if (!tctx)
		return;
	tctx->rescued = waiting_class(tctx) == RESCUED;
	unmark_waiting(tctx);
	refresh_rating(p, tctx);
	/* Who was changed while it ran has been through ll_stopping, and comes here without ll_enqueue. */
	count_runnable(p, tctx);
	if (tctx->pinned_clock == pinned_clock(cpu, tctx->class))
		be_forgiven(tctx, cpu, cctx, tctx->class);
	if (tctx->coop.cell) {
		enter_play(tctx);
		withdraw_coop(tctx);
	}
	if (tctx->reserve.number) {
		withdraw_reserved(tctx);
		wants_cpu(tctx);
	}
	look_at_coop_clock(cctx);
	tctx->charged_at_ns = now;
	cctx->has_next = 0;
	cctx->hands_over = tctx->handed_over;
	cctx->woke_sync_at_ns = 0;
	/* Recorded when it stops: here it would make it wait. */
	tctx->waited_ns = tctx->wakeable_at_ns && is_huc_class(tctx->class) ? waited_ns(tctx, now) : 0;
	tctx->wakeable_at_ns = 0;
	occupy(p, tctx, cpu, cctx, now);
}

void BPF_STRUCT_OPS(ll_stopping, struct task_struct *p, bool runnable)
{
	struct task_ctx *tctx = task_ctx_of(p);
	struct cpu_ctx *cctx = cpu_ctx_of(scx_bpf_task_cpu(p));	/* not always this one: another may change its nice value */
	u64 now = scx_bpf_now();

	cctx->class = LL_NR_CLASSES;
	cctx->runs_hub = 0;
	if (!tctx)
		return;
	charge(p, tctx, cctx, now);
	police_slice(tctx, cctx);
	cctx->coop_until_ns = 0;
	cctx->runs_rank = 0;
	note_handover(tctx, cctx, !runnable, now);
	if (runnable)
		return;
	/* Not where it is only taken off its queue to be changed, its affinity say. */
	if (tctx->coop.cell && p->__state)
		sleep_coop(p, tctx);
	if (tctx->blocked_on && has_class_to_lend(tctx))
		lend_to_holder(p, tctx);
	/* The timer that rescues may have marked it while it was being taken. */
	unmark_waiting(tctx);
	uncount_runnable(tctx);
	if (tctx->reserve.number) {
		withdraw_reserved(tctx);
		wants_no_more(tctx, p->__state & TASK_INTERRUPTIBLE);
	}
}

/*
 * Does @p, which yields, go on before a kernel thread that has just made way for it (rule 5 in coop.bpf.h)? It had been preempted, and yields so that
 * its timer can run; no dispatch would decide, because the kernel thread waits in the CPU's own queue. For coop_slack_ns and no longer, or one that
 * is always due would keep that waiting.
 */
static bool goes_on_before_kthread(struct task_struct *p, struct task_ctx *tctx)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	u64 now;

	if (!tctx->coop.cell || cctx->reservations || !scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu))
		return false;
	look_at_coop_clock(cctx);
	part_releases(cpu);
	if (cctx->coop_now_ns - cctx->gave_way_at_ns >= coop_slack_ns || !goes_on_for_release(tctx, cpu, cctx))
		return false;
	now = scx_bpf_now();
	settle_stint(p, tctx, cctx, now);
	go_on(p, tctx, cpu, cctx, now);
	return true;
}

/* @p gives up the CPU, and if it is cooperative, says until when. Without this the kernel would end its slice, no more. */
bool BPF_STRUCT_OPS(ll_yield, struct task_struct *p, struct task_struct *to)
{
	struct task_ctx *tctx = task_ctx_of(p);

	/* yield_to(), as hypervisors call it: to whom is for the queues to say. */
	if (to)
		return false;
	if (tctx)
		yield_coop(p, tctx);
	if (!tctx || !goes_on_before_kthread(p, tctx))
		scx_bpf_task_set_slice(p, 0);
	return false;
}

/* @p leaves us: it ends, or gets a class above ours. */
void BPF_STRUCT_OPS(ll_disable, struct task_struct *p)
{
	struct task_ctx *tctx = task_ctx_of(p);

	if (!tctx)
		return;
	unmark_waiting(tctx);
	uncount_runnable(tctx);
	leave_reservation(tctx);
	if (is_exiting(p))
		exit_coop(p, tctx);
	else
		leave_coop(tctx);
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
	tctx->lock_class = LL_NR_CLASSES;
	tctx->vtime = class_vtime[LL_CLASS_OTHER];
	tctx->weight_pm = 1000;
	tctx->counted_class = LL_NR_CLASSES;
	tctx->waits = WAITS_NOT;
	tctx->pinned_clock = NO_PINNED_CLOCK;
	tctx->coop.queue = NR_RELEASE_QUEUES;
	tctx->cgroup_slot = slot_of(args->cgroup);
	if (args->fork) {
		inherit_rating(p, tctx);
		fork_reservation(p, tctx);
	}
	return 0;
}

void BPF_STRUCT_OPS(ll_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct task_ctx *tctx = task_ctx_of(p);

	if (tctx) {
		return_budget(p, tctx);
		end_login(p, tctx);
		end_reserving(tctx);
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
	u32 cpu, i;

	share_now_pm = share_pm;
	bpf_for(cpu, 0, nr_cpus) {
		cpu_ctx_of(cpu)->class = LL_NR_CLASSES;
		bpf_for(i, 0, NR_TIMED_QUEUES)
			set_first(cpu, i, COOP_ABI_NEVER);
	}
	return create_queues() ?: start_timers() ?: start_load_timer();
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
	       .yield			= (void *)ll_yield,
	       .disable			= (void *)ll_disable,
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
