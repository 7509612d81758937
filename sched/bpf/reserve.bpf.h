/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reservations (Redline, OSDI 2008, section 3): who has one. Who is admitted: admit.bpf.h; when they are kept: deadline.bpf.h; how much load they
 * make and who loses one for that: load.bpf.h.
 *
 * A reservation is a process's: its threads share its budget, since a specification says what a program needs, whatever it is made of. It is kept
 * on one CPU, its home, where its bandwidth was admitted. Beside that its tasks are in their class as everybody is, on any CPU, and get what is
 * left over there.
 *
 * A child draws on its parent's reservation for as much CPU as it takes to execute something (section 3: 1 ms). The paper gives it one of its own for
 * that while, so that a bomb of 2,000 interactive children overloads the machine until the window is over; here they have the parent's, all together.
 */
#ifndef LIMELIGHT_RESERVE_H
#define LIMELIGHT_RESERVE_H

/* As much CPU as a new process may use before it executes its program (section 3). */
enum { EXEC_WINDOW_NS = 1000000 };

/* The same for flag P. More: xterm's and sshd's children take longer in the laboratory, and a user's sshd-session and sudo fork twice. */
enum { BY_INTERACTIVE_NS = 10000000, BY_INTERACTIVE_GENERATIONS = 2 };

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, LL_MAX_SPECS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct ll_file);
	__type(value, struct ll_spec);
} specs SEC(".maps");

/* Numbers of reservations in use are less than this: what goes through all of them stops there. Writer: whoever takes one; it never falls. */
u32 reservations_end;

/* All numbers below this are taken, most likely. */
u32 reservations_free = 1;

/* Is there any specification? Writer: the daemon, before it looks at who runs already. */
u32 has_specs;

/* Numbers below @end are in use. Two may say so at once: of the tries one succeeds, as each that fails means that it has risen. */
static void raise_end(u32 end)
{
	u32 i, was;

	bpf_for(i, 0, 16) {
		was = *(volatile u32 *)&reservations_end;
		if (was >= end || __sync_val_compare_and_swap(&reservations_end, was, end) == was)
			break;
	}
}

/*
 * A reservation that is nobody's, of those the first, so that who goes through all has few to look at; 0 where all are taken. Not static, nor is the
 * next: so the verifier looks at it once.
 */
__weak u32 take_reservation(void)
{
	struct reservation *reservation;
	u32 i, number, first = reservations_free;

	bpf_for(i, 0, LL_MAX_RESERVATIONS) {
		number = (first + i) & (LL_MAX_RESERVATIONS - 1);
		reservation = reservation_of(number);
		if (!reservation || reservation->r.state != LL_RESERVATION_NONE)
			continue;
		if (__sync_val_compare_and_swap(&reservation->r.state, LL_RESERVATION_NONE, LL_RESERVATION_RETIRED) != LL_RESERVATION_NONE)
			continue;
		raise_end(number + 1);
		reservations_free = number + 1;
		return number;
	}
	return 0;
}

/* @number is nobody's from now on. Whatever its state was: the daemon may be just about to have one that was refused admitted. */
__weak int free_reservation(u32 number)
{
	struct reservation *reservation = reservation_of(number);

	if (!reservation)
		return 0;
	end_reservation(number, LL_RESERVATION_ANY, LL_RESERVATION_RETIRED);
	reservation->r.state = LL_RESERVATION_NONE;
	if (number < reservations_free)
		reservations_free = number;
	return 0;
}

/* Take @tctx out of the queue of deadlines it is in. */
static void withdraw_reserved(struct task_ctx *tctx)
{
	if (tctx->reserve.queue)
		change_queue(tctx->reserve.queue_cpu, tctx->reserve.queue, reserved_item(tctx), COOP_ABI_NEVER);
	tctx->reserve.queue = 0;
}

/* @tctx's task wants no CPU; @sleeps: by intent (Listing 1, line 7). */
static void wants_no_more(struct task_ctx *tctx, bool sleeps)
{
	struct reservation *reservation = reservation_of(tctx->reserve.number);

	if (!tctx->reserve.wants || !reservation)
		return;
	tctx->reserve.wants = 0;
	if (is_item_wanted(tctx))
		return_item(tctx);
	if (__sync_fetch_and_sub(&reservation->r.wanting, 1) == 1 && sleeps)
		reservation->r.slept = 1;
}

static void wants_cpu(struct task_ctx *tctx)
{
	struct reservation *reservation = reservation_of(tctx->reserve.number);

	if (tctx->reserve.wants || !reservation)
		return;
	tctx->reserve.wants = 1;
	tctx->reserve.woke = !__sync_fetch_and_add(&reservation->r.wanting, 1);
}

/* @tctx's task holds no reservation any more. Another CPU, which changes its class, may do the same at this moment: one of the two does it. */
__weak int leave_reservation(struct task_ctx *tctx __arg_nonnull)
{
	struct reservation *reservation;
	u32 number;

	if (!tctx->reserve.number)
		return 0;
	withdraw_reserved(tctx);
	wants_no_more(tctx, false);
	number = __sync_lock_test_and_set(&tctx->reserve.number, 0);
	return_item(tctx);
	tctx->reserve.window_ns = 0;
	reservation = reservation_of(number);
	if (!reservation || __sync_fetch_and_sub(&reservation->r.tasks, 1) != 1)
		return 0;
	/* Whoever was the last ends it; from NONE on it may be somebody else's. */
	free_reservation(number);
	return 0;
}

/* @tctx's task, which is counted among those of @number, holds that. False, and it is not: it has ended, or holds one that another CPU gave it. */
static bool hold_reservation(struct task_ctx *tctx, u32 number)
{
	struct reservation *reservation = reservation_of(number);

	if (!__sync_val_compare_and_swap(&tctx->reserve.number, 0, number)) {
		if (!tctx->reserve.has_ended)
			return true;
		leave_reservation(tctx);
	} else if (reservation && __sync_fetch_and_sub(&reservation->r.tasks, 1) == 1) {
		free_reservation(number);
	}
	return false;
}

/* @tctx's task ends: it is there until its parent has asked for it, and must hold nothing, since nobody would end that. */
static void end_reserving(struct task_ctx *tctx)
{
	__sync_lock_test_and_set(&tctx->reserve.has_ended, 1);
	leave_reservation(tctx);
	return_item(tctx);
}

/*
 * @tctx's process holds something else from now on, or nothing: what is left of its period it takes along. Who holds the old one still, its children
 * that are about to execute something, have nothing of that. Returns the bandwidth that it was admitted with; 0: it was not.
 */
static u32 take_period_along(struct task_ctx *tctx)
{
	struct reservation *reservation = reservation_of(tctx->reserve.number);
	struct ll_reservation *r;

	/* A child's is its parent's. */
	if (!reservation || tctx->reserve.window_ns)
		return 0;
	r = &reservation->r;
	bpf_spin_lock(&reservation->lock);
	tctx->reserve.left = (struct ll_period){ r->start_ns, r->deadline_ns, r->budget_ns };
	if (r->budget_ns > 0)
		r->budget_ns = 0;
	bpf_spin_unlock(&reservation->lock);
	return r->state == LL_RESERVATION_ADMITTED ? r->bandwidth_ppm : r->state == LL_RESERVATION_RETIRED ? r->retired_ppm : 0;
}

/* @tctx's task holds @number, too. */
static void join_reservation(struct task_ctx *tctx, u32 number, u64 window_ns)
{
	struct reservation *reservation = reservation_of(number);

	if (!reservation)
		return;
	__sync_fetch_and_add(&reservation->r.tasks, 1);
	tctx->reserve.window_ns = window_ns;
	hold_reservation(tctx, number);
}

/* For make_reservation(): @p asks for what its parent's reservation is, and not by a specification of its own. */
enum { INHERITS = -1U };

/*
 * @p's process asks for what @spec says, which held @held_ppm until now, or INHERITS. One that is refused keeps the number, by which it may be
 * reactivated, if it does not inherit.
 *
 * What the HuC classes take is no room for it, but for who serves the person, or holds as much already: a line that changes, or a service that
 * executes itself, is nothing new. Who inherits has its parent's rating for a while, and if that counted, a bomb from the person's own terminal
 * would have all of their room. Nor is anything promised twice to who inherits what may not be revoked: a bomb's processes use nothing while it
 * forks, and then all of it, and load control could take none of that back. Ten of 10 ms in 100 left nothing to anybody else, not even to a login of
 * root's.
 */
static void make_reservation(struct task_struct *p, struct task_ctx *tctx, const struct ll_spec *spec, u32 held_ppm)
{
	u32 number = take_reservation();
	struct reservation *reservation = reservation_of(number);
	struct ll_period period;
	bool serves;
	u32 how;

	if (!reservation)
		return;
	serves = held_ppm != INHERITS && serves_person(p, tctx);
	period = ll_take_over(&tctx->reserve.left, spec->runtime_ns, spec->period_ns, scx_bpf_now());
	tctx->reserve.left.deadline_ns = 0;
	reservation->r = (struct ll_reservation){
		.runtime_ns = spec->runtime_ns, .period_ns = spec->period_ns, .flags = spec->flags, .spec = spec->id, .tgid = p->tgid,
		.bandwidth_ppm = ll_bandwidth_ppm(spec->runtime_ns, spec->period_ns), .since_s = load_seconds,
		.start_ns = period.start_ns, .deadline_ns = period.deadline_ns, .budget_ns = period.budget_ns,
		.state = LL_RESERVATION_REFUSED, .tasks = 1, .serves = serves,
	};
	how = !serves && (held_ppm == INHERITS || held_ppm < reservation->r.bandwidth_ppm) ? BESIDE_HUC : 0;
	if (held_ppm == INHERITS && !(spec->flags & LL_SPEC_REVOCABLE))
		how |= BY_SUM;
	if (!admit_reservation(number, least_loaded(p, scx_bpf_task_cpu(p), how & BESIDE_HUC), LL_RESERVATION_REFUSED, how) &&
	    held_ppm == INHERITS) {
		free_reservation(number);
		return;
	}
	hold_reservation(tctx, number);
}

/* The reservation of @p's parent is over for it: it gets one like that if it may be inherited (Figure 3), or is in its class only. */
static void inherit_or_leave(struct task_struct *p, struct task_ctx *tctx)
{
	struct reservation *reservation = reservation_of(tctx->reserve.number);
	struct ll_spec spec = {};

	if (reservation) {
		spec.runtime_ns = reservation->r.runtime_ns;
		spec.period_ns = reservation->r.period_ns;
		spec.flags = reservation->r.flags;
		spec.id = reservation->r.spec;
	}
	take_period_along(tctx);
	leave_reservation(tctx);
	if (spec.flags & LL_SPEC_INHERITABLE && p->pid == p->tgid)
		make_reservation(p, tctx, &spec, INHERITS);
}

/* May @p stay on @cpu? A cooperative thread has a home of its own. */
static bool may_live_on(const struct task_struct *p, const struct task_ctx *tctx, s32 cpu)
{
	return bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && (!tctx->coop.cell || tctx->coop.home == cpu);
}

/*
 * @p may not run where its process's reservation is admitted: submit that to admission where it may. Only for the first thread: others, and children
 * that are about to execute something, may each be pinned elsewhere, and would take it along in turn.
 */
static void follow_affinity(const struct task_struct *p, const struct task_ctx *tctx)
{
	u32 number = tctx->reserve.number;
	struct reservation *reservation = reservation_of(number);
	s32 home;

	if (p->pid != p->tgid || tctx->reserve.window_ns)
		return;
	if (!reservation || reservation->r.state != LL_RESERVATION_ADMITTED || may_live_on(p, tctx, reservation->r.home))
		return;
	home = tctx->coop.cell ? tctx->coop.home : least_loaded(p, scx_bpf_task_cpu(p), false);
	if (end_reservation(number, LL_RESERVATION_ADMITTED, LL_RESERVATION_REFUSED))
		admit_reservation(number, home, LL_RESERVATION_REFUSED, 0);
}

/* Does @tctx's task hold a reservation, of its own or its parent's? One that has ended is none. */
static bool is_interactive(const struct task_ctx *tctx)
{
	struct reservation *reservation = reservation_of(tctx->reserve.number);

	return reservation && reservation->r.state != LL_RESERVATION_RETIRED;
}

/* @tctx is of a new child of @parent's. */
static void count_generation(struct task_ctx *tctx, const struct task_ctx *parent)
{
	if (is_interactive(parent) && !parent->reserve.window_ns)
		tctx->reserve.generation = 1;
	else if (parent->reserve.generation && parent->reserve.generation < BY_INTERACTIVE_GENERATIONS)
		tctx->reserve.generation = parent->reserve.generation + 1;
}

/* @p, new, is a thread of a process that holds a reservation, or a child of one that is admitted. */
static void fork_reservation(struct task_struct *p, struct task_ctx *tctx)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	struct task_ctx *parent_ctx = task_ctx_of(parent);
	struct reservation *reservation;

	if (!parent_ctx || is_kthread(p))
		return;
	fork_login(p, tctx, parent_ctx);
	if (p->tgid != parent->tgid)
		count_generation(tctx, parent_ctx);
	if (!parent_ctx->reserve.number)
		return;
	if (p->tgid == parent->tgid) {
		join_reservation(tctx, parent_ctx->reserve.number, parent_ctx->reserve.window_ns);
		return;
	}
	reservation = reservation_of(parent_ctx->reserve.number);
	if (reservation && reservation->r.state == LL_RESERVATION_ADMITTED)
		join_reservation(tctx, parent_ctx->reserve.number, EXEC_WINDOW_NS);
}

/*
 * Does an interactive process, or a child or grandchild of one, execute something as @p? That has had little CPU itself until then; for how long its
 * parent has been there without executing anything is not asked.
 */
static bool is_by_interactive(const struct task_struct *p, const struct task_ctx *tctx)
{
	return is_interactive(tctx) || (tctx->reserve.generation && p->se.sum_exec_runtime < BY_INTERACTIVE_NS);
}

/*
 * The specification of who executes @file, of an interactive process or not. The paper looks up none for who is executed by anybody else (section 3,
 * Figure 3); here only one with flag P is for the former alone, or whatever is started by a script, env or a launcher would have none.
 */
static struct ll_spec *spec_of(const struct ll_file *file, bool by_interactive)
{
	struct ll_spec *spec = bpf_map_lookup_elem(&specs, file);

	return spec && (by_interactive || !(spec->flags & LL_SPEC_INTERACTIVE_PARENT)) ? spec : NULL;
}

/* @p executes a program of @spec, or was found to; NULL: of none (section 3, Figure 3). */
static void execute(struct task_struct *p, struct task_ctx *tctx, const struct ll_spec *spec)
{
	struct reservation *reservation;
	u32 held_ppm;

	execute_login(p, tctx, spec && (spec->flags & LL_SPEC_LOGIN));
	if (!spec) {
		reservation = reservation_of(tctx->reserve.number);
		if (!reservation)
			return;
		/* A process that executes another program keeps what its children may have, too. */
		if (tctx->reserve.window_ns || !(reservation->r.flags & LL_SPEC_INHERITABLE))
			inherit_or_leave(p, tctx);
		return;
	}
	held_ppm = take_period_along(tctx);
	leave_reservation(tctx);
	if (!(spec->flags & LL_SPEC_BEST_EFFORT))
		make_reservation(p, tctx, spec, held_ppm);
}

/* How the kernel tells @inode from other files. */
static struct ll_file file_of(struct inode *inode)
{
	struct ll_file file = {
		.inode = BPF_CORE_READ(inode, i_ino),
		.device = BPF_CORE_READ(inode, i_sb, s_dev),
		.generation = BPF_CORE_READ(inode, i_generation),
	};

	return file;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(ll_exec, struct task_struct *p, pid_t old_pid, struct linux_binprm *bprm)
{
	struct task_ctx *tctx = task_ctx_of(p);
	struct ll_file file;

	if (!tctx || (!has_specs && !tctx->reserve.number && !tctx->login.is_one))
		return 0;
	/* A thread that was not the first of its process is now, and has that one's pid. */
	if (old_pid != p->pid)
		return_item(tctx);
	file = file_of(BPF_CORE_READ(bprm, file, f_inode));
	charge_until_now(tctx);
	/*
	 * Whose reservation ends here keeps the slice that it had of it until the next tick or so: each execution wakes RCU's thread, which goes
	 * before it, and then whose turn it is is found anew. Who goes to and fro between two programs gains nothing by that, measured.
	 */
	execute(p, tctx, spec_of(&file, is_by_interactive(p, tctx)));
	tctx->reserve.generation = 0;
	return 0;
}

#endif /* LIMELIGHT_RESERVE_H */
