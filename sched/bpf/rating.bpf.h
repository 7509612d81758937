/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Ratings: which class a task is in (HuC, section 5.1), and the two ways in which a process becomes HuC without the daemon:
 * by fork, and by being woken by a HUCIN process (section 4.3, last paragraph).
 *
 * The daemon computes ratings once a second and at once for a client that just received input. Each task keeps a copy,
 * valid while `rating_epoch` has not moved, so the hot path costs one comparison.
 */
#ifndef LIMELIGHT_RATING_H
#define LIMELIGHT_RATING_H

enum { DEFAULT_PRIO = 120 };	/* static_prio of nice 0 */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, LL_MAX_RATED);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, struct ll_rating);
} ratings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, LL_MAX_RATED);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, struct ll_proc_stats);
} proc_stats SEC(".maps");

/* Moves whenever a rating changes. Writers: the daemon after a pass, BPF after giving a rating. */
u32 rating_epoch = 1;

/*
 * Does any process serve the person now? The display server's standing rating does not count: on a desktop that nobody
 * uses, wake-ups need no recording. Writers as for rating_epoch.
 */
u32 tracking;

/* For how long after a hub has woken somebody what that one does is kept although nobody serves the person yet: see edges.bpf.h. */
enum { HUB_WAKE_NS = 50000000 };

/* When the daemon last was HUCIN to read a report. Only its own wake-ups write it. */
u64 report_read_at_ns;

/* Has a task used up what an indirect rating, or the daemon's own, is good for? */
static bool has_spent_budget(const struct task_ctx *tctx, u32 flags)
{
	if (flags & LL_RATING_SELF)
		return tctx->indirect_ran_ns > report_budget_ns;
	return indirect_budget_ns && (flags & LL_RATING_INDIRECT) && tctx->indirect_ran_ns > indirect_budget_ns;
}

static u32 class_of_rating(const struct ll_rating *rating, const struct task_ctx *tctx)
{
	if (rating->flags & LL_RATING_SELF)
		return has_spent_budget(tctx, rating->flags) ? LL_CLASS_OTHER : LL_CLASS_HUCIN;
	if (rating->in_milli)
		return has_spent_budget(tctx, rating->flags) ? LL_CLASS_HUCOUT : LL_CLASS_HUCIN;
	return rating->out_milli ? LL_CLASS_HUCOUT : LL_CLASS_OTHER;
}

/*
 * Moving to another class means another clock: start there as a task that just woke up. Kernel threads that run before everybody have none. They keep
 * their place in class OTHER, as far as they may be ahead there, or one that goes on and on each time it wakes up would be a newcomer each time.
 */
static void enter_class(struct task_ctx *tctx, u32 class)
{
	bool keeps;
	u64 clock;

	if (tctx->login.left_ns && class == LL_CLASS_OTHER)
		class = LL_CLASS_HUCOUT;
	if (tctx->lock_class < class)
		class = tctx->lock_class;
	if (tctx->class == class || class >= LL_NR_CLASSES)
		return;
	keeps = class == LL_CLASS_KTHREAD || (tctx->class == LL_CLASS_KTHREAD && class == LL_CLASS_OTHER);
	clock = class_vtime[class];
	tctx->class = class;
	if (!keeps || ll_vtime_before(tctx->vtime, clock))
		tctx->vtime = clock;
	else if (class == LL_CLASS_OTHER && ll_vtime_before(clock + kthread_ahead_ns, tctx->vtime))
		tctx->vtime = clock + kthread_ahead_ns;
	tctx->pinned_clock = NO_PINNED_CLOCK;
}

/*
 * Has @p a positive nice value? A kernel thread that has is one whose work can wait, and takes its time: khugepaged (19)
 * was traced running for 24 ms in one go.
 */
static bool is_nice(const struct task_struct *p)
{
	return p->static_prio > DEFAULT_PRIO;
}

/* Is @p, a kernel thread, a worker, or one that belongs to its CPU? Behind what those do stands the work of others, who wait for it. */
static bool works_for_others(const struct task_struct *p)
{
	return p->flags & PF_NO_SETAFFINITY;
}

/* Has @p, a kernel thread, to wait for whoever serves the person? */
static bool goes_with_others(const struct task_struct *p, const struct task_ctx *tctx)
{
	return is_nice(p) || (!works_for_others(p) && tctx->indirect_ran_ns >= kthread_first_ns);
}

/* A tenth of the time since @at_ns comes back of what was used, @ran_ns. Another CPU's clock was a little ahead then: that is no time gone by. */
static __always_inline void give_back_tenth(u64 *ran_ns, u64 *at_ns, u64 now)
{
	u64 back_ns = (now - *at_ns) / 10;

	if ((s64)(now - *at_ns) <= 0)
		return;
	*at_ns = now;
	*ran_ns -= back_ns < *ran_ns ? back_ns : *ran_ns;
}

/*
 * Does @p, a nice kernel thread, weigh as one of nice 0 from this wake-up on? For kthread_even_ns, and a tenth of the time comes back: its work can
 * wait, but not whoever wants a lock that it does it with. (khugepaged put the pages of a compiler's program together. It had 5 ms in each 0.7 s
 * beside four players, and sixteen compilers slept for 2 s at a time for what names no holder, a folio's lock: see locks.bpf.h.) Then it is ahead of
 * its class by no more than kthread_ahead_ns: what it had at its own weight, one of nice 19 a hundred times as fast, is for its own weight.
 *
 * What is a cgroup's own kernel thread goes by that: there it is counted as what it weighs. Nor is this for where HuC tasks leave nothing but the
 * guaranteed share: that is for everybody.
 */
static void renew_even(const struct task_struct *p, struct task_ctx *tctx)
{
	u64 first = class_vtime[LL_CLASS_OTHER] + kthread_ahead_ns, weight = p->scx.weight;

	give_back_tenth(&tctx->even_ran_ns, &tctx->even_at_ns, scx_bpf_now());
	tctx->weight_pm = 1000;
	if (!weight || !is_nice(p) || tctx->cgroup_slot || tctx->even_ran_ns >= kthread_even_ns)
		return;
	if (tracking && share_credit_ns >= -2 * (s64)slice_min_ns)
		return;
	tctx->weight_pm = LL_WEIGHT_ONE * 1000 / weight;
	if (tctx->class == LL_CLASS_OTHER && tctx->pinned_clock == NO_PINNED_CLOCK && ll_vtime_before(first, tctx->vtime))
		tctx->vtime = first;
}

/* @p, a kernel thread of class OTHER, has run for @ran_ns. */
static void spend_even(const struct task_struct *p, struct task_ctx *tctx, u64 ran_ns)
{
	tctx->indirect_ran_ns += ran_ns;
	if (tctx->weight_pm == 1000)
		return;
	tctx->even_ran_ns += ran_ns;
	if (tctx->even_ran_ns >= kthread_even_ns || !is_nice(p))
		tctx->weight_pm = 1000;
}

/* @p, a kernel thread, wakes up. */
static void renew_first(const struct task_struct *p, struct task_ctx *tctx)
{
	if (tctx->indirect_ran_ns >= kthread_first_ns && !is_nice(p))
		tctx->rating_epoch = 0;
	tctx->indirect_ran_ns = 0;
	if (is_nice(p))
		renew_even(p, tctx);
}

/* @p, a kernel thread that runs before everybody, has done so for @ran_ns. */
static void spend_first(const struct task_struct *p, struct task_ctx *tctx, u64 ran_ns)
{
	tctx->indirect_ran_ns += ran_ns;
	if (!works_for_others(p) && tctx->indirect_ran_ns >= kthread_first_ns)
		tctx->rating_epoch = 0;
}

static void look_up_rating(struct task_struct *p, struct task_ctx *tctx, u32 epoch)
{
	u32 tgid = p->tgid;
	struct ll_rating *rating;

	/* Before what follows is read: whoever changes that sets the epoch to 0 afterwards, from another CPU too. */
	__sync_lock_test_and_set(&tctx->rating_epoch, epoch);
	if (is_kthread(p)) {
		enter_class(tctx, goes_with_others(p, tctx) ? LL_CLASS_OTHER : LL_CLASS_KTHREAD);
		return;
	}
	rating = bpf_map_lookup_elem(&ratings, &tgid);
	if (!rating) {
		tctx->rating_flags = 0;
		tctx->has_input = 0;
		tctx->weight_pm = 1000;
		enter_class(tctx, LL_CLASS_OTHER);
		return;
	}
	tctx->rating_flags = rating->flags;
	tctx->slice_pm = rating->slice_pm;
	tctx->weight_pm = rating->weight_pm;
	/* New input comes with a new budget: what an editor ran before, only to be looked at, was not for this key. */
	if (!(rating->flags & (LL_RATING_INDIRECT | LL_RATING_SELF)) || (rating->in_milli && !tctx->has_input))
		tctx->indirect_ran_ns = 0;
	tctx->has_input = !!rating->in_milli;
	enter_class(tctx, class_of_rating(rating, tctx));
}

/* Inline, for most often there is nothing to do. */
static __always_inline void refresh_rating(struct task_struct *p, struct task_ctx *tctx)
{
	u32 epoch = rating_epoch;

	if (tctx->rating_epoch != epoch)
		look_up_rating(p, tctx, epoch);
}

/*
 * A login with some of its budget left runs, or waits from now on. How long there was one is counted for all together, and not locked: of what two
 * CPUs count at the same moment one may be lost.
 */
static void note_login(void)
{
	u64 now = scx_bpf_now(), since_ns = now - login_seen_at_ns;

	/* Another CPU's clock may be a little ahead. */
	if ((s64)since_ns <= 0)
		return;
	/* Not beyond the bound: a tenth of the time would be for what is owed, for hours. */
	if (since_ns < LOGIN_SEEN_NS && login_first_ran_ns < login_first_ns)
		login_first_ran_ns += since_ns;
	give_back_tenth(&login_first_ran_ns, &login_first_at_ns, now);
	login_seen_at_ns = now;
}

/* Count what a login, or a child of it, has run; see login.bpf.h. */
static void spend_login(struct task_ctx *tctx, u64 ran_ns)
{
	tctx->login.left_ns = tctx->login.left_ns > ran_ns ? tctx->login.left_ns - ran_ns : 0;
	if (tctx->login.left_ns)
		note_login();
	else
		tctx->rating_epoch = 0;
}

/* Count what @tctx, or a child of it, ran on an indirect rating; once that is spent it looks its class up anew. */
static void spend_budget(struct task_ctx *tctx, u64 ran_ns)
{
	bool had = !has_spent_budget(tctx, tctx->rating_flags);

	if (!(tctx->rating_flags & (LL_RATING_INDIRECT | LL_RATING_SELF)))
		return;
	tctx->indirect_ran_ns += ran_ns;
	if (had && has_spent_budget(tctx, tctx->rating_flags))
		tctx->rating_epoch = 0;
}

/* A HUCIN task that has used @ran_ns of its own budget wakes @tctx: that much is what @tctx has used of it, too. */
static void renew_budget(struct task_ctx *tctx, u64 ran_ns)
{
	if (tctx->indirect_ran_ns <= ran_ns)
		return;
	tctx->indirect_ran_ns = ran_ns;
	tctx->rating_epoch = 0;
}

/*
 * The daemon wakes up: as HUCIN for as long as a report takes if a helper woke it, for a client waits that has just received
 * input and is not rated yet; for its own pass as the first of class OTHER.
 */
static void wake_daemon(struct task_struct *p, struct task_ctx *tctx, bool to_read_report)
{
	u64 now = scx_bpf_now();

	tctx->rating_epoch = 0;
	if (!to_read_report) {
		tctx->indirect_ran_ns = report_budget_ns + 1;
	} else if (now - report_read_at_ns >= report_period_ns) {
		tctx->indirect_ran_ns = 0;
		report_read_at_ns = now;
	}
	refresh_rating(p, tctx);
}

static void publish_ratings(void)
{
	tracking = 1;
	__sync_fetch_and_add(&rating_epoch, 1);
}

/* May @old, the rating that a process has, be replaced by one that it is given? */
static bool may_be_given(const struct ll_rating *old, u32 how)
{
	if (!old)
		return true;
	if ((old->flags & LL_RATING_SELF) || old->in_milli)
		return false;
	/* An editor that somebody looks at is HUCOUT, and its first key makes it HUCIN; a child's rating is its own. */
	return how == LL_RATING_LENT || !old->out_milli;
}

/* Give @to the rating of @from_tgid. The daemon takes the entry over at its next pass. */
static bool give_rating(struct task_struct *to, u32 from_tgid, u32 how)
{
	u32 tgid = to->tgid;
	struct ll_rating *from, *old, given;

	from = bpf_map_lookup_elem(&ratings, &from_tgid);
	if (!from || !(from->in_milli | from->out_milli) || (from->flags & LL_RATING_SELF))
		return false;
	/* What a hub starts is its child all the same: a window manager's menu starts programs. */
	if ((from->flags & LL_RATING_HUB) && how == LL_RATING_LENT)
		return false;
	old = bpf_map_lookup_elem(&ratings, &tgid);
	if (!may_be_given(old, how))
		return false;
	given = *from;
	/* A hub may receive a rating; it stays a hub, so it passes none on. */
	given.flags = how | LL_RATING_INDIRECT | (old ? old->flags & LL_RATING_HUB : 0);
	given.out_milli = old && old->out_milli ? old->out_milli : from->out_milli;
	given.from_tgid = from_tgid;
	given.start_ns = to->group_leader->start_boottime;
	if (bpf_map_update_elem(&ratings, &tgid, &given, BPF_ANY))
		return false;
	publish_ratings();
	return true;
}

/*
 * A HuC process forked @child: it starts with the ratings of its parent (section 4.3), and with what its parent has
 * left of its budget, so that a tree of processes does not renew it with every fork. A hub has no budget: what it starts has all of it.
 *
 * A click on a window manager's menu can be the first that anybody does at the desk: what that starts, right after the display server woke it, is
 * HuC as well. Not what it starts by itself.
 */
static void inherit_rating(struct task_struct *child, struct task_ctx *tctx)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	struct task_ctx *parent_ctx = task_ctx_of(parent);
	bool serves = tracking;

	if (parent_ctx) {
		serves = serves || (parent_ctx->hub_woke_at_ns && scx_bpf_now() - parent_ctx->hub_woke_at_ns < HUB_WAKE_NS);
		tctx->indirect_ran_ns = tctx->inherited_ran_ns = parent_ctx->indirect_ran_ns;
		tctx->has_input = parent_ctx->has_input;
	}
	if (serves && child->pid == child->tgid && give_rating(child, parent->tgid, LL_RATING_INHERITED))
		count(LL_STAT_inherited);
}

/*
 * A child has ended: what it used of the budget is its parent's use. Not locked against the parent's own charge: one of the
 * two may be lost, which renews a few milliseconds.
 */
static void return_budget(struct task_struct *child, struct task_ctx *tctx)
{
	u64 used_ns = tctx->indirect_ran_ns - tctx->inherited_ran_ns;
	struct task_struct *parent;
	struct task_ctx *parent_ctx;

	if (!(tctx->rating_flags & LL_RATING_INDIRECT) || (s64)used_ns <= 0)
		return;
	parent = bpf_task_from_pid(child->real_parent->tgid);
	if (!parent)
		return;
	parent_ctx = task_ctx_of(parent);
	if (parent_ctx)
		spend_budget(parent_ctx, used_ns);
	bpf_task_release(parent);
}

/* The last thread of a process is gone: its number may come back as somebody else. */
static void forget_process(u32 tgid)
{
	bpf_map_delete_elem(&ratings, &tgid);
	bpf_map_delete_elem(&proc_stats, &tgid);
}

/* @p has run for @run_ns; if that began with a wake-up, it had waited before. */
static void record_stint(struct task_struct *p, struct task_ctx *tctx, u64 run_ns)
{
	static const struct ll_proc_stats zero;
	u64 wait_ns = tctx->waited_ns;
	u32 tgid = p->tgid, bucket = ll_log2_bucket(wait_ns, LL_LAT_BUCKETS);
	struct ll_proc_stats *stats = bpf_map_lookup_elem(&proc_stats, &tgid);

	if (!stats) {
		/* Its rating may be gone, and the daemon have removed this on purpose; and a login may have none. */
		if (tctx->rating_epoch != rating_epoch || tctx->login.is_one)
			return;
		bpf_map_update_elem(&proc_stats, &tgid, &zero, BPF_NOEXIST);
		stats = bpf_map_lookup_elem(&proc_stats, &tgid);
		if (!stats)
			return;
	}
	/* Threads of one process may race here: a lost count in a statistic is the worst that can happen. */
	stats->run_ns += run_ns;
	if (!wait_ns)
		return;
	tctx->waited_ns = 0;
	stats->wakeups++;
	if (wait_ns > stats->wait_max_ns)
		stats->wait_max_ns = wait_ns;
	if (bucket < LL_LAT_BUCKETS)
		stats->wait_hist[bucket]++;
}

#endif /* LIMELIGHT_RATING_H */
