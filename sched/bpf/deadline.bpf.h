/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reservations are kept by earliest deadline (Redline, section 6.2): a task whose process is entitled to a CPU runs there before all classes, and
 * of several the one of the first rank, which is its deadline but in an overload (below). It waits in the queue of its class as well, out of
 * which it is taken when its turn has come here or there.
 *
 * Two heaps for each CPU in place of the paper's tree with tags: who waits for its period to start, by that, and who is entitled, by rank.
 * Who comes to its start changes from one to the other, once a period: O(log n), as there. A heap's entry is what was true when the task began to
 * wait. Its process's other threads may have used up the budget since, so it is looked at when it is the first.
 *
 * How reservations go together with the rest (design, "The scheduler"):
 *
 *  1. Kernel threads of class KTHREAD come first.
 *  2. Then cooperative releases that are due, for as long as the first reservation can have what is left of its budget before its deadline
 *     even so, and the slack that a cooperative thread is given.
 *  3. Then whoever is entitled, whatever its class: in class OTHER before HUCIN. R_max bounds what that can take. It counts as use by the
 *     higher classes, so class OTHER earns its share of it, while somebody is at the desk or logs in (earns_as()).
 *  4. Then the guaranteed share, and the classes, as everywhere; a task without budget goes by its class, and so does one on another CPU
 *     than its home.
 *
 * More may be promised than there is, as who is admitted is so by what is used. Where all want theirs at once, by earliest deadline everybody
 * misses some, until load control has taken one back, a window later. So those that may be revoked and are of class OTHER come after the rest
 * while reservations take more than R_max, and each of them as soon as it takes more than it did where there is no room for that: what a task
 * goes by is its rank. It is mostly one of them that is to lose its reservation (victim_of()), and who serves the person does not pay for them
 * meanwhile. Nor just afterwards: who has come after the others does so until its period ends, or it would have all that it lacks at once, by a
 * deadline that is near. Where no more is promised than there is, all have theirs by earliest deadline, and nobody comes after. Under a policy
 * without HuC all are of class OTHER, and only who may not be revoked is before the others.
 *
 * The same ones come after the others while a login has something to do, anywhere (login.bpf.h), and where a HuC task wants the CPU then, they
 * go by their class, as if they held nothing. Who came to wait before that is looked at when it is the first, 8 at a time, in some milliseconds if
 * all are such; who came meanwhile stays behind until it has run. What they do not use so is no load.
 *
 * What runs on a reservation is charged in its class, and does not move that's clock. It does not get further ahead of that than a slice
 * takes (after_turn()): beside 2,000 others it would not come back into its class for a minute.
 */
#ifndef LIMELIGHT_DEADLINE_H
#define LIMELIGHT_DEADLINE_H

enum {
	MAX_STARTS_AT_ONCE = 16,	/* the timer comes back at once for more */
	MAX_STALE_AT_ONCE = 8,
	SEEK_AGAIN_NS = 50000,		/* where it is not found in its queue for good, that is 4 % of the CPU in the laboratory */
};

/* Is the task of @tctx, with @r, one that makes room in an overload? */
static bool makes_room(const struct ll_reservation *r, const struct task_ctx *tctx)
{
	return r->flags & LL_SPEC_REVOCABLE && tctx->class == LL_CLASS_OTHER;
}

/* What @r took at least of its home in one of the last four seconds, in us. */
static u32 least_use_us(const struct ll_reservation *r)
{
	u32 first = r->window_us[0] < r->window_us[1] ? r->window_us[0] : r->window_us[1];
	u32 second = r->window_us[2] < r->window_us[3] ? r->window_us[2] : r->window_us[3];

	return first < second ? first : second;
}

/* Is one that makes room, with @r, to come after the others that are entitled to its home? In an overload, or one begins with it. */
static bool is_too_much(const struct ll_reservation *r, u64 now)
{
	const struct cpu_ctx *home = cpu_ctx_of(r->home);

	/* No more is promised than there is. */
	if (home->admitted_ppm <= LL_WHOLE_PPM)
		return false;
	if (ll_is_overloaded(&home->load, reserved_running_ppm(home, now), load_max_ppm))
		return true;
	/* Of one that was just admitted it is expected that it takes C in every T, and its first second is no whole one. */
	if (load_seconds - r->since_s <= LL_LOAD_SAMPLES || !ll_surges(r->second_us, least_use_us(r), r->runtime_ns, r->period_ns))
		return false;
	/* Not R_hi: others that take more all of a sudden are not in the load yet. As for who comes back (reactivate()). */
	return ll_lacks_room(&home->load, r->bandwidth_ppm, window_use_us(r) / LL_LOAD_SAMPLES, load_low_ppm);
}

/*
 * Does a task that makes room, with @number, come after the others that are entitled to its home? Once it does for an overload, until its period
 * ends, past its deadline where it has budget left and wants it. Not locked: where another CPU begins a new period meanwhile, that may count as
 * well. Not static: so the verifier looks at it once.
 */
__weak bool comes_after_others(u32 number, u64 now)
{
	struct reservation *reservation = reservation_of(number);
	struct ll_reservation *r;

	if (!reservation)
		return false;
	/* For as long as that is, which is bounded; a period may be ten seconds. */
	if (is_login_about(now))
		return true;
	r = &reservation->r;
	if (r->late_deadline_ns != r->deadline_ns && is_too_much(r, now))
		r->late_deadline_ns = r->deadline_ns;
	return r->late_deadline_ns == r->deadline_ns;
}

/* What the task of @tctx, with @r, goes by among those that are entitled to its home: its deadline, but for who comes after the others. */
static u64 rank_of(const struct ll_reservation *r, const struct task_ctx *tctx, u64 now)
{
	u64 later_ns = 0;

	if (makes_room(r, tctx) && comes_after_others(tctx->reserve.number, now))
		later_ns = AFTER_OTHERS_NS;
	return r->deadline_ns + later_ns;
}

/* The reservation of @p's process, if it is admitted where @p may run; else NULL. */
static struct ll_reservation *admitted_of(const struct task_struct *p, const struct task_ctx *tctx)
{
	struct reservation *reservation = reservation_of(tctx->reserve.number);

	if (!reservation || reservation->r.state != LL_RESERVATION_ADMITTED)
		return NULL;
	/* To move one that must not migrate now would end the scheduler. */
	if (is_migration_disabled(p) && scx_bpf_task_cpu(p) != reservation->r.home)
		return NULL;
	return may_live_on(p, tctx, reservation->r.home) ? &reservation->r : NULL;
}

/* Put @p, which waits, where it belongs among those of its home. */
static void submit_reserved(const struct task_struct *p, struct task_ctx *tctx, u64 now)
{
	struct ll_reservation *r = admitted_of(p, tctx);
	u32 queue, item;
	u64 key;

	withdraw_reserved(tctx);
	if (!r)
		return;
	if (!hold_item(p, tctx))
		return;
	/* Another CPU may have had it leave its reservation meanwhile. */
	item = reserved_item(tctx);
	if (item >= LL_HEAP_ITEMS)
		return;
	queue = is_entitled(r, now) ? QUEUE_DEADLINES : QUEUE_STARTS;
	key = queue == QUEUE_DEADLINES ? rank_of(r, tctx, now) : r->start_ns;
	/* Before: a dispatch on its home may find it there, and change it, at once (look_again()). */
	tctx->reserve.queue_cpu = r->home;
	tctx->reserve.queue = queue;
	if (!change_queue(r->home, queue, item, key))
		tctx->reserve.queue = 0;
}

/* Does what runs on @cpu make way for one of @rank? */
static bool makes_way_for_rank(s32 cpu, u64 rank, u64 now)
{
	const struct cpu_ctx *cctx = cpu_ctx_of(cpu);

	if (cctx->class >= LL_NR_CLASSES || cctx->class == LL_CLASS_KTHREAD)
		return false;
	if (rank >= ranks_after_others(now) && huc_goes_first(cpu, cctx->class, now))
		return false;
	if (!cctx->runs_rank || rank < cctx->runs_rank)
		return true;
	/* What runs may have begun before there was a login. */
	return cctx->runs_makes_room && rank < ranks_after_others(now) && is_login_about(now);
}

/* @tctx has come to wait for @home: have that look, at once or when its period starts. */
static void announce_deadline(const struct task_ctx *tctx, u64 now)
{
	s32 home = tctx->reserve.queue_cpu;
	struct cpu_ctx *cctx = cpu_ctx_of(home);
	u64 start;

	if (tctx->reserve.queue == QUEUE_DEADLINES) {
		if (makes_way_for_rank(home, cctx->first_release[QUEUE_DEADLINES], now))
			scx_bpf_kick_cpu(home, SCX_KICK_PREEMPT);
		else if (cctx->class >= LL_NR_CLASSES)
			scx_bpf_kick_cpu(home, SCX_KICK_IDLE);
		return;
	}
	start = cctx->first_release[QUEUE_STARTS];
	if (tctx->reserve.queue != QUEUE_STARTS || cctx->class >= LL_NR_CLASSES || (cctx->slice_end_ns && cctx->slice_end_ns <= start))
		return;
	if (home == bpf_get_smp_processor_id())
		end_slice_in(home, cctx, start > now ? start - now : AT_ONCE_NS, now);
	else
		scx_bpf_kick_cpu(home, SCX_KICK_PREEMPT);
}

/* The task of @item, with a reference; NULL where that has gone. @tctx is its context. */
static struct task_struct *task_of_item(u32 item, struct task_ctx **tctx)
{
	struct task_struct *p = bpf_task_from_pid(release_pids[item & (LL_HEAP_ITEMS - 1)]);

	*tctx = p ? task_ctx_of(p) : NULL;
	if (*tctx && reserved_item(*tctx) == item)
		return p;
	if (p)
		bpf_task_release(p);
	return NULL;
}

/* Those whose period has started are entitled from now on. */
static void start_periods(s32 cpu, struct cpu_ctx *cctx, u64 now)
{
	struct ll_reservation *r;
	struct task_struct *p;
	struct task_ctx *tctx;
	u32 i, item;

	bpf_for(i, 0, MAX_STARTS_AT_ONCE) {
		if (cctx->first_release[QUEUE_STARTS] > now)
			break;
		item = first_item(cpu, QUEUE_STARTS);
		p = task_of_item(item, &tctx);
		change_queue(cpu, QUEUE_STARTS, item, COOP_ABI_NEVER);
		if (!p)
			continue;
		r = admitted_of(p, tctx);
		/* It waits, or it would not be here; who takes it at this moment withdraws it in ll_running(). */
		if (r && waiting_class(tctx) < LL_NR_CLASSES)
			submit_reserved(p, tctx, now);
		bpf_task_release(p);
	}
}

/*
 * @item, of @tctx, is out of @cpu's deadlines. Its task is entitled and marked as waiting, and yet is not in its queue: another CPU puts it there
 * at this moment, which the kernel does after ll_enqueue(), or moves it, or takes it for its class. It is looked for again soon: where it stays, it
 * would wait for its class.
 */
static void look_again(struct task_ctx *tctx, s32 cpu, u32 item, u64 now)
{
	if (!change_queue(cpu, QUEUE_STARTS, item, now + SEEK_AGAIN_NS))
		return;
	tctx->reserve.queue = QUEUE_STARTS;
	tctx->reserve.queue_cpu = cpu;
	/* Also where nobody else is there to run. */
	shorten_slice(cpu, cpu_ctx_of(cpu), SEEK_AGAIN_NS, now);
	count(LL_STAT_reserved_sought);
}

/* @p, which waits, is not entitled to @cpu now: later, or to another one, which is told. */
static void submit_again(const struct task_struct *p, struct task_ctx *tctx, s32 cpu, u64 now)
{
	submit_reserved(p, tctx, now);
	if (tctx->reserve.queue && tctx->reserve.queue_cpu != cpu)
		announce_deadline(tctx, now);
}

/* Did the task of @tctx, with @r, come to wait as one of @rank before there was a login that it comes after now? */
static bool has_fallen_back(const struct ll_reservation *r, const struct task_ctx *tctx, u64 rank, u64 now)
{
	return makes_room(r, tctx) && is_login_about(now) && rank < ranks_after_others(now);
}

/* Take @p, of @item, which is the first of @cpu's deadlines. Where that is not what it was, put it right; false then. */
static bool take_first_deadline(s32 cpu, u32 item, u64 now)
{
	u64 rank = cpu_ctx_of(cpu)->first_release[QUEUE_DEADLINES];
	struct task_ctx *tctx;
	struct task_struct *p = task_of_item(item, &tctx);
	struct ll_reservation *r;
	bool is_its = false, taken = false;
	u32 waits_as;

	if (!p) {
		change_queue(cpu, QUEUE_DEADLINES, item, COOP_ABI_NEVER);
		return false;
	}
	r = admitted_of(p, tctx);
	waits_as = waiting_class(tctx);
	is_its = r && r->home == cpu && is_entitled(r, now) && waits_as < LL_NR_CLASSES && !has_fallen_back(r, tctx, rank, now);
	if (is_its)
		taken = take_from_queue(cpu, p, queue_of(p, tctx, waits_as, queue_cpu(p, tctx)), 0);
	if (!taken) {
		change_queue(cpu, QUEUE_DEADLINES, item, COOP_ABI_NEVER);
		if (is_its && waiting_class(tctx) < LL_NR_CLASSES)
			look_again(tctx, cpu, item, now);
		else if (r && waits_as < LL_NR_CLASSES && !is_its)
			submit_again(p, tctx, cpu, now);
	}
	bpf_task_release(p);
	return taken;
}

/* Take who is entitled to @cpu and is the first by rank, if that is before @than. */
static bool take_deadline(s32 cpu, struct cpu_ctx *cctx, u64 than, u64 now)
{
	u32 i;

	bpf_for(i, 0, MAX_STALE_AT_ONCE) {
		if (cctx->first_release[QUEUE_DEADLINES] >= than)
			break;
		if (take_first_deadline(cpu, first_item(cpu, QUEUE_DEADLINES), now)) {
			count(LL_STAT_reserved_dispatched);
			return true;
		}
	}
	return false;
}

/*
 * The latest moment at which one of @rank, which is entitled by @r, can still begin and have its budget, with the slack of a cooperative thread
 * before. Who comes after the others can wait for these, too.
 */
static u64 latest_start(const struct ll_reservation *r, u64 rank)
{
	return rank - r->budget_ns - coop_slack_ns;
}

/* Can the first reservation that waits for @cctx, or @own, the one that could go on, wait for a cooperative thread's release (rule 2)? */
static bool can_wait_for_release(s32 cpu, struct cpu_ctx *cctx, const struct ll_reservation *own, u64 own_rank, u64 now)
{
	struct ll_reservation *r;
	struct task_ctx *tctx;
	struct task_struct *p;
	u64 latest = own ? latest_start(own, own_rank) : COOP_ABI_NEVER, its;

	if (next_release(cpu, LL_CLASS_OTHER, false) > cctx->coop_now_ns)
		return false;
	if (cctx->first_release[QUEUE_DEADLINES] != COOP_ABI_NEVER) {
		p = task_of_item(first_item(cpu, QUEUE_DEADLINES), &tctx);
		if (p) {
			r = admitted_of(p, tctx);
			its = r ? latest_start(r, cctx->first_release[QUEUE_DEADLINES]) : COOP_ABI_NEVER;
			latest = earlier(its, latest);
			bpf_task_release(p);
		}
	}
	cctx->release_until_ns = latest;
	return (s64)(latest - now) > 0;
}

/* How long the task of @tctx runs on @cpu rather than for @slice_ns: by its own reservation, and by those that wait. */
static u64 slice_until_deadline(const struct task_struct *p, struct task_ctx *tctx, s32 cpu, u64 slice_ns, u64 now)
{
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	/* Where all have gone, what is left in the heaps is of nobody, and no dispatch looks there. */
	u64 first = cctx->reservations ? cctx->first_release[QUEUE_DEADLINES] : COOP_ABI_NEVER;
	u64 start = cctx->reservations ? cctx->first_release[QUEUE_STARTS] : COOP_ABI_NEVER;
	struct ll_reservation *r = admitted_of(p, tctx);
	u64 rank;
	bool behind;

	cctx->runs_rank = 0;
	if (tctx->class == LL_CLASS_KTHREAD)
		return slice_ns;
	behind = huc_goes_first(cpu, tctx->class, now);
	if (behind && first >= ranks_after_others(now))
		first = COOP_ABI_NEVER;
	if (r && r->home == cpu) {
		rank = is_entitled(r, now) ? rank_of(r, tctx, now) : 0;
		if (!rank) {
			start = earlier(start, r->start_ns);
		} else if (!behind || rank < ranks_after_others(now)) {
			cctx->runs_makes_room = makes_room(r, tctx);
			cctx->runs_latest_ns = latest_start(r, rank);
			/* What it goes by is looked at again before it has taken much more than it did. */
			slice_ns = makes_room(r, tctx) && cctx->admitted_ppm > LL_WHOLE_PPM && r->budget_ns > LL_SURGE_NS ? LL_SURGE_NS : r->budget_ns;
			cctx->runs_rank = rank;
		}
	}
	if (first != COOP_ABI_NEVER && (!cctx->runs_rank || first < cctx->runs_rank)) {
		if (!runs_for_release(tctx, cctx) || (s64)(cctx->release_until_ns - now) <= 0)
			return AT_ONCE_NS;
		slice_ns = earlier(slice_ns, cctx->release_until_ns - now);
	}
	if (start != COOP_ABI_NEVER)
		slice_ns = earlier(slice_ns, (s64)(start - now) > 0 ? start - now : AT_ONCE_NS);
	/* It was entitled when it was put behind another; a thread of its own process may have used up the budget since. */
	if (r && !cctx->runs_rank && is_huc_class(tctx->class) && more_urgent_waits(cctx, tctx->class) && now >= cctx->no_huc_until_ns)
		return AT_ONCE_NS;
	return slice_ns;
}

/* The task of @tctx has run for @ran_ns on @cctx: what that is of its process's reservation. */
static void charge_reserved(struct task_struct *p, struct task_ctx *tctx, struct cpu_ctx *cctx, u64 ran_ns, u64 now)
{
	u64 ahead = after_turn(tctx, cctx);

	/* What it ran before it held this is charged already. */
	if ((s64)(tctx->reserve.charged_at_ns - (now - ran_ns)) > 0)
		ran_ns = now - tctx->reserve.charged_at_ns;
	/* Another CPU's clock, where that changes it, may be a little behind this. */
	if ((s64)ran_ns < 0)
		ran_ns = 0;
	charge_stint(tctx, cctx, ran_ns, now);
	if (cctx->runs_rank && ll_vtime_before(ahead, tctx->vtime) && tctx->class < LL_NR_CLASSES)
		tctx->vtime = ahead;
	if (!tctx->reserve.window_ns)
		return;
	if (tctx->reserve.window_ns > ran_ns)
		tctx->reserve.window_ns -= ran_ns;
	else
		inherit_or_leave(p, tctx);
}

/* @p wants the CPU: a new period for it, where that is due, and another home where it may not use that any more. */
static void renew_reserved(const struct task_struct *p, struct task_ctx *tctx, u64 now)
{
	charge_reservation(tctx->reserve.number, 0, now, tctx->reserve.woke ? CHARGE_WOKE : 0);
	tctx->reserve.woke = 0;
	follow_affinity(p, tctx);
}

/* The reservation of @p's process, if that is entitled to its home; else NULL. */
static struct ll_reservation *entitled_of(const struct task_struct *p, const struct task_ctx *tctx, u64 now)
{
	struct ll_reservation *r = admitted_of(p, tctx);

	return r && is_entitled(r, now) ? r : NULL;
}

/*
 * Does @r's task, of an earlier rank than the task that wakes it up, wait for that one to sleep, as wakers mostly do at once? To preempt it is
 * two switches more. It has its budget in time even so, and waits for HANDS_OVER_WAIT_NS at most.
 */
static bool waits_for_waker(const struct ll_reservation *r, u64 rank, const struct cpu_ctx *cctx, u64 now)
{
	if (r->home != bpf_get_smp_processor_id() || !bpf_in_task() || !cctx->runs_rank)
		return false;
	return (s64)(latest_start(r, rank) - now) > HANDS_OVER_WAIT_NS;
}

/*
 * Is @r's turn on its home the next but for what runs there, and by which flags of an insertion does it come to that? Then it waits in no queue,
 * which would cost as much again as the switch. Not where others are next already: which of them is the first is for a dispatch to say. To wait
 * behind the running task is for one that @stays: another CPU could not take it from there.
 */
static bool is_next_by_deadline(const struct ll_reservation *r, const struct task_ctx *tctx, bool stays, u64 now, u64 *enq_flags)
{
	struct cpu_ctx *cctx = cpu_ctx_of(r->home);
	u64 rank = rank_of(r, tctx, now);

	if (cctx->coop_threads || cctx->first_release[QUEUE_DEADLINES] <= rank)
		return false;
	if (scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | (s32)r->home))
		return false;
	if (!makes_way_for_rank(r->home, rank, now))
		return stays && cctx->runs_rank && !comes_after_huc(rank, now);
	if (!stays || !waits_for_waker(r, rank, cctx, now))
		*enq_flags = SCX_ENQ_PREEMPT;
	else
		shorten_slice(r->home, cctx, HANDS_OVER_WAIT_NS, now);
	return true;
}

/* Have @p, which wakes up and is entitled to @r's home, run there without waiting in a queue, where that is in order. */
static bool run_by_deadline(struct task_struct *p, struct task_ctx *tctx, const struct ll_reservation *r, u64 now, u64 enq_flags)
{
	struct cpu_ctx *cctx = cpu_ctx_of(r->home);
	u64 how = 0;

	if (is_idle(cctx, r->home)) {
		run_next(p, tctx, enq_flags, LL_STAT_wakeups_direct);
		return true;
	}
	if (!is_next_by_deadline(r, tctx, nr_cpus == 1 || is_pinned(p, tctx), now, &how))
		return false;
	/* Whoever wakes up before it runs, for its class, is not to be put before it. */
	if (how && !claim_cpu(cctx, tctx->class))
		return false;
	run_next(p, tctx, enq_flags | how, LL_STAT_reserved_dispatched);
	return true;
}

/* @p wakes up: if it is entitled to its home, that is where it runs or waits; @cpu is that then, else false. */
static bool select_reserved(struct task_struct *p, struct task_ctx *tctx, s32 *cpu)
{
	u64 now = scx_bpf_now();
	struct ll_reservation *r;

	renew_reserved(p, tctx, now);
	r = entitled_of(p, tctx, now);
	if (!r)
		return false;
	*cpu = r->home;
	run_by_deadline(p, tctx, r, now, 0);
	return true;
}

enum reserved_place { BY_CLASS, BY_DEADLINE, RUNS_NEXT };

/*
 * Where @p goes, which begins to wait on @cpu: by its class; or it is entitled to its home, and no other CPU is looked for. Then it runs next there,
 * or waits. What select_reserved() has seen to is not done again.
 */
static enum reserved_place place_reserved(struct task_struct *p, struct task_ctx *tctx, s32 cpu, u64 enq_flags)
{
	bool selected = enq_flags & SCX_ENQ_CPU_SELECTED;
	u64 now = scx_bpf_now();
	struct ll_reservation *r;

	/* A cooperative thread has its CPU chosen by another way. */
	if (!selected || tctx->coop.cell)
		renew_reserved(p, tctx, now);
	r = entitled_of(p, tctx, now);
	if (!r)
		return BY_CLASS;
	if ((enq_flags & SCX_ENQ_WAKEUP) && !selected && r->home == cpu && run_by_deadline(p, tctx, r, now, enq_flags))
		return RUNS_NEXT;
	return BY_DEADLINE;
}

/* Have @p, which waits in the queue of its class now, wait for its reservation, too. */
static void enqueue_reserved(const struct task_struct *p, struct task_ctx *tctx)
{
	u64 now = scx_bpf_now();

	submit_reserved(p, tctx, now);
	if (tctx->reserve.queue)
		announce_deadline(tctx, now);
}

enum first_deadline { NO_DEADLINE, DEADLINE_TAKEN, DEADLINE_GOES_ON };

/*
 * Take who is entitled to @cpu and is the first by rank; or that is @prev, of @tctx, where that could go on. Neither where nobody is
 * entitled, and where releases come first.
 */
static enum first_deadline find_first_deadline(const struct task_struct *prev, struct task_ctx *tctx, s32 cpu, struct cpu_ctx *cctx, u64 now)
{
	struct ll_reservation *own = tctx ? admitted_of(prev, tctx) : NULL;
	u64 own_rank = COOP_ABI_NEVER;
	bool behind = huc_goes_first(cpu, tctx ? tctx->class : LL_NR_CLASSES, now);

	start_periods(cpu, cctx, now);
	if (own && (own->home != cpu || !is_entitled(own, now)))
		own = NULL;
	if (!own && cctx->first_release[QUEUE_DEADLINES] == COOP_ABI_NEVER)
		return NO_DEADLINE;
	if (own && tctx)
		own_rank = rank_of(own, tctx, now);
	if (behind && own_rank >= ranks_after_others(now)) {
		own_rank = ranks_after_others(now);
		own = NULL;
	}
	if (cctx->coop_threads && can_wait_for_release(cpu, cctx, own, own_rank, now))
		return NO_DEADLINE;
	if (take_deadline(cpu, cctx, own_rank, now))
		return DEADLINE_TAKEN;
	return own ? DEADLINE_GOES_ON : NO_DEADLINE;
}

#endif /* LIMELIGHT_DEADLINE_H */
