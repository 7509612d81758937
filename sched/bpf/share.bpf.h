/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The guaranteed share of the lower classes (HuC, section 5.2: an epoch that spans all classes; design, promise 5).
 *
 * Two accounts: one for the machine, which tasks in shared queues draw on, and one per CPU for tasks that no other CPU can
 * run. Each earns a part of what HuC classes take and pays what class OTHER gets. While the person's programs leave a CPU
 * idle now and then, class OTHER is always paid in advance and never disturbs them; only where they take everything
 * does it get its share, in minimum slices. And not only while somebody is at the desk: a login is of class HUCOUT, and a hub is HUCIN
 * always.
 *
 * Under --policy huc, where HuC has no share (section 5.1), it is 1 % (STRICT_SHARE_PM in sched/src/config.rs).
 *
 * share_pm earns a little more than what is promised (6 % for 5 %), because up to share_cap_ns may be owed at the end of any second.
 *
 * What limelight itself takes, in class OTHER too, is not for others: with four CPUs it was a fifth of the share. A part of it is paid all the
 * same, so that a daemon that does not stop takes no more than OWN_PAYS times the share from the person.
 */
#ifndef LIMELIGHT_SHARE_H
#define LIMELIGHT_SHARE_H

enum {
	SHARE_FLUSH_NS = 100000,
	SHARE_OVERDUE_PM = 500,
	OWN_PAYS = 4,
};

/* share_pm, or SHARE_OVERDUE_PM while a task is overdue. Writer: the timer that looks for tasks that have waited too long. */
u32 share_now_pm;

static void flush_share(struct cpu_ctx *cctx)
{
	s64 cap = share_cap_ns * nr_online, credit, pending = cctx->share_pending_ns;

	if (pending < SHARE_FLUSH_NS && pending > -SHARE_FLUSH_NS)
		return;
	cctx->share_pending_ns = 0;
	/* Not atomic as a whole: of two CPUs that flush at once one change may be lost, of a slice at most. */
	credit = share_credit_ns + pending;
	if (credit > cap)
		credit = cap;
	if (credit < -cap)
		credit = -cap;
	/* With nobody at the desk it stays at its end, and all CPUs read it. */
	if (share_credit_ns != credit)
		share_credit_ns = credit;
}

static void account_share(struct cpu_ctx *cctx, u32 class, u64 ran_ns, bool is_own)
{
	if (is_huc_class(class)) {
		cctx->share_credit_ns = ll_share_earn(cctx->share_credit_ns, ran_ns, share_now_pm, share_cap_ns);
		cctx->share_pending_ns += ran_ns * share_now_pm / 1000;
	} else if (class == LL_CLASS_OTHER) {
		if (is_own)
			ran_ns /= OWN_PAYS;
		cctx->share_credit_ns = ll_share_pay(cctx->share_credit_ns, ran_ns, share_cap_ns);
		cctx->share_pending_ns -= ran_ns;
	}
	flush_share(cctx);
}

/* May class OTHER take one minimum slice of this CPU although a HuC task wants it? */
static bool share_is_due(struct cpu_ctx *cctx)
{
	if (share_credit_ns >= (s64)slice_min_ns)
		return true;
	/* Who waits too long may be one that only a few CPUs can run, this among them. */
	return cctx->share_credit_ns >= (s64)slice_min_ns && (own_waiting(cctx, LL_CLASS_OTHER) | waiting[RESCUED]);
}

#endif /* LIMELIGHT_SHARE_H */
