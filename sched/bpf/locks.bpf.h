/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Locks of the kernel: a HuC task that sleeps for one lends its class to whoever holds it.
 *
 * Whom the person needs may wait for somebody nobody needs: khugepaged held the X server's mmap_lock, with one slice in 0.7 s beside
 * ten busy processes, and a key was on the screen four seconds late. The kernel inherits no priority through a mutex or a
 * read-write semaphore, but both name their holder (of readers, the last one; it may not be the one that is waited for).
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

/* Locks that a HuC task sleeps for: address -> pid of the one that went to sleep last. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, u64);
	__type(value, u32);
} wanted_locks SEC(".maps");

SEC("tp_btf/contention_begin")
int BPF_PROG(ll_contention_begin, void *lock, unsigned int flags)
{
	struct task_ctx *tctx;

	if (flags != LCB_MUTEX && flags != LCB_READ && flags != LCB_WRITE)
		return 0;
	tctx = task_ctx_of(bpf_get_current_task_btf());
	if (!tctx)
		return 0;
	tctx->blocked_on = (u64)lock;
	tctx->blocked_on_mutex = flags == LCB_MUTEX;
	return 0;
}

SEC("tp_btf/contention_end")
int BPF_PROG(ll_contention_end, void *lock, int result)
{
	struct task_ctx *tctx = task_ctx_of(bpf_get_current_task_btf());

	if (tctx && tctx->blocked_on == (u64)lock)
		tctx->blocked_on = 0;
	return 0;
}

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

/* @holder has the class of @waiter for a lock, until that wakes up. */
static void lend_class(struct task_ctx *of_holder, u32 holder, struct task_ctx *of_waiter, u32 waiter)
{
	of_holder->lock_class = of_waiter->class;
	of_holder->lock_waiter = waiter;
	of_holder->lock_ran_ns = 0;
	of_holder->rating_epoch = 0;
	of_waiter->lent_to = holder;
	count(LL_STAT_lent_for_lock);
}

/* @p goes to sleep for a lock: its holder is of @p's class from now on. If it waits, this CPU takes it at
 * its next dispatch (raise_holder): after who was put straight behind the running task, if somebody was. */
static void lend_to_holder(struct task_struct *p, struct task_ctx *tctx)
{
	u64 address = holder_of_lock(tctx);
	struct task_struct *holder;
	struct task_ctx *of_holder;
	u32 pid = p->pid;

	bpf_map_update_elem(&wanted_locks, &tctx->blocked_on, &pid, BPF_ANY);
	if (!address)
		return;
	holder = bpf_task_from_pid(BPF_CORE_READ((struct task_struct *)address, pid));
	if (!holder)
		return;
	of_holder = task_ctx_of(holder);
	if (of_holder && (u64)holder == address && of_holder->class > tctx->class && of_holder->class < LL_NR_CLASSES) {
		lend_class(of_holder, holder->pid, tctx, pid);
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
		if (scx_bpf_task_running(holder))
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
	if (of_waiter && of_waiter->blocked_on == tctx->blocked_on && tctx->class > of_waiter->class && tctx->class < LL_NR_CLASSES) {
		if (of_waiter->lent_to)
			take_back(of_waiter, pid);
		lend_class(tctx, p->pid, of_waiter, pid);
		refresh_rating(p, tctx);
	}
	bpf_task_release(waiter);
}

/* @p wakes up, which slept for a lock: it has that now, or is about to. */
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
		requeue_process(queue_of(holder, waiting_class(of_holder), scx_bpf_task_cpu(holder)), holder->tgid, holder->pid);
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
