/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Logins: whoever is to end what makes a machine unusable must not be locked out of it (Redline, sections 2 and 8.1). A login takes more than a
 * reservation gives: it is a chain of processes, most of which only hand something on, and beside a bomb each waited for its next period. So a
 * process of user 0 whose specification says that it is a way to log in, and what it starts, are of class HUCOUT for login_budget_ns of CPU.
 *
 * What makes room in an overload by reservations does so for a login as well: a bomb whose processes are promised something would have R_max of the
 * CPU before it.
 *
 * It is nothing that a user could use against others for long. Who is not root any more when it executes something, as a user's shell, is no login
 * from then on, and no child of a user's is one; sshd's process for a user's session, which executes nothing, stays one. A chain has one budget: a
 * child begins with what its parent has left, and what it has used is taken from that when it ends. So those that connect again and again have
 * together what a server gets back in the meantime.
 *
 * Not locked: of what two children take from their parent at the same moment one may be lost.
 */
#ifndef LIMELIGHT_LOGIN_H
#define LIMELIGHT_LOGIN_H

enum {
	LOGIN_REFILL = 10,		/* its budget comes back in so many times the time */
	LOGIN_LEAST_NS = 10000000,	/* and not in pieces of less than this */
};

/* The deadlines of reservations that come after all others are later by this, an hour: a period is 10 s at most. */
#define AFTER_OTHERS_NS (1ULL << 42)

/* Does a login with some of its budget left run or wait, on any CPU? */
static bool is_login_there(u64 now)
{
	return login_seen_at_ns && (s64)(now - login_seen_at_ns) < LOGIN_SEEN_NS;
}

/*
 * The same, while reservations that make room come after it, and after the HuC classes (deadline.bpf.h). Such times are bounded, too, for all logins
 * together: whoever connects again and again has login_first_ns, and a tenth of the time. Not static: so the verifier looks at it once.
 */
__weak bool is_login_about(u64 now)
{
	return is_login_there(now) && login_first_ran_ns < login_first_ns;
}

/*
 * What reservations take counts as: use by the HuC classes, of which class OTHER earns its share; LL_NR_CLASSES: nothing. With nobody at the desk and
 * no login it has all that they leave, and would have that before whoever is lent a class for a lock that a reserved task waits for.
 */
static u32 earns_as(u64 now)
{
	return tracking || is_login_there(now) ? LL_CLASS_HUCIN : LL_NR_CLASSES;
}

/* Who comes after the others has a rank from this on. */
static u64 ranks_after_others(u64 now)
{
	return now + AFTER_OTHERS_NS / 2;
}

/* Does one of @rank come after the HuC classes, where one of those wants the CPU? COOP_ABI_NEVER: nobody does. */
static bool comes_after_huc(u64 rank, u64 now)
{
	return rank >= ranks_after_others(now) && is_login_about(now);
}

/* Do such reservations wait on @cpu, where one of @class runs or has just run? The same. */
__weak bool huc_goes_first(s32 cpu, u32 class, u64 now)
{
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);

	if (!is_login_about(now))
		return false;
	return is_huc_class(class) || (more_urgent_waits(cctx, LL_CLASS_OTHER) && now >= cctx->no_huc_until_ns);
}

static bool is_roots(struct task_struct *p)
{
	return !BPF_CORE_READ(p, cred, uid.val);
}

/* @tctx is a login, with @left_ns of CPU left. */
static void become_login(struct task_ctx *tctx, u64 left_ns)
{
	tctx->login.is_one = 1;
	tctx->login.left_ns = tctx->login.began_with_ns = left_ns;
	tctx->login.refilled_at_ns = scx_bpf_now();
	tctx->rating_epoch = 0;
}

static void stop_login(struct task_ctx *tctx)
{
	tctx->login.is_one = 0;
	tctx->login.left_ns = 0;
	tctx->rating_epoch = 0;
}

/* @p executes something; @is_way: that is a way to log in. */
static void execute_login(struct task_struct *p, struct task_ctx *tctx, bool is_way)
{
	bool stays = is_roots(p);

	if (tctx->login.is_one && !stays)
		stop_login(tctx);
	else if (!tctx->login.is_one && is_way && stays)
		become_login(tctx, login_budget_ns);
}

/* @parent forks @p, of @tctx. */
static void fork_login(struct task_struct *p, struct task_ctx *tctx, const struct task_ctx *of_parent)
{
	if (of_parent->login.is_one && is_roots(p))
		become_login(tctx, of_parent->login.left_ns);
}

/* @p, of @tctx, ends. */
static void end_login(struct task_struct *p, struct task_ctx *tctx)
{
	s64 used_ns = tctx->login.began_with_ns - tctx->login.left_ns;
	struct task_struct *parent;
	struct task_ctx *of_parent;

	if (!tctx->login.is_one || used_ns <= 0)
		return;
	parent = bpf_task_from_pid(p->real_parent->tgid);
	if (!parent)
		return;
	of_parent = task_ctx_of(parent);
	if (of_parent && of_parent->login.is_one)
		spend_login(of_parent, used_ns);
	bpf_task_release(parent);
}

/* A login wakes up: it has some of its budget again. */
static void refill_login(struct task_ctx *tctx)
{
	u64 now = scx_bpf_now(), due_ns = (now - tctx->login.refilled_at_ns) / LOGIN_REFILL, room_ns = login_budget_ns - tctx->login.left_ns;

	if ((s64)due_ns < LOGIN_LEAST_NS)
		return;
	tctx->login.refilled_at_ns = now;
	if (!tctx->login.left_ns)
		tctx->rating_epoch = 0;
	tctx->login.left_ns += due_ns < room_ns ? due_ns : room_ns;
}

#endif /* LIMELIGHT_LOGIN_H */
