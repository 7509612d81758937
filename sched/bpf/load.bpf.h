/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Load control (Redline, section 6.1): once a second what reservations took of each CPU, and who loses one where that is too much. It is done
 * here and not in the daemon because that may be what gets no CPU then. What can wait, to give one back, is the daemon's; it looks at the
 * process's memory for that.
 *
 * R_load is what ran on budgets. The paper counts all that interactive tasks use; but what one takes of the left-over displaces nobody, for it is
 * in its class then and charged there.
 */
#ifndef LIMELIGHT_LOAD_H
#define LIMELIGHT_LOAD_H

enum {
	LOAD_PERIOD_NS = 1000000000,
	MAX_REVOKED_AT_ONCE = 8,
	SPARED_US = 40000,	/* a hundredth of the window: whose reservation takes no more makes no overload */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LL_MAX_CPUS);
	__type(key, u32);
	__type(value, struct ll_cpu_load);
} loads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct timer_slot);
} load_timer SEC(".maps");

/*
 * Who of @cpu's loses its reservation: of those that used up a budget in the window the one that took most, else of all (section 6.1: it acts
 * least like an interactive task); 0 where all are invulnerable. Those that serve the person come after those that do not, but for who took
 * next to nothing: a film that is watched takes as much as a program that nobody looks at, and the paper cannot tell the two apart.
 */
static u32 victim_of(u32 cpu)
{
	u32 number, victim = 0, use, most = 0, guilt, most_guilt = 0, exhausted;
	struct reservation *reservation;

	bpf_for(number, 1, reservations_end) {
		reservation = reservation_of(number);
		if (!reservation || reservation->r.state != LL_RESERVATION_ADMITTED || reservation->r.home != cpu)
			continue;
		if (!(reservation->r.flags & LL_SPEC_REVOCABLE))
			continue;
		use = window_use_us(&reservation->r);
		exhausted = reservation->r.exhausted & ((1 << LL_LOAD_SAMPLES) - 1);
		guilt = (!reservation->r.serves && use > SPARED_US ? 2 : 0) + !!exhausted;
		if (guilt > most_guilt || (guilt == most_guilt && use >= most)) {
			victim = number;
			most = use;
			most_guilt = guilt;
		}
	}
	return victim;
}

/* What @number, which is about to be taken back, is judged by: for the person who asks why. */
static void note_judgement(u32 number, u32 load_ppm)
{
	struct reservation *reservation = reservation_of(number);

	if (!reservation)
		return;
	reservation->r.judged_load_ppm = load_ppm;
	reservation->r.judged_max_ppm = load_max_ppm;
	reservation->r.judged_use_ppm = window_use_us(&reservation->r) / LL_LOAD_SAMPLES;
}

/* Bring the load of @cpu below R_hi, where it is above R_max. */
static void relieve(u32 cpu, struct cpu_ctx *cctx)
{
	u32 i, victim, load_ppm = cctx->load.recent_ppm;

	if (load_ppm <= load_max_ppm)
		return;
	bpf_for(i, 0, MAX_REVOKED_AT_ONCE) {
		if (cctx->load.recent_ppm < load_high_ppm)
			break;
		victim = victim_of(cpu);
		note_judgement(victim, load_ppm);
		if (!victim || !end_reservation(victim, LL_RESERVATION_ADMITTED, LL_RESERVATION_REVOKED))
			break;
		count(LL_STAT_reserved_revoked);
	}
}

/* Every reservation's use of the second that is over. */
static void end_second(u64 second)
{
	struct reservation *reservation;
	u32 number;

	bpf_for(number, 1, reservations_end) {
		reservation = reservation_of(number);
		if (!reservation || reservation->r.state == LL_RESERVATION_NONE)
			continue;
		reservation->r.window_us[second & (LL_LOAD_SAMPLES - 1)] = reservation->r.second_us;
		reservation->r.second_us = 0;
		reservation->r.exhausted <<= 1;
	}
}

static void publish_load(u32 cpu, const struct cpu_ctx *cctx)
{
	struct ll_cpu_load *load = bpf_map_lookup_elem(&loads, &cpu);

	if (!load)
		return;
	load->recent_ppm = cctx->load.recent_ppm;
	load->expected_ppm = cctx->load.expected_ppm;
	load->admitted_ppm = cctx->admitted_ppm;
	load->huc_ppm = cctx->huc_load.recent_ppm;
	load->reservations = cctx->reservations;
}

/* A second of @cctx's is over. Not between the look of an admission at the load and its sum: what that adds would be lost, or not decay. */
static void end_second_of(struct cpu_ctx *cctx, u64 now)
{
	u32 zero = 0;
	struct admission *admission = bpf_map_lookup_elem(&admissions, &zero);
	u64 ran_ns, huc_ns, elapsed_us;

	if (!admission)
		return;
	bpf_spin_lock(&admission->lock);
	ran_ns = cctx->reserved_ns - cctx->reserved_until_ns;
	elapsed_us = (now - cctx->load_at_ns) / 1000;
	cctx->reserved_until_ns += ran_ns;
	cctx->load_at_ns = now;
	ll_load_second(&cctx->load, ran_ns * 1000 / elapsed_us);
	huc_ns = cctx->huc_ns - cctx->huc_until_ns;
	cctx->huc_until_ns += huc_ns;
	ll_load_second(&cctx->huc_load, huc_ns * 1000 / elapsed_us);
	bpf_spin_unlock(&admission->lock);
}

static int load_second(void *map, u32 *key, struct bpf_timer *timer)
{
	u64 now = now_in_timer(cpu_ctx_of(0)->load_at_ns + LOAD_PERIOD_NS);
	struct cpu_ctx *cctx;
	u32 cpu;

	end_second(load_seconds);
	bpf_for(cpu, 0, nr_cpus) {
		cctx = cpu_ctx_of(cpu);
		end_second_of(cctx, now);
		relieve(cpu, cctx);
		publish_load(cpu, cctx);
	}
	load_seconds++;
	bpf_timer_start(timer, LOAD_PERIOD_NS, 0);
	return 0;
}

static s32 start_load_timer(void)
{
	u32 zero = 0;
	struct timer_slot *slot = bpf_map_lookup_elem(&load_timer, &zero);
	u64 now = scx_bpf_now();
	u32 cpu;
	s32 err;

	if (!slot)
		return -ENOENT;
	bpf_for(cpu, 0, nr_cpus)
		cpu_ctx_of(cpu)->load_at_ns = now;
	err = bpf_timer_init(&slot->timer, &load_timer, CLOCK_MONOTONIC);
	err = err ?: bpf_timer_set_callback(&slot->timer, load_second);
	return err ?: bpf_timer_start(&slot->timer, LOAD_PERIOD_NS, 0);
}

/*
 * Was @p, which runs already, executed by an interactive process, as far as can still be told? It holds a reservation that said so, or its parent of
 * today holds one itself, and is not init.
 */
static bool was_executed_by_interactive(const struct task_struct *p, const struct task_ctx *tctx)
{
	struct reservation *own = reservation_of(tctx->reserve.number);
	struct task_struct *parent;
	struct task_ctx *of_parent;
	bool is;

	if (own && !tctx->reserve.window_ns && own->r.flags & LL_SPEC_INTERACTIVE_PARENT)
		return true;
	/* Whose parent has ended is init's, whoever executed it. */
	if (p->flags & PF_FORKNOEXEC || p->real_parent->tgid == 1)
		return false;
	parent = bpf_task_from_pid(p->real_parent->tgid);
	if (!parent)
		return false;
	of_parent = task_ctx_of(parent);
	is = of_parent && !of_parent->reserve.window_ns && is_interactive(of_parent);
	bpf_task_release(parent);
	return is;
}

/* @p, the first of its process, runs already: as if it had just executed its program. */
static void adopt_first(struct task_struct *p, struct task_ctx *tctx)
{
	struct ll_file file = file_of(BPF_CORE_READ(p, mm, exe_file, f_inode));
	struct ll_spec *any = spec_of(&file, true), *spec = spec_of(&file, was_executed_by_interactive(p, tctx));
	struct reservation *held = reservation_of(tctx->reserve.number);

	if (any && !spec) {
		/* It is about to execute something else. */
		if (tctx->reserve.window_ns)
			return;
		/* By this very entry, which was for everybody before. */
		if (held && held->r.spec == any->id)
			leave_reservation(tctx);
	}
	execute(p, tctx, spec);
}

/*
 * @p's process has come to hold a reservation while @p may wait for a CPU: where that is admitted, it is its turn from now on. Else it would
 * wait for its turn in its class. Who takes it at this moment withdraws it in ll_running(), and what is left of who goes to sleep at this moment is
 * found to be nobody's when it is the first.
 */
static void submit_waiting(const struct task_struct *p, struct task_ctx *tctx)
{
	u64 now = scx_bpf_now();

	const struct cpu_ctx *cctx;

	if (!tctx->reserve.number || waiting_class(tctx) >= LL_NR_CLASSES)
		return;
	wants_cpu(tctx);
	/* It has waited: that is no wake-up. */
	tctx->reserve.woke = 0;
	charge_reservation(tctx->reserve.number, 0, now, 0);
	submit_reserved(p, tctx, now);
	if (!tctx->reserve.queue)
		return;
	cctx = cpu_ctx_of(tctx->reserve.queue_cpu);
	if (tctx->reserve.queue == QUEUE_STARTS || makes_way_for_rank(tctx->reserve.queue_cpu, cctx->first_release[QUEUE_DEADLINES], now))
		scx_bpf_kick_cpu(tctx->reserve.queue_cpu, SCX_KICK_PREEMPT);
	else
		scx_bpf_kick_cpu(tctx->reserve.queue_cpu, SCX_KICK_IDLE);
}

/* The same for all threads of @p's process that hold @number. */
static void submit_all_waiting(struct task_struct *p, u32 number)
{
	struct task_struct *thread;
	struct task_ctx *tctx;

	bpf_for_each(task, thread, p, BPF_TASK_ITER_PROC_THREADS) {
		tctx = task_ctx_of(thread);
		if (tctx && tctx->reserve.number == number)
			submit_waiting(thread, tctx);
	}
}

/* Look at the task @pid, which runs already, as if it had just executed its program. Its threads follow the first of them. */
static int adopt(u32 pid)
{
	struct task_struct *p = bpf_task_from_pid(pid);
	struct task_ctx *tctx, *leader_ctx;
	int err = -ESRCH;

	if (!p)
		return err;
	tctx = task_ctx_of(p);
	bpf_rcu_read_lock();
	if (tctx && p->pid == p->tgid) {
		adopt_first(p, tctx);
		err = 0;
	} else if (tctx) {
		leader_ctx = task_ctx_of(p->group_leader);
		leave_reservation(tctx);
		if (leader_ctx && leader_ctx->reserve.number)
			join_reservation(tctx, leader_ctx->reserve.number, 0);
		err = 0;
	}
	if (tctx)
		submit_waiting(p, tctx);
	bpf_rcu_read_unlock();
	bpf_task_release(p);
	return err;
}

/* Submit @number, which was refused or revoked, to admission where there is the least load, @by_huc with huc_room(); @how: see has_room(). */
static bool admit_again(u32 number, const struct task_struct *p, u32 how, bool by_huc)
{
	s32 home = least_loaded(p, scx_bpf_task_cpu(p), by_huc);

	/* Room under R_hi is not enough: it was revoked, and would be again (section 6.1). */
	if (cpu_ctx_of(home)->load.recent_ppm >= load_low_ppm)
		return false;
	return admit_reservation(number, home, LL_RESERVATION_REVOKED, how) || admit_reservation(number, home, LL_RESERVATION_REFUSED, how);
}

/* Submit @number, of process @tgid, to admission again. */
static int reactivate(u32 number, u32 tgid)
{
	struct reservation *reservation = reservation_of(number);
	struct task_struct *p;
	struct task_ctx *tctx;
	int err = -EBUSY;
	u32 how;

	if (!reservation || reservation->r.tgid != tgid)
		return -EAGAIN;
	p = bpf_task_from_pid(tgid);
	if (!p)
		return -ESRCH;
	bpf_rcu_read_lock();
	tctx = task_ctx_of(p);
	how = tctx && serves_person(p, tctx) ? 0 : BESIDE_HUC;
	/* The CPU that has the most room may be one on which reservations alone take too much. */
	if (admit_again(number, p, how, how) || (how && admit_again(number, p, how, false))) {
		submit_all_waiting(p, number);
		err = 0;
	}
	bpf_rcu_read_unlock();
	bpf_task_release(p);
	return err;
}

/* Have the process @pid, if it is one that user @uid may ask for, hold what @spec says, in place of what it held. */
static int assign(u32 pid, u32 uid, const struct ll_spec *spec)
{
	struct task_struct *p = bpf_task_from_pid(pid);
	struct reservation *held;
	struct task_ctx *tctx;
	int err = -ESRCH;
	u32 held_ppm;

	if (!p)
		return err;
	tctx = task_ctx_of(p);
	if (uid && (BPF_CORE_READ(p, real_cred, uid.val) != uid || BPF_CORE_READ(p, real_cred, euid.val) != uid ||
		    BPF_CORE_READ(p, real_cred, suid.val) != uid)) {
		err = -EPERM;
	} else if (tctx && p->pid == p->tgid) {
		/* Other threads have what was held before until they follow, and those that these make in the meantime never do. */
		held = reservation_of(tctx->reserve.number);
		if (held && held->r.tgid == p->tgid)
			end_reservation(tctx->reserve.number, LL_RESERVATION_ANY, LL_RESERVATION_RETIRED);
		bpf_rcu_read_lock();
		held_ppm = take_period_along(tctx);
		leave_reservation(tctx);
		make_reservation(p, tctx, spec, held_ppm);
		submit_waiting(p, tctx);
		bpf_rcu_read_unlock();
		err = tctx->reserve.number ? 0 : tctx->reserve.has_ended ? -ESRCH : -EBUSY;
	}
	bpf_task_release(p);
	return err;
}

/* Take @number, of process @tgid, back for good. */
static int retire(u32 number, u32 tgid)
{
	struct reservation *reservation = reservation_of(number);
	u32 state;

	if (!reservation || reservation->r.tgid != tgid)
		return -EAGAIN;
	state = reservation->r.state;
	if (state == LL_RESERVATION_NONE || state == LL_RESERVATION_RETIRED)
		return -ENOENT;
	return end_reservation(number, state, LL_RESERVATION_RETIRED) ? 0 : -EAGAIN;
}

SEC("syscall")
int ll_reserve(struct ll_reserve_args *args)
{
	/* The verifier keeps the program's argument apart from other memory. */
	struct ll_spec spec = args->spec;

	switch (args->op) {
	case LL_RESERVE_ADOPT:
		return adopt(args->number);
	case LL_RESERVE_REACTIVATE:
		return reactivate(args->number, args->tgid);
	case LL_RESERVE_RETIRE:
		return retire(args->number, args->tgid);
	case LL_RESERVE_ASSIGN:
		return assign(args->number, args->uid, &spec);
	case LL_RESERVE_SPECS:
		has_specs = args->number;
		return 0;
	}
	return -EINVAL;
}

/* Which file the caller's descriptor @fd stands for. */
SEC("syscall")
int ll_identify(struct ll_identify_args *args)
{
	struct task_struct *caller = bpf_get_current_task_btf();
	struct fdtable *table = BPF_CORE_READ(caller, files, fdt);
	struct file *file = NULL;

	if (args->fd >= BPF_CORE_READ(table, max_fds))
		return -EBADF;
	bpf_probe_read_kernel(&file, sizeof(file), BPF_CORE_READ(table, fd) + args->fd);
	if (!file)
		return -EBADF;
	args->file = file_of(BPF_CORE_READ(file, f_inode));
	return 0;
}

#endif /* LIMELIGHT_LOAD_H */
