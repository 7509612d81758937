/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Locks of the kernel: a HuC task that sleeps for one lends its class to whoever holds it, a real-time one class HUCIN.
 *
 * Whom the person needs may wait for somebody nobody needs: khugepaged held the X server's mmap_lock, with one slice in 0.7 s beside
 * ten busy processes, and a key was on the screen four seconds late. The kernel inherits no priority through a mutex or a
 * read-write semaphore, but both name their holder (of readers, the last one; it may not be the one that is waited for).
 * The same for who is of SCHED_FIFO, SCHED_RR or SCHED_DEADLINE: khugepaged, which held its mmap_lock, kept a SCHED_FIFO program of the laboratory
 * waiting for 2.8 s; a sound server's thread would be no better off.
 *
 * A task of class OTHER has a kernel thread go before that class: what it waits for is no other program's. (khugepaged held the mmap_lock of a
 * streaming server for 3.5 s beside a make, and its eight players had no frames; and of any program beside forty others for 0.7 s.) No more than
 * that: releases go before it, which as one of HUCOUT it kept waiting for 5 ms. The lock of a folio has no holder's name: nobody lends for it, but
 * see renew_even().
 *
 * What is written here to another task's context may be lost to what its own CPU writes there at that moment, and of several
 * HuC waiters only the last is remembered: then a holder goes on in its own class, as without all this, until the next wake-up or
 * until it is rescued.
 */
#ifndef LIMELIGHT_LOCKS_H
#define LIMELIGHT_LOCKS_H

/* Kinds of contention (include/trace/events/lock.h): these are whole values, so that who spins is left out. */
enum { LCB_READ = 2, LCB_WRITE = 4, LCB_MUTEX = 32 };

/* Both keep flags in the lowest bits of their holder's address. */
enum { OWNER_FLAGS = 7 };

/* Above all of ours: SCHED_FIFO, SCHED_RR, SCHED_DEADLINE, and who has inherited that through a futex (include/linux/sched/prio.h). */
enum { MAX_RT_PRIO = 100 };

/* Locks that somebody sleeps for who has a class to lend: address -> pid of the one that went to sleep last. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, u64);
	__type(value, u32);
} wanted_locks SEC(".maps");

/* Who holds the lock that @tctx waits for: an address that may be out of date. A kernel with PREEMPT_RT does it all by itself. */
static u64 holder_of_lock(const struct task_ctx *tctx)
{
	struct mutex *mutex = (void *)tctx->blocked_on;
	struct rw_semaphore *rwsem = (void *)tctx->blocked_on;
	u64 owner = 0;

	if (tctx->blocked_on_mutex && bpf_core_field_exists(mutex->owner))
		owner = BPF_CORE_READ(mutex, owner.counter);
	else if (!tctx->blocked_on_mutex && bpf_core_field_exists(rwsem->owner))
		owner = BPF_CORE_READ(rwsem, owner.counter);
	return owner & ~(u64)OWNER_FLAGS;
}

/* Is @p above all of ours? Then we are not told when it sleeps and wakes up. */
static bool is_above(const struct task_struct *p)
{
	return p->prio < MAX_RT_PRIO;
}

/* Has the task of @tctx, which is not above all of ours, a class to lend? */
static bool has_class_to_lend(const struct task_ctx *tctx)
{
	return is_huc_class(tctx->class) || tctx->class == LL_CLASS_OTHER;
}

/* The class that @p, of @tctx, lends to who holds what it waits for, who is one of the first there: most urgent where it is above all of ours. */
static u32 class_to_lend(const struct task_struct *p, const struct task_ctx *tctx)
{
	return is_above(p) ? LL_CLASS_HUCIN : tctx->class;
}

/* Has @p, of @tctx, no budget of its own that pays for what it lends? */
static bool lends_freely(const struct task_struct *p, const struct task_ctx *tctx)
{
	return is_above(p) || !is_huc_class(tctx->class);
}

/*
 * May @of_holder be lent a class for nothing? What holders run so comes back to them in ten times the time: or somebody with one
 * real-time thread, that sleeps, and a lock would be HUCIN with all others for good.
 */
static bool may_be_lent_freely(struct task_ctx *of_holder)
{
	give_back_tenth(&of_holder->lock_ran_ns, &of_holder->lock_lent_ns, scx_bpf_now());
	return of_holder->lock_ran_ns < lock_budget_ns;
}

/* The holder @pid, of @of_holder, has @waiter's class for a lock, until that wakes up. */
static void lend_class(struct task_ctx *of_holder, u32 pid, const struct task_struct *waiter, struct task_ctx *of_waiter)
{
	of_holder->lock_class = class_to_lend(waiter, of_waiter);
	of_holder->lock_waiter = waiter->pid;
	if (!lends_freely(waiter, of_waiter))
		of_holder->lock_ran_ns = 0;
	of_holder->rating_epoch = 0;
	of_waiter->lent_to = pid;
	count(LL_STAT_lent_for_lock);
}

/* May @holder have @waiter's class for a lock? A kernel thread that runs before everybody may: it does not do so for long. */
static bool may_be_lent(const struct task_struct *holder, struct task_ctx *of_holder, const struct task_struct *waiter,
			const struct task_ctx *of_waiter)
{
	u32 own = of_holder->class, class = class_to_lend(waiter, of_waiter);

	if (is_above(holder) || own >= LL_NR_CLASSES || (own != LL_CLASS_KTHREAD && own < class))
		return false;
	/* What it has been lent takes effect at its next turn: not less than that. */
	if (of_holder->lock_class < class)
		return false;
	/* Who is of that class goes before it only where that is OTHER. */
	if (own == class && own != LL_CLASS_OTHER)
		return false;
	if (!lends_freely(waiter, of_waiter))
		return true;
	return (is_above(waiter) || is_kthread(holder)) && may_be_lent_freely(of_holder);
}

/*
 * Does @p, of @tctx, lend to whoever gets its lock next, too? Most lend only to a kernel thread that holds it: where they were remembered as who
 * wants the lock, a HuC task that waits with them would be forgotten.
 */
static bool lends_to_next(const struct task_struct *p, const struct task_ctx *tctx)
{
	return is_above(p) || is_huc_class(tctx->class) || tctx->coop.cell;
}

/* @p goes to sleep for a lock: its holder has its class from now on. If it waits, this CPU takes it at
 * its next dispatch (raise_holder): after who was put straight behind the running task, if somebody was. */
static void lend_to_holder(struct task_struct *p, struct task_ctx *tctx)
{
	bool to_next = lends_to_next(p, tctx);
	u64 address = holder_of_lock(tctx);
	u32 pid = p->pid;
	struct task_struct *holder;
	struct task_ctx *of_holder;

	/* Nor does a cooperative thread of class OTHER take a HuC one's place there. */
	if (to_next)
		bpf_map_update_elem(&wanted_locks, &tctx->blocked_on, &pid, is_above(p) || is_huc_class(tctx->class) ? BPF_ANY : BPF_NOEXIST);
	if (!address || !(to_next || BPF_CORE_READ((struct task_struct *)address, flags) & PF_KTHREAD))
		return;
	holder = bpf_task_from_pid(BPF_CORE_READ((struct task_struct *)address, pid));
	if (!holder)
		return;
	of_holder = task_ctx_of(holder);
	if (of_holder && (u64)holder == address && may_be_lent(holder, of_holder, p, tctx)) {
		lend_class(of_holder, holder->pid, p, tctx);
		this_cpu_ctx()->raise_pid = holder->pid;
	}
	bpf_task_release(holder);
}

/*
 * What @tctx, the waiter @pid, has lent is the holder's no more, and that makes way if it runs. What it ran meanwhile counts as
 * the waiter's own use of its budget: a child that holds what its parent wants gets no more than both would have had.
 */
static void take_back(struct task_ctx *tctx, u32 pid)
{
	struct task_struct *holder = bpf_task_from_pid(tctx->lent_to);
	struct task_ctx *of_holder;
	u32 *running;

	tctx->lent_to = 0;
	if (!holder)
		return;
	of_holder = task_ctx_of(holder);
	if (of_holder && of_holder->lock_waiter == pid) {
		spend_budget(tctx, of_holder->lock_ran_ns);
		of_holder->lock_waiter = 0;
		of_holder->lock_class = LL_NR_CLASSES;
		of_holder->rating_epoch = 0;
		running = &cpu_ctx_of(scx_bpf_task_cpu(holder))->class;
		if (scx_bpf_task_running(holder) && of_holder->class != LL_CLASS_KTHREAD)
			__sync_val_compare_and_swap(running, of_holder->class, LL_CLASS_OTHER);
	}
	bpf_task_release(holder);
}

/* @p is woken to have the lock before @pid, a HuC task: what that has lent is @p's now. */
static void pass_on(struct task_struct *p, struct task_ctx *tctx, u32 pid)
{
	struct task_struct *waiter = bpf_task_from_pid(pid);
	struct task_ctx *of_waiter;

	if (!waiter)
		return;
	of_waiter = task_ctx_of(waiter);
	if (!of_waiter)
		goto out;
	if (of_waiter->blocked_on == tctx->blocked_on && may_be_lent(p, tctx, waiter, of_waiter)) {
		if (of_waiter->lent_to)
			take_back(of_waiter, pid);
		lend_class(tctx, p->pid, waiter, of_waiter);
		refresh_rating(p, tctx);
	}
out:
	bpf_task_release(waiter);
}

/* @p, which slept for a lock, has that now, or is about to. */
static void leave_lock(struct task_struct *p, struct task_ctx *tctx)
{
	u64 lock = tctx->blocked_on;
	u32 *waiter = bpf_map_lookup_elem(&wanted_locks, &lock);

	if (waiter && *waiter != p->pid)
		pass_on(p, tctx, *waiter);
	else if (waiter)
		bpf_map_delete_elem(&wanted_locks, &lock);
	if (tctx->lent_to)
		take_back(tctx, p->pid);
}

SEC("tp_btf/contention_begin")
int BPF_PROG(ll_contention_begin, void *lock, unsigned int flags)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct task_ctx *tctx;

	if (flags != LCB_MUTEX && flags != LCB_READ && flags != LCB_WRITE)
		return 0;
	tctx = task_ctx_of(p);
	if (!tctx)
		return 0;
	tctx->blocked_on = (u64)lock;
	tctx->blocked_on_mutex = flags == LCB_MUTEX;
	if (!is_above(p))
		return 0;
	/* Somebody else was faster, and it begins to wait again. */
	if (tctx->lent_to)
		take_back(tctx, p->pid);
	lend_to_holder(p, tctx);
	return 0;
}

SEC("tp_btf/contention_end")
int BPF_PROG(ll_contention_end, void *lock, int result)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct task_ctx *tctx = task_ctx_of(p);

	if (!tctx || tctx->blocked_on != (u64)lock)
		return 0;
	if (is_above(p) || tctx->lent_to)
		leave_lock(p, tctx);
	tctx->blocked_on = 0;
	return 0;
}

/* The holder to whom a task of this CPU has just lent its class changes queue, if it waits. */
static void raise_holder(struct cpu_ctx *cctx)
{
	struct task_struct *holder = bpf_task_from_pid(cctx->raise_pid);
	struct task_ctx *of_holder;

	cctx->raise_pid = 0;
	if (!holder)
		return;
	of_holder = task_ctx_of(holder);
	if (of_holder && waiting_class(of_holder) < LL_NR_CLASSES)
		requeue_process(queue_of(holder, of_holder, waiting_class(of_holder), queue_cpu(holder, of_holder)), holder->tgid, holder->pid);
	bpf_task_release(holder);
}

/* What was lent for a lock lasts for so much CPU: nobody is HuC for good by holding what others want. */
static void spend_lock_budget(struct task_ctx *tctx, u64 ran_ns)
{
	tctx->lock_ran_ns += ran_ns;
	if (tctx->lock_ran_ns <= lock_budget_ns)
		return;
	tctx->lock_class = LL_NR_CLASSES;
	tctx->rating_epoch = 0;
}

#endif /* LIMELIGHT_LOCKS_H */
