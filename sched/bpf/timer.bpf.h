/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Timers: one per CPU that ends slices shorter than the kernel's tick, and one for the machine that looks for tasks that
 * have waited too long.
 */
#ifndef LIMELIGHT_TIMER_H
#define LIMELIGHT_TIMER_H

/* A timer that fires this much before the end of a slice ends it: coming back would cost more. */
enum { TIMER_EARLY_NS = 20000 };

/* From the timer that ends a slice of class OTHER until the next one runs, at most and mostly. */
enum { SWITCH_NS = 10000 };

enum { NS_PER_S = 1000000000, HZ_MIN = 100 };

/* Of the kernel's preempt_count, how often what was interrupted has switched preemption off. */
enum { PREEMPT_OFF = 0xff };

/*
 * Nobody else runs on this CPU while those who have waited too long are looked for and moved, whatever they are promised: 0.12 ms of 500 million
 * instructions a second for so many. 64 at once took 1 ms where four CPUs share twice those: a C of 1 ms in 5 missed its deadline by that.
 */
enum {
	FEW_RESCUES_AT_ONCE = 16,
	MAX_RESCUES_AT_ONCE = 64,	/* while somebody has waited twice as long: those at the head of a queue may be as many as are late */
	RESCUE_MORE_NS = 2500000,	/* if there may be more */
	MAX_RESCUED_SEEN = 16,
	PUT_OFF_NS = 1000000,
	MAX_PUT_OFF = 8,
};

/* How often the next look was put off. */
static u32 put_off;
/* And when it is. */
static u64 look_at_ns;

/* The kernel's ticks per second; 0 where its configuration does not say. */
extern unsigned int CONFIG_HZ __kconfig __weak;

struct timer_slot {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LL_MAX_CPUS);
	__type(key, u32);
	__type(value, struct timer_slot);
} slice_timers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct timer_slot);
} rescue_timer SEC(".maps");

/* Let the timer of @cpu fire in @delay_ns. */
static void set_slice_timer(s32 cpu, struct cpu_ctx *cctx, u64 delay_ns, u64 now)
{
	u32 key = cpu;
	struct timer_slot *slot = bpf_map_lookup_elem(&slice_timers, &key);

	/*
	 * A timer that could not be set is none: the tick ends this slice, and the next one tries again. Noted after: of what an interrupt sets for
	 * sooner in the meantime nothing is left, and with the later time noted it is set anew in ll_running().
	 */
	cctx->timer_at_ns = slot && !bpf_timer_start(&slot->timer, delay_ns, BPF_F_TIMER_CPU_PIN) ? now + delay_ns : 0;
}

/* Have the timer of this CPU end the running task's slice in @left_ns. */
static void end_slice_in(s32 cpu, struct cpu_ctx *cctx, u64 left_ns, u64 now)
{
	cctx->slice_end_ns = now + left_ns;
	if (!cctx->timer_at_ns || cctx->timer_at_ns > cctx->slice_end_ns)
		set_slice_timer(cpu, cctx, left_ns, now);
}

/* The same, where it would go on for longer. */
static void shorten_slice(s32 cpu, struct cpu_ctx *cctx, u64 left_ns, u64 now)
{
	if (!cctx->slice_end_ns || now + left_ns < cctx->slice_end_ns)
		end_slice_in(cpu, cctx, left_ns, now);
}

/*
 * The slice of class OTHER's task on this CPU is over: have the next of the queue preempt it, or where that is behind it give it another
 * slice; false where a dispatch has to decide. It saves the interrupt of a kick and the dispatch: where nobody is at the desk this happens
 * at each switch that is not a sleep. Cgroups are left out of the estimate: it errs by one slice, the charge does not.
 * Where there are several caches a dispatch decides, for it looks at their queues too.
 *
 * The run queue is not locked: whoever wakes up after these checks, 1 or 2 us of each slice, may be overtaken. occupy() sees that by the claim
 * and gives 1 us; a kernel thread that comes without a choice of its CPU claims nothing, and waits for one slice.
 */
static bool settle_slice_end(s32 cpu, struct cpu_ctx *cctx, u64 now)
{
	u64 head;

	/* The timer is on another CPU where that one changed the running task, its nice value say: what runs here is not of @cctx. */
	if (cpu != bpf_get_smp_processor_id() || cctx->claim || cctx->raise_pid || nr_llcs > 1 || !is_others_own(cctx))
		return false;
	/* Who was put straight behind the running task would be overtaken. */
	if (scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu))
		return false;
	if (!shared_head(cpu, LL_CLASS_OTHER, &head) || ll_vtime_before(running_vtime(cctx, now), head)) {
		end_slice_in(cpu, cctx, cctx->other_slice_ns, now);
		return true;
	}
	if (!preempt_by_first(cpu))
		return false;
	/*
	 * For the next one, whose slice begins in some us. In ll_running(), with interrupts off, the kernel sets a timer by an interrupt of its own: 570
	 * instructions more for each switch.
	 */
	if (cctx->other_slice_ns < tick_ns)
		set_slice_timer(cpu, cctx, cctx->other_slice_ns + SWITCH_NS, now);
	return true;
}

/* Does anybody wait who is entitled to @cctx, and goes before the HuC classes? */
static bool is_anyone_entitled(const struct cpu_ctx *cctx, u64 now)
{
	u64 first = cctx->first_release[QUEUE_DEADLINES];

	return first != COOP_ABI_NEVER && !comes_after_huc(first, now);
}

/*
 * Has the kernel thread of @tctx, which works for others and runs on @cctx, to make way for a HuC task that waits? Not one that holds what a HuC task
 * waits for, nor where somebody is entitled to the CPU: who waits for kernel threads (rule 1 in deadline.bpf.h) would wait for longer.
 */
static bool makes_way_for_huc(struct cpu_ctx *cctx, const struct task_ctx *tctx, u64 now)
{
	if (!more_urgent_waits(cctx, LL_CLASS_OTHER) || now < cctx->no_huc_until_ns || is_huc_class(tctx->lock_class))
		return false;
	return !cctx->reservations || (!is_anyone_entitled(cctx, now) && cctx->first_release[QUEUE_STARTS] > now);
}

/*
 * For how much longer that kernel thread, @tctx's, runs before the HuC task: for kthread_first_ns, however many they are, from when that came, or, of
 * the one that ran then, from when that began. One that has had its time does not get it again before each HuC task of a chain.
 */
static u64 left_before_huc(struct cpu_ctx *cctx, const struct task_ctx *tctx, u64 now)
{
	u64 end;

	if (now < cctx->huc_first_until_ns && tctx->indirect_ran_ns >= kthread_first_ns)
		return AT_ONCE_NS;
	if (!cctx->huc_waits_at_ns)
		cctx->huc_waits_at_ns = cctx->running_since_ns;
	end = cctx->huc_waits_at_ns + kthread_first_ns;
	return (s64)(end - now) > AT_ONCE_NS ? end - now : AT_ONCE_NS;
}

/*
 * The kernel thread of @tctx, which works for others and has had its time on @cctx, is about to be put behind a HuC task: it waits for that, and for
 * those that this one wakes, for kthread_waits_ns at most.
 */
static void let_huc_pass(struct cpu_ctx *cctx, struct task_ctx *tctx, u64 now)
{
	if (now >= cctx->huc_first_until_ns)
		cctx->huc_first_until_ns = now + kthread_waits_ns;
	tctx->indirect_ran_ns = longer(tctx->indirect_ran_ns, kthread_first_ns);
	cctx->kthread_gives_way = 1;
	cctx->kthread_waits = 1;
	count(LL_STAT_kthreads_passed);
}

/* Put the first that waits under @class before the kernel threads that wait for this CPU, @cpu. */
static bool put_first_of(s32 cpu, struct cpu_ctx *cctx, u32 class)
{
	if (pinned_waiting(cctx, class) && move_first(cpu, pinned_queue(cpu, class)))
		return true;
	return move_first(cpu, shared_queue(llc_of(cpu), class));
}

/* Is class OTHER's share due on @cctx, and has one of that class been put before the kernel threads that wait for @cpu? */
static bool put_share_before_kthreads(s32 cpu, struct cpu_ctx *cctx)
{
	if (!share_is_due(cctx) || !(move_first(cpu, rescue_queue(llc_of(cpu))) || put_first_of(cpu, cctx, LL_CLASS_OTHER)))
		return false;
	cctx->kthread_gives_way = 1;
	cctx->kthread_waits = 1;
	count(LL_STAT_share_grants);
	return true;
}

/*
 * Put the first HuC task that waits before the kernel threads that wait for this CPU, @cpu, or class OTHER for its share: while some of those wait,
 * no dispatch would see to that. Where none may run here, another CPU is for it, and until it is worth looking again these have their time. Nor while
 * the running one has preemption off, for ms at times: another CPU could not take it from here. The next of these lets it pass.
 */
static void put_huc_before_kthreads(s32 cpu, struct cpu_ctx *cctx, struct task_ctx *tctx)
{
	u64 now = scx_bpf_now();

	if (cctx->kthread_gives_way || !makes_way_for_huc(cctx, tctx, now) || left_before_huc(cctx, tctx, now) > AT_ONCE_NS)
		return;
	if ((nr_cpus > 1 && (get_preempt_count() & PREEMPT_OFF)) || put_share_before_kthreads(cpu, cctx))
		return;
	if (put_first_of(cpu, cctx, LL_CLASS_HUCIN) || put_first_of(cpu, cctx, LL_CLASS_HUCOUT))
		let_huc_pass(cctx, tctx, now);
	else
		cctx->no_huc_until_ns = now + LOOK_AGAIN_NS;
}

/*
 * The slice of a kernel thread on this CPU, @cpu, is over, and others of its kind wait behind it: they would have their time, one after the other,
 * before a dispatch is asked. So who they make way for, a due release or a HuC task, is put before them.
 */
static void put_before_kthreads(s32 cpu, struct cpu_ctx *cctx)
{
	struct task_struct *current = bpf_get_current_task_btf();
	struct task_ctx *tctx;

	if (cctx->class != LL_CLASS_KTHREAD || cpu != bpf_get_smp_processor_id())
		return;
	tctx = task_ctx_of(current);
	if (!tctx || !scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu) || !works_for_others(current))
		return;
	if (cctx->coop_threads && !cctx->reservations) {
		look_at_coop_clock(cctx);
		bpf_rcu_read_lock();
		give_way(cpu, cctx, SCX_ENQ_PREEMPT);
		bpf_rcu_read_unlock();
	}
	put_huc_before_kthreads(cpu, cctx, tctx);
}

/* The timer of CPU *@key fires: end the slice that is over, or come back when it will be. */
static int slice_timer_fires(void *map, u32 *key, struct bpf_timer *timer)
{
	struct cpu_ctx *cctx = cpu_ctx_of(*key);
	u64 now = now_in_timer(cctx->timer_at_ns), end = cctx->slice_end_ns;

	cctx->timer_at_ns = 0;
	if (!end)
		return 0;
	/* Not before a release: who is due then is not yet. */
	if (end > now + (cctx->coop_threads | cctx->reservations ? 0 : TIMER_EARLY_NS)) {
		set_slice_timer(*key, cctx, end - now, now);
		return 0;
	}
	cctx->slice_end_ns = 0;
	put_before_kthreads(*key, cctx);
	if (!settle_slice_end(*key, cctx, now))
		scx_bpf_kick_cpu(*key, SCX_KICK_PREEMPT);
	return 0;
}

/*
 * End the running task's slice in @slice_ns: by the tick where that is soon enough, else by this CPU's timer. A timer that
 * fires before then is left alone and comes back by itself: most tasks sleep long before their slice is over, and
 * setting a timer at every switch would cost more than the switch. Nor is one set anew that settle_slice_end() has set for this slice.
 */
static void arm_slice_end(s32 cpu, struct cpu_ctx *cctx, u64 slice_ns, u64 now)
{
	u64 end = now + slice_ns;

	if (slice_ns >= tick_ns)
		cctx->slice_end_ns = 0;
	else if (slice_ns == cctx->other_slice_ns && cctx->timer_at_ns > end && cctx->timer_at_ns - end <= SWITCH_NS)
		cctx->slice_end_ns = cctx->timer_at_ns;
	else
		end_slice_in(cpu, cctx, slice_ns, now);
}

/* A HuC task has come to wait for this CPU, @cpu, where a kernel thread runs. */
static void shorten_kthread(s32 cpu, struct cpu_ctx *cctx, u64 now)
{
	struct task_struct *current = bpf_get_current_task_btf();
	struct task_ctx *tctx = task_ctx_of(current);

	if (tctx && works_for_others(current) && makes_way_for_huc(cctx, tctx, now))
		shorten_slice(cpu, cctx, left_before_huc(cctx, tctx, now), now);
}

/* Is it any use to tell @cctx, of another CPU, of a HuC task that waits? Its kernel thread looks again, as makes_way_for_huc() has it. */
static bool can_be_told_of_huc(const struct cpu_ctx *cctx, u64 now)
{
	return cctx->runs_worker && !cctx->huc_waits_at_ns && now >= cctx->no_huc_until_ns &&
	       (!cctx->reservations || !is_anyone_entitled(cctx, now));
}

/* A HuC task has come to wait for @cpu, where a kernel thread runs. A timer can be set on its own CPU only: elsewhere a dispatch does it. */
static void wait_for_kthread(s32 cpu, struct cpu_ctx *cctx, u64 now)
{
	if (cpu == bpf_get_smp_processor_id()) {
		shorten_kthread(cpu, cctx, now);
	} else if (can_be_told_of_huc(cctx, now)) {
		cctx->huc_waits_at_ns = cctx->running_since_ns;
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
}

/* @p, of a HuC class, woke up and waits, not for a kernel thread on its own CPU: where one runs elsewhere, it waits for that. */
static void wait_for_any_kthread(const struct task_struct *p, const struct task_ctx *tctx, u64 now)
{
	u32 cpu;

	if (nr_cpus == 1 || is_pinned(p, tctx))
		return;
	bpf_for(cpu, 0, nr_cpus) {
		struct cpu_ctx *cctx = cpu_ctx_of(cpu);

		if (cctx->class != LL_CLASS_KTHREAD || !can_be_told_of_huc(cctx, now) || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		wait_for_kthread(cpu, cctx, now);
		break;
	}
}

/*
 * @p, of a HuC class, woke up and waits for @cpu. Ahead of a task of its own class it does so until that one has caught up, not for a whole
 * slice of 20 ms: a player's threads would lose frames to each other. For a kernel thread that works for others, until that has had its time.
 */
static void share_slice(const struct task_struct *p, struct task_ctx *tctx, s32 cpu, struct cpu_ctx *cctx)
{
	u64 now = scx_bpf_now(), left_ns;
	s64 ahead;

	if (cctx->class == LL_CLASS_KTHREAD)
		return wait_for_kthread(cpu, cctx, now);
	wait_for_any_kthread(p, tctx, now);
	if (cctx->class != tctx->class || cpu != bpf_get_smp_processor_id())
		return;
	ahead = tctx->vtime + preempt_lag_ns - running_vtime(cctx, now);
	left_ns = ahead > 0 ? (u64)ahead * 1000 / vtime_rate_pm(cctx) : 0;
	shorten_slice(cpu, cctx, left_ns, now);
}

/*
 * @tctx has come to wait for @cpu: what runs there makes way when its release comes, unless that is cooperative and was told when to yield. A timer
 * can be set on its own CPU only.
 */
static void announce_release(const struct task_ctx *tctx, s32 cpu, struct cpu_ctx *cctx)
{
	u64 now, left_ns;

	if (tctx->coop.queue >= NR_RELEASE_QUEUES || cctx->coop_until_ns || cctx->class < tctx->class || cctx->class >= LL_NR_CLASSES)
		return;
	now = scx_bpf_now();
	left_ns = tctx->coop.release_ns - coop_now();
	/* One that is due has been looked at, and is more than any slice then. */
	if (left_ns >= huc_slice_ns || (cctx->slice_end_ns && cctx->slice_end_ns <= now + left_ns))
		return;
	if (cpu == bpf_get_smp_processor_id())
		end_slice_in(cpu, cctx, left_ns, now);
	else
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/* @p, cooperative, goes into the queue of its class, and its release into that of its CPU. */
static void enqueue_coop(struct task_struct *p, struct task_ctx *tctx, u64 enq_flags)
{
	s32 cpu = home_of(p, tctx);

	enqueue_in_class(p, tctx, cpu, enq_flags);
	submit_coop(p, tctx, cpu);
	announce_release(tctx, cpu, cpu_ctx_of(cpu));
	if (cpu_ctx_of(cpu)->class == LL_CLASS_KTHREAD && is_huc_class(tctx->class))
		wait_for_kthread(cpu, cpu_ctx_of(cpu), scx_bpf_now());
	if (cpu != scx_bpf_task_cpu(p))
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/* How many more can be rescued in this look. Only the timer's callback reads and writes it, which runs on one CPU at a time. */
static u32 rescues_left;

/*
 * Move @p ahead of its class if it has waited longer than rescue_after_ns, which takes one of those left; how long that is, or 0. In the queue of a
 * single CPU it stays, as the first there.
 */
static u64 rescue_if_late(struct bpf_iter_scx_dsq *it, struct task_struct *p, struct task_ctx *tctx, u64 now)
{
	u64 since = tctx->queued_at_ns;

	if (!since || now < since + rescue_after_ns)
		return 0;
	if (waiting_class(tctx) != RESCUED && move_waiting(it, p, tctx, RESCUED, rescued_vtime(p, tctx, since))) {
		--rescues_left;
		count(LL_STAT_rescues);
	}
	return now - since;
}

/*
 * Rescue who has waited too long in @queue, as many as are left; the longest that anybody has waited there, as far as was looked, or 0. The
 * whole queue is gone through where few have: in 0.3 us of the laboratory's CPU for each that waits. Not static: so the verifier looks at it once,
 * not in each turn of the loops over queues.
 */
__weak u64 rescue_from(u64 queue, u64 now)
{
	u64 since = bpf_jiffies64() - rescue_after_ns * (CONFIG_HZ ?: HZ_MIN) / NS_PER_S + 1;
	struct task_struct *p;
	struct task_ctx *tctx;
	u64 longest = 0, waited;

	if (!rescues_left || !scx_bpf_dsq_nr_queued(queue))
		return 0;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, queue, 0) {
		/* The kernel's own note, coarse but at hand: with a thousand in the queue each look-up counts. */
		if ((s64)(since - p->scx.runnable_at) < 0)
			continue;
		tctx = task_ctx_of(p);
		waited = tctx ? rescue_if_late(BPF_FOR_EACH_ITER, p, tctx, now) : 0;
		longest = longer(longest, waited);
		if (!rescues_left)
			break;
	}
	bpf_rcu_read_unlock();
	return longest;
}

/*
 * How long who is first in @queue, of the rescued, has waited. Not just the very first: some are there by what they are (enqueue_in_class()). Not
 * static, for the verifier's sake, either.
 */
__weak u64 longest_of_rescued(u64 queue, u64 now)
{
	struct task_struct *p;
	struct task_ctx *tctx;
	u64 longest = 0;
	u32 seen = 0;

	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, queue, 0) {
		tctx = task_ctx_of(p);
		if (tctx && tctx->queued_at_ns && tctx->queued_at_ns < now)
			longest = longer(longest, now - tctx->queued_at_ns);
		if (++seen == MAX_RESCUED_SEEN)
			break;
	}
	bpf_rcu_read_unlock();
	return longest;
}

/*
 * Can anybody have waited for longer than @limit_ns? Who came in an epoch that began so long ago; who came more than WAIT_EPOCHS of them ago is found
 * as one of a later epoch when that has come to it.
 */
static bool is_anyone_late(u64 now, u64 limit_ns)
{
	u64 epoch = now >> wait_epoch_shift;
	u32 ago, late = 0;

	bpf_for(ago, 0, WAIT_EPOCHS)
		if (((epoch - ago) << wait_epoch_shift) + limit_ns <= now)
			late |= waiting_since[(epoch - ago) & (WAIT_EPOCHS - 1)];
	return late;
}

/*
 * Look at all queues once, for who has waited too long, where there can be somebody: with 2,000 in them a walk takes the laboratory 1 to 2 ms, in
 * which nobody else runs on this CPU, whatever they are promised. The longest that anybody has, or 0.
 */
static u64 rescue_from_all(u64 now)
{
	bool is_late = is_anyone_late(now, rescue_after_ns);
	u64 longest = 0;
	u32 class, i;

	bpf_for(i, 0, nr_llcs) {
		longest = longer(longest, longest_of_rescued(rescue_queue(i), now));
		if (!is_late)
			continue;
		bpf_for(class, LL_CLASS_HUCIN, LL_NR_CLASSES)
			longest = longer(longest, rescue_from(shared_queue(i, class), now));
	}
	bpf_for(i, 0, nr_cpus) {
		if (nr_cpus == 1)
			break;
		/* Who was rescued there is not counted among those who may be late. */
		if (!is_late && !pinned_waiting(cpu_ctx_of(i), RESCUED))
			continue;
		bpf_for(class, LL_CLASS_HUCIN, LL_NR_CLASSES)
			if (own_waiting(cpu_ctx_of(i), class))
				longest = longer(longest, rescue_from(pinned_queue(i, class), now));
	}
	return longest;
}

/*
 * Who runs on @cctx, this CPU, for its reservation is charged for what an interrupt takes: a walk through 2,000 that wait is more than what a C of
 * 1 ms may have to spare. What it leaves to others comes soon; so does the switch to who was sent here to preempt. Not at this moment, at the
 * latest after 8 ms.
 */
static bool looks_later(const struct cpu_ctx *cctx)
{
	if ((cctx->runs_rank || cctx->claim) && put_off < MAX_PUT_OFF) {
		put_off++;
		return true;
	}
	put_off = 0;
	return false;
}

/* Look for those who have waited too long in @delay_ns. */
static s32 look_in(struct bpf_timer *timer, u64 delay_ns, u64 now)
{
	look_at_ns = now + delay_ns;
	return bpf_timer_start(timer, delay_ns, 0);
}

static int rescue_waiters(void *map, u32 *key, struct bpf_timer *timer)
{
	u64 now = now_in_timer(look_at_ns), longest;
	struct cpu_ctx *cctx = cpu_ctx_of(bpf_get_smp_processor_id());

	if (looks_later(cctx)) {
		look_in(timer, PUT_OFF_NS, now);
		return 0;
	}
	rescues_left = is_anyone_late(now, 2 * rescue_after_ns) ? MAX_RESCUES_AT_ONCE : FEW_RESCUES_AT_ONCE;
	cctx->goes_through_queues = 1;
	longest = rescue_from_all(now);
	cctx->goes_through_queues = 0;
	share_now_pm = longest > overdue_after_ns && share_pm < SHARE_OVERDUE_PM ? SHARE_OVERDUE_PM : share_pm;
	/* Two looks after it was rescued it should have run. */
	rescue_first = longest > rescue_after_ns + 2 * rescue_period_ns;
	look_in(timer, rescues_left ? rescue_period_ns : RESCUE_MORE_NS, now);
	return 0;
}

static s32 start_timers(void)
{
	struct timer_slot *slot;
	u32 i, zero = 0;
	s32 err = 0;

	bpf_for(i, 0, nr_cpus) {
		slot = bpf_map_lookup_elem(&slice_timers, &i);
		if (!slot)
			return -ENOENT;
		err = err ?: bpf_timer_init(&slot->timer, &slice_timers, CLOCK_MONOTONIC);
		err = err ?: bpf_timer_set_callback(&slot->timer, slice_timer_fires);
	}
	slot = bpf_map_lookup_elem(&rescue_timer, &zero);
	if (!slot)
		return -ENOENT;
	err = err ?: bpf_timer_init(&slot->timer, &rescue_timer, CLOCK_MONOTONIC);
	err = err ?: bpf_timer_set_callback(&slot->timer, rescue_waiters);
	err = err ?: look_in(&slot->timer, rescue_period_ns, scx_bpf_now());
	return err;
}

#endif /* LIMELIGHT_TIMER_H */
