/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Cooperative polling (Krasic, Saubhasik, Sinha, Goel, EuroSys 2009, section 3): threads that say when their next timer is due run then, and
 * yield when another's is. What they say and what they are told stands in a page of memory that their process shares with us
 * (abi/include/coop_abi.h has the rules); here is what is done about it.
 *
 * A cooperative thread stays on its CPU, and has its class and its virtual time as everybody has. Its release is beside that, in the CPU's
 * release queues: one for those that wait for the CPU, and one for those that sleep, for each class. The rule by which releases, classes and
 * shares go together:
 *
 *  1. A due release goes before everybody of its class and of less urgent ones, the most urgent class first, in a class the earliest first; but who
 *     are of a user that has run for releases for half of the CPU's time after those who are not (part_releases() in release.bpf.h).
 *  2. Before a more urgent class goes only one of class OTHER, and only where the guaranteed share is due (share.bpf.h), as a part of that. Before
 *     those of class OTHER who have waited too long, and were rescued, it goes for a few of the rescue timer's periods, and no longer.
 *  3. Whoever runs for a release is charged as always, and does not move its class's clock while others wait. Once it is ahead of that by more
 *     than the longest slice and coop_ahead_ns take of its virtual time, its releases are not kept: nobody gains CPU in the long run by being prompt.
 *  4. Who runs in good standing is not preempted by its own class before the end of the slice that it was told, and coop_slack_ns; who runs
 *     on even then is preempted and demoted, and is on probation. A more urgent class preempts it as always, and waits for no slack; that demotes
 *     nobody.
 *  5. A kernel thread that works for others goes before everybody for kthread_first_ns each time it gets the CPU. Then a due release goes first:
 *     one of them ran for 2 ms in one go, and made releases so late. It goes on when the timer has run, or after coop_slack_ns.
 */
#ifndef LIMELIGHT_COOP_H
#define LIMELIGHT_COOP_H

/* Cooperative threads. */
struct user_counts coop_users SEC(".maps");

/* The id that @p has for itself. */
static u32 own_tid(struct task_struct *p)
{
	struct pid *pid = BPF_CORE_READ(p, thread_pid);
	u32 level = BPF_CORE_READ(pid, level), tid = 0;

	bpf_probe_read_kernel(&tid, sizeof(tid), &pid->numbers[level & 31].nr);
	return tid;
}

/* Take @tctx, cooperative, out of the queue that its release is in, and out of its group's. */
static void withdraw_coop(struct task_ctx *tctx)
{
	if (tctx->coop.queue < NR_RELEASE_QUEUES)
		change_queue(tctx->coop.queue_cpu, tctx->coop.queue, tctx->coop.item, COOP_ABI_NEVER);
	tctx->coop.queue = NR_RELEASE_QUEUES;
	if (tctx->coop.waits_in_group)
		change_group_queue(tctx->coop.group, tctx->coop.item, COOP_ABI_NEVER);
	tctx->coop.waits_in_group = 0;
}

/* The CPU that a new cooperative thread stays on: of those it may use, the one with the fewest of them; where it is, of equals. */
static s32 choose_home(const struct task_struct *p, s32 cpu)
{
	u32 least = bpf_cpumask_test_cpu(cpu, p->cpus_ptr) ? cpu_ctx_of(cpu)->coop_homes : -1U, i;
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	s32 home = cpu;

	bpf_for(i, 0, nr_cpus) {
		if (cpu_ctx_of(i)->coop_homes >= least || !bpf_cpumask_test_cpu(i, p->cpus_ptr) || !bpf_cpumask_test_cpu(i, online))
			continue;
		least = cpu_ctx_of(i)->coop_homes;
		home = i;
	}
	scx_bpf_put_cpumask(online);
	return home;
}

static void set_home(struct task_ctx *tctx, s32 home)
{
	__sync_fetch_and_add(&cpu_ctx_of(home)->coop_homes, 1);
	tctx->coop.home = home;
	enter_play(tctx);
}

static void leave_home(struct task_ctx *tctx)
{
	leave_play(tctx);
	__sync_fetch_and_sub(&cpu_ctx_of(tctx->coop.home)->coop_homes, 1);
}

/* @p's CPU is @home from now on, and so its group is another one from its next call on. */
static void change_home(struct task_ctx *tctx, s32 home)
{
	withdraw_coop(tctx);
	leave_group(tctx);
	leave_home(tctx);
	set_home(tctx, home);
}

/* The CPU of @p, cooperative; another one where that is not allowed to it any more, or where it must not migrate now. */
static s32 home_of(const struct task_struct *p, struct task_ctx *tctx)
{
	s32 cpu = scx_bpf_task_cpu(p);

	if (is_migration_disabled(p) && tctx->coop.home != cpu)
		change_home(tctx, cpu);
	else if (!bpf_cpumask_test_cpu(tctx->coop.home, p->cpus_ptr))
		change_home(tctx, choose_home(p, cpu));
	return tctx->coop.home;
}

/* Is @p cooperative, and not on the CPU where it is to stay? */
static bool is_away(const struct task_struct *p, struct task_ctx *tctx)
{
	return tctx->coop.cell && home_of(p, tctx) != scx_bpf_task_cpu(p);
}

/* @p, cooperative, waits for @cpu from now on. */
static void submit_coop(const struct task_struct *p, struct task_ctx *tctx, s32 cpu)
{
	u32 number;

	enter_play(tctx);
	withdraw_coop(tctx);
	/* A guest that calls no more would stay; and its class or weight may be another one. */
	if (tctx->coop.is_guest || (tctx->coop.group && tctx->coop.kind != kind_of(p, tctx))) {
		number = number_of_page(p, tctx);
		if (tctx->coop.kind != kind_of(p, tctx) || is_consent_old(tctx, number))
			change_group(p, tctx, number, tctx->coop.gid);
	}
	submit_release(tctx, cpu, RELEASE_WAITS);
	if (tctx->coop.group && tctx->coop.user_vtime != COOP_ABI_NEVER && !is_out_of_touch(tctx) && is_place_for_others(tctx, cpu))
		tctx->coop.waits_in_group = change_group_queue(tctx->coop.group, tctx->coop.item, tctx->coop.user_vtime);
	if (nr_cpus > 1 && tctx->coop.waits_in_group)
		even_out(tctx->coop.group, scx_bpf_now());
}

/* @p is cooperative no longer. */
static void leave_coop(struct task_ctx *tctx)
{
	if (!tctx->coop.cell)
		return;
	withdraw_coop(tctx);
	leave_group(tctx);
	release_pids[tctx->coop.item & (LL_HEAP_ITEMS - 1)] = 0;
	dismiss_user(&coop_users, tctx->coop.uid);
	leave_home(tctx);
	tctx->coop.cell = 0;
	tctx->coop.rate_pm = 0;
}

/* The cell of page @number whose thread calls itself @tid; 0 where there is none. */
static u32 find_cell(u32 number, u32 tid)
{
	void *page = page_at(number);
	struct coop_slot *slot;
	u32 cell;

	if (!page)
		return 0;
	bpf_for(cell, 1, COOP_PAGE_CELLS) {
		slot = bpf_map_lookup_elem(page, &cell);
		if (slot && slot->request.tid == tid)
			return cell;
	}
	return 0;
}

/*
 * Probation. Whoever runs on after its slice for longer than coop_slack_ns is forgiven that at its next call, as the paper has it; and could do it
 * again and again, and each time others' releases would be late by the slack. So it has but a part of that before others' releases in one go, until
 * it has yielded in time: once after the first offence, which may be chance, and eight times as often after each further one. Who takes longer than
 * the part is preempted, and goes on when those that are due have run; demoted it is where all of its stretches since its call come to the slack, as
 * anybody. So an honest program whose events take 0.5 ms, and one in a hundred too long, keeps its own releases. Offences are forgotten one by one.
 *
 * What it is bad at: somebody who knows of it, and yields in time for as often as is asked, in between.
 */
enum { PROBATION_PART = 10, PROBATION_GROWS_BITS = 3, PROBATION_MAX_OFFENCES = 3, CALLS_TO_FORGET = 1024 };

/* @tctx has run for @ran_ns after the slice that it was told, and has not called since. */
static void run_beyond(struct task_ctx *tctx, u64 ran_ns)
{
	struct coop_ctx *coop = &tctx->coop;
	bool has_offended = coop->beyond_ns >= coop_slack_ns;

	coop->beyond_ns += ran_ns;
	if (has_offended || coop->beyond_ns < coop_slack_ns)
		return;
	coop->in_time = 0;
	coop->probation = 1U << PROBATION_GROWS_BITS * coop->offences;
	if (coop->offences < PROBATION_MAX_OFFENCES - 1)
		coop->offences++;
}

/*
 * Virtual time of a thread that weighs even less passes faster, but counts as this where it is asked how far ahead it is. So the product of the
 * two limits fits into 64 bits.
 */
enum { RATE_MAX_PM = 1000000 };
#define LEAD_MAX_NS (1ULL << 43)

/*
 * The virtual time of @tctx, cooperative, passes at @rate_pm from now on, by its weight and its cgroup's. By how much CPU it is ahead of its class
 * stays what it is: or it would get ahead as a heavy one, and be judged as a light one, or the other way round.
 */
static void change_rate(struct task_ctx *tctx, u64 rate_pm)
{
	u64 lead = tctx->vtime - class_vtime[class_index(tctx->class)];

	rate_pm = rate_pm < 1000 ? 1000 : rate_pm < RATE_MAX_PM ? rate_pm : RATE_MAX_PM;
	/* Of one that is behind the lead, which has no sign, is greater than any. */
	if (tctx->coop.rate_pm && lead < LEAD_MAX_NS)
		tctx->vtime += lead * rate_pm / tctx->coop.rate_pm - lead;
	tctx->coop.rate_pm = rate_pm;
}

/* @tctx, cooperative, has run for @ran_ns. */
static void run_since_call(struct task_ctx *tctx, u64 ran_ns)
{
	tctx->coop.ran_ns += ran_ns;
	if (tctx->coop.standing & COOP_DEMOTED_OVERRAN)
		run_beyond(tctx, ran_ns);
}

/* @p has run on @cctx for @ran_ns: its virtual time passes. */
static __always_inline void pass_vtime(const struct task_struct *p, struct task_ctx *tctx, const struct cpu_ctx *cctx, u64 ran_ns, u64 now)
{
	u64 vtime = vtime_for(p, tctx, ran_ns, now);

	if (tctx->coop.cell) {
		vtime = evened_vtime(tctx, vtime, now);
		if (ran_ns)
			change_rate(tctx, vtime * 1000 / ran_ns);
		run_since_call(tctx, ran_ns);
		if (cctx->runs_due)
			use_part(tctx->coop.uid, ran_ns, cctx->coop_now_ns);
	}
	tctx->vtime += vtime;
}

/* @tctx calls: in time, if it was not preempted so long ago that it was an offence. */
static void end_beyond(struct task_ctx *tctx)
{
	struct coop_ctx *coop = &tctx->coop;
	bool has_offended = coop->beyond_ns >= coop_slack_ns;

	coop->beyond_ns = 0;
	if (has_offended || !coop->offences)
		return;
	if (coop->probation) {
		coop->probation--;
	} else if (++coop->in_time >= CALLS_TO_FORGET) {
		coop->in_time = 0;
		coop->offences--;
	}
}

/* How long @tctx has to yield by itself after @end, the end of its slice, where the next release of others is @next. */
static u64 slack_of(const struct task_ctx *tctx, u64 end, u64 next)
{
	u64 slack = coop_slack_ns / PROBATION_PART, left = coop_slack_ns - tctx->coop.beyond_ns;

	if (!tctx->coop.probation)
		return coop_slack_ns;
	if (next > end)
		slack += next - end;
	return slack < left ? slack : left;
}

/*
 * @p, which yields, becomes cooperative if its process has a page, and it a slot there. To find that takes a look at each slot, with the run queue
 * locked: for who has none, and yields again and again, once in LOOK_AGAIN_NS.
 */
static bool join_coop(struct task_struct *p, struct task_ctx *tctx)
{
	u32 number = is_kthread(p) ? COOP_MAX_PAGES : find_number(p), tid, cell, item, uid;
	u64 first, now;

	if (number >= COOP_MAX_PAGES)
		return false;
	now = scx_bpf_now();
	if (now < tctx->coop.look_again_ns)
		return false;
	tid = own_tid(p);
	cell = find_cell(number, tid);
	uid = BPF_CORE_READ(p, real_cred, uid.val);
	if (!cell || !admit_user(&coop_users, uid, MAX_ITEMS_OF_USER)) {
		tctx->coop.look_again_ns = now + LOOK_AGAIN_NS;
		return false;
	}
	item = take_item(p->pid);
	if (item == LL_HEAP_ITEMS) {
		dismiss_user(&coop_users, uid);
		return false;
	}
	release_uids[item] = uid;
	tctx->coop = (struct coop_ctx){
		.number = number, .cell = cell, .tid = tid, .uid = uid, .item = item, .queue = NR_RELEASE_QUEUES,
		.release_ns = COOP_ABI_NEVER, .user_vtime = COOP_ABI_NEVER, .standing = COOP_HAS_NOT_CALLED,
		/* To leave and to come back is no way out of it. */
		.offences = tctx->coop.offences, .probation = tctx->coop.probation, .in_time = tctx->coop.in_time,
	};
	/* What it has run until now was for no release, whatever was said of who ran here before; nor has anybody looked at the clock, perhaps. */
	cpu_ctx_of(scx_bpf_task_cpu(p))->runs_due = 0;
	cpu_ctx_of(scx_bpf_task_cpu(p))->coop_now_ns = coop_now();
	set_home(tctx, choose_home(p, scx_bpf_task_cpu(p)));
	change_rate(tctx, vtime_for(p, tctx, 1000, now));
	/* As far ahead as it may be: or threads that are always due, and always new, would be before all others for good. */
	first = ahead_from(tctx);
	if (ll_vtime_before(tctx->vtime, first))
		tctx->vtime = first;
	return true;
}

/*
 * What stands in @p's slot, if that is still its own, and it is about to do what it says, @state: then that is its call, which lifts what it was
 * demoted for.
 */
static void take_call(struct task_struct *p, struct task_ctx *tctx, u32 state)
{
	u32 number = number_of_page(p, tctx), gid;
	struct coop_slot *slot = slot_in_page(number, tctx->coop.cell);
	volatile struct coop_request *request;

	/* After an exec it may be another one, by the number that it has for everybody. */
	if (!slot || slot->request.tid != tctx->coop.tid || release_pids[tctx->coop.item & (LL_HEAP_ITEMS - 1)] != p->pid) {
		leave_coop(tctx);
		return;
	}
	request = &slot->request;
	if (request->state != state) {
		if (state == COOP_STATE_SLEEPS) {
			tctx->coop.standing |= COOP_DEMOTED_SLEPT;
			count(LL_STAT_coop_slept);
		} else {
			/* It has had its turn: or it would stay the earliest of all that are due, without a call ever. */
			tctx->coop.release_ns = longer(tctx->coop.release_ns, coop_now());
		}
		return;
	}
	end_beyond(tctx);
	tctx->coop.stood = tctx->coop.standing;
	tctx->coop.standing = COOP_STANDING_GOOD;
	tctx->coop.ran_ns = tctx->charged_at_ns - scx_bpf_now();
	tctx->coop.call = request->call;
	tctx->coop.release_ns = request->release_ns;
	/*
	 * Long past is no more urgent than a moment ago, or it would be due before all that anybody else can ask for. The clock is not read for who asks for
	 * what comes after this CPU's last look at it.
	 */
	if (tctx->coop.release_ns < cpu_ctx_of(scx_bpf_task_cpu(p))->coop_now_ns)
		tctx->coop.release_ns = longer(tctx->coop.release_ns, coop_now() - coop_slack_ns);
	tctx->coop.user_vtime = request->user_virtual_time;
	gid = request->gid;
	if (tctx->coop.gid != gid || (gid && is_consent_old(tctx, number)))
		change_group(p, tctx, number, gid);
}

/* @p yields: most often a call of coop_poll. */
static void yield_coop(struct task_struct *p, struct task_ctx *tctx)
{
	if (!tctx->coop.cell && !join_coop(p, tctx))
		return;
	take_call(p, tctx, COOP_STATE_YIELDS);
	/* It has done what it was told. */
	cpu_ctx_of(scx_bpf_task_cpu(p))->coop_until_ns = 0;
}

/* @p, cooperative, goes to sleep. */
static void sleep_coop(struct task_struct *p, struct task_ctx *tctx)
{
	/* It never comes back. */
	if (is_exiting(p))
		return;
	take_call(p, tctx, COOP_STATE_SLEEPS);
	if (!tctx->coop.cell)
		return;
	submit_release(tctx, tctx->coop.home, RELEASE_SLEEPS);
	if (tctx->coop.queue == NR_RELEASE_QUEUES || tctx->coop.release_ns > coop_now() + FAR_RELEASE_NS)
		leave_play(tctx);
}

/* @tctx, on probation, or whose user has had its part, is preempted on @cctx before its slack is over: all that are due go before it, though its own
 * release may be earlier. */
static void let_due_first(struct task_ctx *tctx, const struct cpu_ctx *cctx)
{
	if (tctx->coop.release_ns < cctx->coop_now_ns)
		tctx->coop.release_ns = cctx->coop_now_ns;
}

/* Two wake-ups in one interrupt are not further apart than this: they take some 2 us each, in the laboratory 8, and 25 on four CPUs there. */
enum { IN_ONE_INTERRUPT_NS = 50000 };

/* And they take no more of one slice than so many times the slack: who has itself interrupted all the time is policed then. */
enum { LOST_SLACKS = 4 };

/*
 * Somebody is woken up on this CPU at @now. Where an interrupt does that, as it does for many whose timers meet, it takes the time of whoever runs,
 * who could not yield in that: 250 of them made a player that was in the middle of an event run on beyond its slack. So between one and the next it
 * has not run.
 */
__weak int note_interrupt(u64 now)
{
	struct cpu_ctx *cctx = this_cpu_ctx();
	u64 gap = now - cctx->interrupt_at_ns;

	if (!cctx->coop_until_ns || bpf_in_task())
		return 0;
	cctx->interrupt_at_ns = now;
	if (gap < IN_ONE_INTERRUPT_NS)
		cctx->coop_lost_ns = earlier(cctx->coop_lost_ns + gap, LOST_SLACKS * coop_slack_ns);
	return 0;
}

/* The task of @tctx stops on @cctx, or its slice there is over: has it run for longer than it was told, and than the slack? */
static void police_slice(struct task_ctx *tctx, struct cpu_ctx *cctx)
{
	u64 now;

	if (!cctx->coop_until_ns)
		return;
	now = coop_now();
	if (now < cctx->coop_until_ns)
		return;
	cctx->coop_until_ns = 0;
	if (!tctx->coop.cell)
		return;
	run_beyond(tctx, now - cctx->coop_told_ns - earlier(now - cctx->coop_told_ns, cctx->coop_lost_ns));
	if (tctx->coop.beyond_ns < coop_slack_ns)
		return let_due_first(tctx, cctx);
	tctx->coop.standing |= COOP_DEMOTED_OVERRAN;
	count(LL_STAT_coop_overran);
}

/* Tell @p, cooperative, which runs now: by when it should yield. */
static void answer(const struct task_struct *p, struct task_ctx *tctx, u64 release_ns, u64 slice_end_ns)
{
	struct coop_slot *slot = slot_of_thread(p, tctx);
	volatile struct coop_answer *told;

	if (!slot)
		return;
	told = &slot->answer;
	told->release_ns = release_ns;
	told->slice_end_ns = slice_end_ns;
	told->user_virtual_time = least_of_group(tctx);
	told->standing = (tctx->coop.standing | tctx->coop.stood) & ~COOP_HAS_NOT_CALLED;
	barrier();
	told->call = tctx->coop.call;
}

/*
 * Has @tctx still to yield, for which it was preempted, or has it slept elsewhere? Told of another slice, it might do so at the end of that only.
 * And who is demoted has no slack, and is preempted in the middle of an event: told of one slice after the other it would not call, nor be believed
 * again, for as long as it has something to do. So it is with who is ahead of its class, too.
 */
static bool owes_call(const struct task_ctx *tctx)
{
	u64 reads = tctx->reads_since_ns & -(u64)tctx->rescued;

	/* Before its class it goes only to come to the end of what it was preempted in (goes_first_as_reader()): by another slice it would get ahead. */
	if (reads | (tctx->coop.standing & (COOP_DEMOTED_OVERRAN | COOP_DEMOTED_SLEPT)))
		return true;
	return (tctx->coop.standing & COOP_DEMOTED_AHEAD) && tctx->coop.ran_ns > 0;
}

/*
 * Who runs on @cpu for its release, of @class, has until @until; where its user has had its part, without slack where the first that waits is
 * another's.
 */
__weak u64 until_others(u32 cpu, u32 class, u64 until)
{
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	u64 first = first_of_queue(cctx, RELEASE_WAITS, class), now = cctx->coop_now_ns;
	u32 item;

	if (first >= until || has_part(cctx->runs_uid, cpu, now))
		return until;
	item = first_item(cpu, release_queue(RELEASE_WAITS, class)) & (LL_HEAP_ITEMS - 1);
	if (release_uids[item] == cctx->runs_uid || !has_part(release_uids[item], cpu, now))
		return until;
	return longer(first, now);
}

/*
 * How long @p, of @tctx, runs on @cctx rather than for @slice_ns: it makes way for the next release. If it is cooperative, it is told when, and
 * has the slack to do so by itself (section 3.2).
 */
static u64 slice_until_release(const struct task_struct *p, struct task_ctx *tctx, struct cpu_ctx *cctx, u64 slice_ns)
{
	bool good = in_good_standing(tctx), saved = rescue_first && tctx->rescued && tctx->class == LL_CLASS_OTHER;
	u64 next = next_release(scx_bpf_task_cpu(p), saved ? LL_CLASS_HUCOUT : tctx->class, good), now = cctx->coop_now_ns, end = now + slice_ns;

	cctx->coop_until_ns = 0;
	cctx->runs_due = 0;
	if (tctx->class == LL_CLASS_KTHREAD)
		return slice_ns;
	if (first_of_classes(cctx, RELEASE_SLEEPS, LL_CLASS_OTHER) <= now)
		forget_overslept(scx_bpf_task_cpu(p), now);
	if (next < end)
		end = next > now ? next : now;
	/* One that has come due since the dispatch is looked at in the next, unless it must wait for a more urgent class. */
	if (!good && end == now)
		end = now + (more_urgent_waits(cctx, tctx->class) ? slice_ns : AT_ONCE_NS);
	if (!tctx->coop.cell)
		return end - now;
	if (good && tctx->coop.release_ns <= now) {
		end = now;
		cctx->runs_due = 1;
		cctx->runs_uid = tctx->coop.uid;
	}
	answer(p, tctx, next, owes_call(tctx) ? now : end);
	if (!good)
		return end - now;
	/* A more urgent class waits for no slack: what this one has is a part of the guaranteed share. That it ends demotes nobody. */
	if (more_urgent_waits(cctx, tctx->class))
		return slice_ns;
	cctx->coop_told_ns = end;
	cctx->coop_lost_ns = 0;
	cctx->coop_until_ns = end + slack_of(tctx, end, next);
	if (cctx->runs_due)
		cctx->coop_until_ns = until_others(scx_bpf_task_cpu(p), tctx->class, cctx->coop_until_ns);
	return cctx->coop_until_ns - now;
}

/* @p has ended: its slot is free. */
static void exit_coop(struct task_struct *p, struct task_ctx *tctx)
{
	struct coop_slot *slot;

	if (!tctx->coop.cell)
		return;
	slot = slot_of_thread(p, tctx);
	if (slot && slot->request.tid == tctx->coop.tid)
		slot->request.tid = 0;
	leave_coop(tctx);
}

/* Runs one on @cctx for a release whose user has had its part, and @tctx's user has not? That one has no slack then; nor does it demote it. */
static bool comes_before_running(const struct cpu_ctx *cctx, const struct task_ctx *tctx, u64 now)
{
	u32 uid = tctx->coop.uid;
	s32 cpu = tctx->coop.home;

	return cctx->runs_due && cctx->runs_uid != uid && !has_part(cctx->runs_uid, cpu, now) && has_part(uid, cpu, now);
}

/* Does what runs on @cctx make way for the release of @tctx? */
static bool makes_way_for_release(struct cpu_ctx *cctx, const struct task_ctx *tctx)
{
	u64 now;

	/* Before the clock is read: where @tctx itself has just run there, nobody runs. */
	if (cctx->class >= LL_NR_CLASSES || cctx->class == LL_CLASS_KTHREAD || cctx->claim)
		return false;
	/* A reservation that can still have its budget in time makes way (deadline.bpf.h, rule 2). */
	if (cctx->runs_rank && (s64)(cctx->runs_latest_ns - scx_bpf_now()) <= 0)
		return false;
	now = coop_now();
	if (!is_due(tctx, now))
		return false;
	if (tctx->class == LL_CLASS_OTHER && rescue_comes_first(cctx))
		return false;
	if (cctx->class < tctx->class)
		return may_use_share(cctx, tctx->class);
	return cctx->class > tctx->class || now >= cctx->coop_until_ns || comes_before_running(cctx, tctx, now);
}

#endif /* LIMELIGHT_COOP_H */
