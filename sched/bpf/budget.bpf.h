/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The period and the budget of a reservation (Redline, OSDI 2008, section 6.2, Listing 1): what its process's tasks run is charged here. Who holds
 * one: reserve.bpf.h.
 */
#ifndef LIMELIGHT_BUDGET_H
#define LIMELIGHT_BUDGET_H

struct reservation {
	struct bpf_spin_lock lock;	/* of its period and its figures */
	u32 pad;
	struct ll_reservation r;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LL_MAX_RESERVATIONS);
	__type(key, u32);
	__type(value, struct reservation);
} reservations SEC(".maps");

static struct reservation *reservation_of(u32 number)
{
	return number ? bpf_map_lookup_elem(&reservations, &number) : NULL;
}

/* Is @r entitled to its home now? */
static bool is_entitled(const struct ll_reservation *r, u64 now)
{
	return r->state == LL_RESERVATION_ADMITTED && r->budget_ns > 0 && (s64)(now - r->start_ns) >= 0;
}

/* What the period that has ended has been, in @r's figures. */
static void count_period(struct ll_reservation *r, const struct ll_period *was, u32 renewed, u64 now)
{
	if (was->deadline_ns && (r->overdue || renewed == LL_WAS_HONOURED)) {
		r->periods++;
		r->missed += r->overdue;
		/* Before its deadline: it is not an interactive task's way (section 6.1, revocation). */
		if (renewed == LL_WAS_HONOURED && now < was->deadline_ns)
			r->exhausted |= 1;
	}
	r->slept = 0;
	r->overdue = 0;
}

enum { CHARGE_BUDGET = 1, CHARGE_HOME = 2, CHARGE_WOKE = 4 };

/*
 * @number's process has run for @ran_ns, on its budget and on its home if @how says so, or wakes up; a new period for it, where that is due. Not
 * static: so the verifier looks at it once.
 */
__weak int charge_reservation(u32 number, u64 ran_ns, u64 now, u32 how)
{
	struct reservation *reservation = reservation_of(number);
	struct ll_reservation *r;
	struct ll_period period;
	u32 renewed;

	if (!reservation)
		return 0;
	r = &reservation->r;
	bpf_spin_lock(&reservation->lock);
	r->used_ns += ran_ns;
	if (r->state != LL_RESERVATION_ADMITTED)
		goto out;
	if (how & CHARGE_BUDGET)
		r->budget_ns -= ran_ns;
	if (how & CHARGE_HOME) {
		r->reserved_ns += ran_ns;
		r->second_us += ran_ns / 1000;
	}
	period = (struct ll_period){ r->start_ns, r->deadline_ns, r->budget_ns };
	renewed = ll_renew(&period, r->runtime_ns, r->period_ns, now, r->slept, how & CHARGE_WOKE);
	if (renewed) {
		count_period(r, &(struct ll_period){ r->start_ns, r->deadline_ns, r->budget_ns }, renewed, now);
		r->start_ns = period.start_ns;
		r->deadline_ns = period.deadline_ns;
		r->budget_ns = period.budget_ns;
	} else if (now >= r->deadline_ns) {
		r->overdue = 1;
	}
out:
	bpf_spin_unlock(&reservation->lock);
	return 0;
}

/* The task of @tctx has run for @ran_ns on @cctx: what that is of its reservation. */
static void charge_stint(const struct task_ctx *tctx, struct cpu_ctx *cctx, u64 ran_ns, u64 now)
{
	struct reservation *reservation = reservation_of(tctx->reserve.number);
	u32 how = 0;

	if (!reservation)
		return;
	/* A child that is about to execute something says nothing of its parent, nor does a class that was lent for a lock. */
	if (!tctx->reserve.window_ns && tctx->lock_class >= LL_NR_CLASSES)
		reservation->r.serves = is_huc_class(tctx->class);
	if (is_entitled(&reservation->r, now - ran_ns))
		how = cctx->runs_rank ? CHARGE_BUDGET | CHARGE_HOME : CHARGE_BUDGET;
	if (how & CHARGE_HOME)
		__sync_fetch_and_add(&cctx->reserved_ns, ran_ns);
	charge_reservation(tctx->reserve.number, ran_ns, now, how);
}

/*
 * @tctx's task, which runs here, is about to hold something else: what it has run is of what it holds now. Not locked: where its stint ends
 * meanwhile, it is charged for that there, from charged_at_ns on, and not here; of what this CPU counts at that moment one stint may be lost.
 */
static void charge_until_now(struct task_ctx *tctx)
{
	u64 was_ns = tctx->charged_at_ns, since_ns = was_ns, now = scx_bpf_now();

	if (!tctx->reserve.number)
		return;
	if ((s64)(tctx->reserve.charged_at_ns - since_ns) > 0)
		since_ns = tctx->reserve.charged_at_ns;
	tctx->reserve.charged_at_ns = now;
	if (*(volatile u64 *)&tctx->charged_at_ns == was_ns && (s64)(now - since_ns) > 0)
		charge_stint(tctx, cpu_ctx_of(bpf_get_smp_processor_id()), now - since_ns, now);
}

#endif /* LIMELIGHT_BUDGET_H */
