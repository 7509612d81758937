/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Admission (Redline, OSDI 2008, section 6.1): on which CPU a reservation is kept, and whether there is room for it. What load that is and who loses
 * one for it: load.bpf.h.
 */
#ifndef LIMELIGHT_ADMIT_H
#define LIMELIGHT_ADMIT_H

/* Admission is one at a time: of two that look at a CPU's load at once, both would find the same room. Whatever changes a load holds this, too. */
struct admission {
	struct bpf_spin_lock lock;
	u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct admission);
} admissions SEC(".maps");

/* Seconds that load.bpf.h has counted. */
u64 load_seconds;

/* How one is looked at that asks: see has_room(). */
enum { BESIDE_HUC = 1, BY_SUM = 2 };

/* The task of @tctx has run for @ran_ns on @cctx: is that the person's, and of no reservation? A login's is not, nor what limelight itself takes. */
static __always_inline void count_huc(struct cpu_ctx *cctx, const struct task_ctx *tctx, u64 ran_ns)
{
	if (!cctx->runs_rank && is_huc_class(tctx->class) && !tctx->login.left_ns && !(tctx->rating_flags & (LL_RATING_SELF | LL_RATING_HELPER)))
		cctx->huc_ns += ran_ns;
}

/*
 * Does @p, of @tctx, serve the person, by what is known now? Its class may be one that was lent for a lock, of before it was a login or was one no
 * more, or of when it went to sleep.
 */
static bool serves_person(const struct task_struct *p, const struct task_ctx *tctx)
{
	u32 tgid = p->tgid;
	struct ll_rating *rating = bpf_map_lookup_elem(&ratings, &tgid);

	/* What it is of by that is one of the two HuC classes (class_of_rating()). */
	return tctx->login.left_ns || (rating && !(rating->flags & LL_RATING_SELF) && (rating->in_milli | rating->out_milli));
}

/* What of the second that is under way on @cctx is @ran_ns. Without the lock of admissions another CPU may end it in between: it is none then. */
static __always_inline u32 running_ppm(const struct cpu_ctx *cctx, s64 ran_ns, u64 now)
{
	return ll_running_ppm(ran_ns > 0 ? ran_ns : 0, now - cctx->load_at_ns);
}

/* What reservations have taken of that second. */
static __always_inline u32 reserved_running_ppm(const struct cpu_ctx *cctx, u64 now)
{
	return running_ppm(cctx, cctx->reserved_ns - cctx->reserved_until_ns, now);
}

/* What of @cctx is no room for who does not serve the person. */
static __always_inline u32 huc_room(const struct cpu_ctx *cctx, u64 now)
{
	return ll_huc_room(&cctx->huc_load, running_ppm(cctx, cctx->huc_ns - cctx->huc_until_ns, now));
}

/* What of @cpu is taken by whole seconds, and @beside_huc what is no room, too. Not static: so the verifier looks at it once. */
__weak u32 load_for(u32 cpu, u32 beside_huc, u64 now)
{
	const struct cpu_ctx *cctx = cpu_ctx_of(cpu);

	return ll_load_of(&cctx->load) + (beside_huc ? huc_room(cctx, now) : 0);
}

/* The CPU of @p's that has the least load (section 6.3); @beside_huc: with huc_room(). Where it is, of equals. */
static s32 least_loaded(const struct task_struct *p, s32 cpu, bool beside_huc)
{
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	u32 least = -1U, load, i;
	u64 now = scx_bpf_now();
	s32 home = cpu;

	bpf_for(i, 0, nr_cpus) {
		if (!bpf_cpumask_test_cpu(i, p->cpus_ptr) || !bpf_cpumask_test_cpu(i, online))
			continue;
		load = load_for(i, beside_huc, now);
		if (load > least || (load == least && (s32)i != cpu))
			continue;
		least = load;
		home = i;
	}
	scx_bpf_put_cpumask(online);
	return home;
}

/*
 * Is there room on @cctx for @r, by whole seconds and by the one that is under way? What the HuC classes take without reservations is none,
 * BESIDE_HUC: who holds a reservation comes before them, so that would be theirs no more. BY_SUM: nor is what others are promised and do not use.
 */
static __always_inline bool has_room(const struct cpu_ctx *cctx, const struct ll_reservation *r, u32 how, u64 now)
{
	u32 wanted_ppm = r->bandwidth_ppm + (how & BESIDE_HUC ? huc_room(cctx, now) : 0);

	if (how & BY_SUM && r->bandwidth_ppm + cctx->admitted_ppm >= load_high_ppm)
		return false;
	return ll_admits(&cctx->load, wanted_ppm, load_high_ppm) && reserved_running_ppm(cctx, now) + wanted_ppm < load_high_ppm;
}

/* Submit @number, with @home, to admission, if it is in state @from: is it admitted there (section 6.1)? @how: see has_room(). */
__weak int admit_reservation(u32 number, s32 home, u32 from, u32 how)
{
	struct reservation *reservation = reservation_of(number);
	struct cpu_ctx *cctx = cpu_ctx_of(home);
	struct admission *admission;
	struct ll_reservation *r;
	u64 now = scx_bpf_now();
	u32 zero = 0;
	int admitted = 0;

	admission = bpf_map_lookup_elem(&admissions, &zero);
	if (!reservation || !admission)
		return 0;
	r = &reservation->r;
	bpf_spin_lock(&admission->lock);
	if (r->state == from && has_room(cctx, r, how, now)) {
		cctx->load.expected_ppm += r->bandwidth_ppm;
		cctx->admitted_ppm += r->bandwidth_ppm;
		cctx->reservations++;
		r->home = home;
		r->since_s = load_seconds;
		/* One that moves takes its period along, or it would have another budget wherever it goes. */
		if ((s64)(now - r->deadline_ns) >= 0) {
			r->deadline_ns = 0;
			r->budget_ns = 0;
		}
		r->state = LL_RESERVATION_ADMITTED;
		admitted = 1;
	}
	bpf_spin_unlock(&admission->lock);
	count(admitted ? LL_STAT_reserved_admitted : LL_STAT_reserved_refused);
	return admitted;
}

/* What @r took of its home in the observation window, in us. */
static u32 window_use_us(const struct ll_reservation *r)
{
	return r->window_us[0] + r->window_us[1] + r->window_us[2] + r->window_us[3];
}

/* For end_reservation(). */
enum { LL_RESERVATION_ANY = -1U };

/* @number is @to from now on, and its home expects its load no more. False where it was not in state @from. */
__weak int end_reservation(u32 number, u32 from, u32 to)
{
	struct reservation *reservation = reservation_of(number);
	struct admission *admission;
	struct ll_reservation *r;
	struct cpu_ctx *cctx;
	u32 zero = 0, gone_ppm;
	int ended = 0;

	admission = bpf_map_lookup_elem(&admissions, &zero);
	if (!reservation || !admission)
		return 0;
	r = &reservation->r;
	cctx = cpu_ctx_of(r->home);
	bpf_spin_lock(&admission->lock);
	if (from == LL_RESERVATION_ANY || r->state == from) {
		if (r->state == LL_RESERVATION_ADMITTED) {
			gone_ppm = ll_still_expected(r->bandwidth_ppm, load_seconds - r->since_s, window_use_us(r) / LL_LOAD_SAMPLES);
			cctx->load.expected_ppm -= gone_ppm < cctx->load.expected_ppm ? gone_ppm : cctx->load.expected_ppm;
			ll_load_forget(&cctx->load, r->window_us);
			cctx->admitted_ppm -= r->bandwidth_ppm;
			cctx->reservations--;
		}
		r->retired_ppm = r->state == LL_RESERVATION_ADMITTED ? r->bandwidth_ppm : 0;
		r->since_s = load_seconds;
		r->state = to;
		ended = 1;
	}
	bpf_spin_unlock(&admission->lock);
	return ended;
}

#endif /* LIMELIGHT_ADMIT_H */
