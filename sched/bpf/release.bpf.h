/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Release queues (cooperative polling, section 3.2): the cooperative threads of a CPU by when their next timer is due. One queue holds those that
 * wait for the CPU and one those that sleep, for each class, and a third those that wait behind other users' (part_releases()). A thread is in a
 * release queue beside its class's queue, and no kernel structure holds a task twice: so these are heaps of our own, with a lock of their own, since
 * a thread may leave its CPU while it waits there.
 */
#ifndef LIMELIGHT_RELEASE_H
#define LIMELIGHT_RELEASE_H

/* The release queues of one CPU. */
struct release_queues {
	struct bpf_spin_lock lock;
	u32 pad;
	struct ll_heap heaps[NR_TIMED_QUEUES];
};

/* By CPU; the loader gives it as many entries as there are CPU ids. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct release_queues);
} release_queues SEC(".maps");

/* Where each item is in its heap: changed with the lock of that held. */
u16 release_places[LL_HEAP_ITEMS];

/* The thread that each item stands for; 0: it is free. And the user that it counts for, where it is cooperative. */
u32 release_pids[LL_HEAP_ITEMS];
u32 release_uids[LL_HEAP_ITEMS];

/*
 * Who may have how many items, so that who asks for many leaves some to others. A user but root has MAX_ITEMS_OF_USER for cooperative threads, and as
 * many for threads of reservations, of whatever number of processes (a specification that may be inherited has no limit on those): so a user has an
 * eighth of all items, and a quarter of any queue, of which a CPU has one for each class, and two for reservations. Who gets none is as who has no
 * page, or goes by its class. Root is not limited.
 *
 * A reservation has MAX_ITEMS_OF_RESERVATION, so that a process of very many threads does not take all that its user has: of what is to be done
 * within one C no more threads than that wait at once, unless it is for each other. The first few stay with who has waited once, since that is for
 * nothing then the next time; what a process has beyond, a thread gives back when it sleeps, so that it is the waiting ones that have them.
 */
enum { MAX_ITEMS_OF_USER = LL_HEAP_ROOM / 4, MAX_ITEMS_OF_RESERVATION = 64, KEPT_ITEMS_OF_RESERVATION = 4 };

/* Items of users' threads that hold reservations, and of the threads of each reservation: by its number, whoever has that meanwhile. */
struct user_counts item_users SEC(".maps");
u32 reserved_items[LL_MAX_RESERVATIONS];

/* The first of timed queue @number of @cpu is @key. */
static void set_first(u32 cpu, u32 number, u64 key)
{
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);

	if (number >= NR_TIMED_QUEUES)
		return;
	/* The key first: who sees the bit without the lock sees the key, too. Until then the queue is empty for it, as it was a moment before. */
	WRITE_ONCE(cctx->first_release[number], key);
	if (key != COOP_ABI_NEVER)
		WRITE_ONCE(cctx->filled_queues, cctx->filled_queues | 1U << number);
	else
		WRITE_ONCE(cctx->filled_queues, cctx->filled_queues & ~(1U << number));
}

/* The bits of the queues of @state in cpu_ctx.filled_queues. */
#define RELEASE_QUEUES_OF(state) (((1U << LL_NR_CLASSES) - 1) << (state) * LL_NR_CLASSES)

static u64 first_of_queue(const struct cpu_ctx *cctx, u32 state, u32 class)
{
	return cctx->first_release[release_queue(state, class)];
}

/* The earliest release in the queues of @state of @class and those more urgent. Not a loop: bpf_for() costs ten times as much as it would do here. */
static u64 first_of_classes(const struct cpu_ctx *cctx, u32 state, u32 class)
{
	u64 first = COOP_ABI_NEVER;

	/* Most often, and a call of coop_poll asks for it eight times. */
	if (!(READ_ONCE(cctx->filled_queues) & RELEASE_QUEUES_OF(state)))
		return first;
	if (class >= LL_CLASS_HUCIN)
		first = first_of_queue(cctx, state, LL_CLASS_HUCIN);
	if (class >= LL_CLASS_HUCOUT)
		first = earlier(first, first_of_queue(cctx, state, LL_CLASS_HUCOUT));
	if (class >= LL_CLASS_OTHER)
		first = earlier(first, first_of_queue(cctx, state, LL_CLASS_OTHER));
	return first;
}

/*
 * The earliest release of a cooperative thread of @class or a more urgent one that waits for @cpu; @sleeping ones too. Not static, as has_part().
 */
__weak u64 next_release(u32 cpu, u32 class, u32 sleeping)
{
	const struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	u64 first = earlier(first_of_classes(cctx, RELEASE_WAITS, class), first_of_classes(cctx, RELEASE_BEHIND, class));

	return sleeping ? earlier(first, first_of_classes(cctx, RELEASE_SLEEPS, class)) : first;
}

/* Where an item of queue @number is, if it is not there any more: put behind others, while it waited. */
static u32 queue_behind_of(u32 number)
{
	return number < LL_NR_CLASSES ? RELEASE_BEHIND * LL_NR_CLASSES + number : number;
}

/*
 * Put @item into timed queue @number of @cpu, or with COOP_ABI_NEVER take it out, whether it is there, or has been put behind others, or not. False
 * where there is no room. Not static: so the verifier looks at it once, and not wherever it is used.
 */
__weak bool change_queue(u32 cpu, u32 number, u32 item, u64 release_ns)
{
	struct release_queues *queues = bpf_map_lookup_elem(&release_queues, &cpu);
	u32 behind = queue_behind_of(number);
	bool done = true;

	/* The compiler could prove the second, the verifier of Linux 6.18 cannot. */
	barrier_var(behind);
	if (!queues || number >= NR_TIMED_QUEUES || behind >= NR_TIMED_QUEUES)
		return false;
	bpf_spin_lock(&queues->lock);
	if (release_ns != COOP_ABI_NEVER) {
		done = ll_heap_insert(&queues->heaps[number], release_places, item, release_ns);
	} else if (!ll_heap_remove(&queues->heaps[number], release_places, item)) {
		number = behind;
		ll_heap_remove(&queues->heaps[number], release_places, item);
	}
	set_first(cpu, number, ll_heap_first(&queues->heaps[number], COOP_ABI_NEVER));
	bpf_spin_unlock(&queues->lock);
	return done;
}

/* Move @item, if it is still the first of queue @from of @cpu, to queue @to, where there is room. */
__weak bool move_first_release(u32 cpu, u32 from, u32 to, u32 item)
{
	struct release_queues *queues = bpf_map_lookup_elem(&release_queues, &cpu);
	bool done = false;
	u64 key;

	if (!queues || from >= NR_TIMED_QUEUES || to >= NR_TIMED_QUEUES)
		return false;
	bpf_spin_lock(&queues->lock);
	key = queues->heaps[from].at[0].key;
	if (queues->heaps[from].count && queues->heaps[from].at[0].item == item && queues->heaps[to].count < LL_HEAP_ROOM) {
		ll_heap_remove(&queues->heaps[from], release_places, item);
		done = ll_heap_insert(&queues->heaps[to], release_places, item, key);
		set_first(cpu, from, ll_heap_first(&queues->heaps[from], COOP_ABI_NEVER));
		set_first(cpu, to, ll_heap_first(&queues->heaps[to], COOP_ABI_NEVER));
	}
	bpf_spin_unlock(&queues->lock);
	return done;
}

/* The virtual time that @tctx takes for @ns of the CPU, where it is cooperative and weighs less than most. */
static u64 rated_ns(const struct task_ctx *tctx, u64 ns)
{
	return tctx->coop.rate_pm ? ns * tctx->coop.rate_pm / 1000 : ns;
}

/*
 * The virtual time of its slice, in class OTHER of @other_slice: that of a HuC task is the shorter the less it weighs, so that it is the same for
 * all.
 */
static u64 turn_ns(const struct task_ctx *tctx, u64 other_slice)
{
	if (!is_huc_class(tctx->class))
		return rated_ns(tctx, other_slice);
	return tctx->coop.cell ? rated_ns(tctx, ll_rated_slice(huc_slice_ns, tctx->slice_pm, slice_min_ns)) : huc_slice_ns;
}

/* The virtual time of @tctx where it has just had its turn in its class, which is fair: a slice ahead of who has it now. */
static u64 after_turn(const struct task_ctx *tctx, const struct cpu_ctx *cctx)
{
	return class_vtime[class_index(tctx->class)] + turn_ns(tctx, cctx->other_slice_ns);
}

/*
 * The virtual time beyond which @tctx is so far ahead of its class that its releases are not to be kept (section 3.2). By the longest slice, which
 * it may have had: that of this moment is shorter as soon as many have come to wait, and who had a long one would be ahead for that. Who was moved
 * here from a CPU that is behind its class is ahead by that, too (catch_up_pinned()), and has not been prompt for it: it may be, by a period at most.
 */
static u64 ahead_from(const struct task_ctx *tctx)
{
	u64 turn = class_vtime[class_index(tctx->class)] + turn_ns(tctx, other_slice_max_ns);

	return turn + rated_ns(tctx, coop_ahead_ns) + tctx->coop.brought_ns;
}

static bool is_ahead(const struct task_ctx *tctx)
{
	return ll_vtime_before(ahead_from(tctx), tctx->vtime);
}

/* @tctx waits for @cpu or sleeps, as @state says, until its release, if that is to be kept. */
static void submit_release(struct task_ctx *tctx, u32 cpu, u32 state)
{
	u32 number = release_queue(state, tctx->class);

	if (!in_good_standing(tctx) || tctx->coop.release_ns == COOP_ABI_NEVER)
		return;
	/* It may block for ever, and nobody could be told by when to yield. */
	if (state == RELEASE_SLEEPS && tctx->coop.release_ns <= coop_now())
		return;
	if (tctx->coop.brought_ns && ll_vtime_before(tctx->vtime, after_turn(tctx, cpu_ctx_of(cpu))))
		tctx->coop.brought_ns = 0;
	if (is_ahead(tctx)) {
		tctx->coop.standing |= COOP_DEMOTED_AHEAD;
		count(LL_STAT_coop_ahead);
		return;
	}
	if (!change_queue(cpu, number, tctx->coop.item, tctx->coop.release_ns))
		return;
	tctx->coop.queue = number;
	tctx->coop.queue_cpu = cpu;
}

/* An item for the thread @pid; LL_HEAP_ITEMS where all are taken. */
static u32 take_item(u32 pid)
{
	u32 i, item;

	bpf_for(i, 0, LL_HEAP_ITEMS) {
		item = (pid + i) & (LL_HEAP_ITEMS - 1);
		if (!release_pids[item] && !__sync_val_compare_and_swap(&release_pids[item], 0, pid))
			return item;
	}
	return LL_HEAP_ITEMS;
}

/* The item of @tctx among reservations; more than there are where it has none. */
static u32 reserved_item(const struct task_ctx *tctx)
{
	return (u16)tctx->reserve.held - 1;
}

/* What the reservation of @held, of which hold_item() has the parts, has of items. */
static u32 *items_of(u64 held)
{
	return &reserved_items[(held >> 16) & (LL_MAX_RESERVATIONS - 1)];
}

static void return_held(u64 held)
{
	if (!held)
		return;
	release_pids[((u16)held - 1) & (LL_HEAP_ITEMS - 1)] = 0;
	__sync_fetch_and_sub(items_of(held), 1);
	dismiss_user(&item_users, held >> 32);
}

/* @tctx's task needs no number in the queues any more, or another one, since it has another pid. Of two CPUs that do this one does it. */
__weak int return_item(struct task_ctx *tctx __arg_nonnull)
{
	return_held(__sync_lock_test_and_set(&tctx->reserve.held, 0));
	return 0;
}

/* Has its reservation so many that others of it may need what @tctx, whose task sleeps, has? */
static bool is_item_wanted(const struct task_ctx *tctx)
{
	return tctx->reserve.held && *items_of(tctx->reserve.held) > KEPT_ITEMS_OF_RESERVATION;
}

/* An item for @pid of @uid, the task of @tctx, which has none and waits. Not static: so the verifier looks at it once. */
__weak bool get_item(struct task_ctx *tctx __arg_nonnull, u32 pid, u32 uid)
{
	u32 number = tctx->reserve.number, item;
	u64 held = (u64)number << 16;

	/* Another CPU has had it leave its reservation. */
	if (!number)
		return false;
	if (__sync_fetch_and_add(items_of(held), 1) >= MAX_ITEMS_OF_RESERVATION)
		goto none;
	if (!admit_user(&item_users, uid, MAX_ITEMS_OF_USER))
		goto none;
	item = take_item(pid);
	if (item == LL_HEAP_ITEMS) {
		dismiss_user(&item_users, uid);
		goto none;
	}
	held |= (u64)uid << 32 | (item + 1);
	/* Another CPU may have found it one at this moment. */
	if (__sync_val_compare_and_swap(&tctx->reserve.held, 0, held))
		return_held(held);
	/* Who had it leave its reservation at this moment has looked for an item, or will be seen to have done so here. */
	if (*(volatile u32 *)&tctx->reserve.number == number)
		return true;
	return_item(tctx);
	return false;
none:
	__sync_fetch_and_sub(items_of(held), 1);
	return false;
}

/*
 * Has @p, which waits, an item for its reservation, or does it get one now? What it holds is one word: item + 1, number of the reservation, and user.
 * Whoever takes that away gives back what was counted, though it may hold something else by then, or be another user's.
 */
static bool hold_item(const struct task_struct *p, struct task_ctx *tctx)
{
	return tctx->reserve.held || get_item(tctx, p->pid, BPF_CORE_READ(p, real_cred, uid.val));
}

/* The item of the first release of a queue; LL_HEAP_ITEMS where that is empty. Not static: so the verifier looks at it once. */
__weak u32 first_item(u32 cpu, u32 number)
{
	struct release_queues *queues = bpf_map_lookup_elem(&release_queues, &cpu);
	u32 item = LL_HEAP_ITEMS;

	if (!queues || number >= NR_TIMED_QUEUES)
		return item;
	bpf_spin_lock(&queues->lock);
	if (queues->heaps[number].count)
		item = queues->heaps[number].at[0].item & (LL_HEAP_ITEMS - 1);
	bpf_spin_unlock(&queues->lock);
	return item;
}

/* Is the task of @tctx the thread of @item, and is @cpu its home? After an exec it may have another pid, and a later process its old one. */
static bool has_item(const struct task_ctx *tctx, u32 item, s32 cpu)
{
	return tctx->coop.cell && tctx->coop.item == item && tctx->coop.home == cpu;
}

/* And may @p, which that is, still run there? */
static bool is_item_of(const struct task_struct *p, const struct task_ctx *tctx, u32 item, s32 cpu)
{
	return has_item(tctx, item, cpu) && bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
}

/*
 * A cooperative thread is in play while it runs, waits, or sleeps until a release that is near. Whoever sleeps for longer, or for something else,
 * costs others nothing: perf bench sched pipe took a quarter longer beside one that slept for good. It is in play again once it waits for the CPU,
 * and preempts for its release then; without others that are in play no slice ends for that by itself.
 */
#define FAR_RELEASE_NS 100000000ULL

static void enter_play(struct task_ctx *tctx)
{
	if (__sync_val_compare_and_swap(&tctx->coop.in_play, 0, 1))
		return;
	__sync_fetch_and_add(&cpu_ctx_of(tctx->coop.home)->coop_threads, 1);
	__sync_fetch_and_add(&coop_in_play, 1);
}

static void leave_play(struct task_ctx *tctx)
{
	if (!__sync_val_compare_and_swap(&tctx->coop.in_play, 1, 0))
		return;
	__sync_fetch_and_sub(&cpu_ctx_of(tctx->coop.home)->coop_threads, 1);
	__sync_fetch_and_sub(&coop_in_play, 1);
}

/*
 * The thread of @item, which sleeps on although its release on @cpu is over, had no timer there: it is not in play. If it wakes up meanwhile, it is
 * again as soon as it runs.
 */
static void oversleep(u32 item, u32 cpu)
{
	struct task_struct *p = bpf_task_from_pid(release_pids[item & (LL_HEAP_ITEMS - 1)]);
	struct task_ctx *tctx = p ? task_ctx_of(p) : NULL;

	if (tctx && has_item(tctx, item, cpu))
		leave_play(tctx);
	if (p)
		bpf_task_release(p);
}

/*
 * Forget the releases of sleepers that are over: whoever sleeps on had no timer there, and would have everybody else yield for it for good. One of
 * each class at a time. Not static, as has_part().
 */
__weak int forget_overslept(u32 cpu, u64 now)
{
	const struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	u32 class, number, item;

	bpf_for(class, LL_CLASS_HUCIN, LL_NR_CLASSES) {
		number = release_queue(RELEASE_SLEEPS, class);
		if (first_of_queue(cctx, RELEASE_SLEEPS, class) > now)
			continue;
		item = first_item(cpu, number);
		change_queue(cpu, number, item, COOP_ABI_NEVER);
		oversleep(item, cpu);
	}
	return 0;
}

/* May a release of @class go before a more urgent class on @cctx? Only class OTHER has a share that is guaranteed, and is charged for it. */
static bool may_use_share(struct cpu_ctx *cctx, u32 class)
{
	return class == LL_CLASS_OTHER && share_is_due(cctx);
}

/*
 * Does somebody wait who has waited for so long that releases of class OTHER are not kept beside? Not whoever goes before its class
 * (enqueue_in_class()): those wait for the few due ones.
 */
static bool rescue_comes_first(const struct cpu_ctx *cctx)
{
	return rescue_first && (waiting[RESCUED] | pinned_waiting(cctx, RESCUED));
}

/* Have @p, which waits in @queue, run next here; outside of a dispatch with SCX_ENQ_PREEMPT in @enq_flags. False where it does not wait there. */
static bool take_from_queue(s32 cpu, struct task_struct *p, u64 queue, u64 enq_flags)
{
	struct task_struct *any;
	bool moved = false;

	bpf_for_each(scx_dsq, any, queue, 0) {
		moved = scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL_ON | cpu, enq_flags);
		break;
	}
	return moved;
}

/* Is the user of the first of queue @number of @cpu one that has a part left? */
static bool first_has_part(s32 cpu, u32 number, u32 *item, u64 now)
{
	*item = first_item(cpu, number);
	return has_part(release_uids[*item & (LL_HEAP_ITEMS - 1)], cpu, now);
}

/* At a dispatch: as many as a user can have. Only root's can be more, of which the rest go before those then. */
enum { PARTED_AT_ONCE = MAX_ITEMS_OF_USER };

/*
 * Put those of @class that are due, and whose users have had their part, behind those whose users have not. Who is behind and has a part again comes
 * back where it is the earliest: so those of a single user keep their order, whatever it uses.
 */
static void part_releases_of(u32 cpu, u32 class)
{
	u32 waits = release_queue(RELEASE_WAITS, class), behind = release_queue(RELEASE_BEHIND, class), item, i;
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	u64 now = cctx->coop_now_ns;

	if (cctx->first_release[behind] < cctx->first_release[waits] && first_has_part(cpu, behind, &item, now)) {
		move_first_release(cpu, behind, waits, item);
		return;
	}
	bpf_for(i, 0, PARTED_AT_ONCE) {
		if (cctx->first_release[waits] > now || first_has_part(cpu, waits, &item, now) || !move_first_release(cpu, waits, behind, item))
			break;
		count(LL_STAT_coop_behind);
	}
}

/* The same for all classes; false where nobody is due. */
__weak bool part_releases(u32 cpu)
{
	if (next_release(cpu, LL_CLASS_OTHER, false) > cpu_ctx_of(cpu)->coop_now_ns)
		return false;
	part_releases_of(cpu, LL_CLASS_HUCIN);
	part_releases_of(cpu, LL_CLASS_HUCOUT);
	part_releases_of(cpu, LL_CLASS_OTHER);
	return true;
}

/* Take the first of those of @class whose release is due. */
static bool take_first_due(s32 cpu, const struct cpu_ctx *cctx, u32 class, u64 enq_flags)
{
	u32 state = first_of_queue(cctx, RELEASE_WAITS, class) <= cctx->coop_now_ns ? RELEASE_WAITS : RELEASE_BEHIND;
	u32 number = release_queue(state, class), item = first_item(cpu, number), waits_as;
	struct task_struct *p = bpf_task_from_pid(release_pids[item & (LL_HEAP_ITEMS - 1)]);
	struct task_ctx *tctx = p ? task_ctx_of(p) : NULL;
	bool is_its = tctx && is_item_of(p, tctx, item, cpu), taken = false;

	if (is_its) {
		waits_as = waiting_class(tctx);
		taken = waits_as < LL_NR_CLASSES && take_from_queue(cpu, p, queue_of(p, tctx, waits_as, cpu), enq_flags);
	}
	if (p)
		bpf_task_release(p);
	if (!is_its)
		change_queue(cpu, number, item, COOP_ABI_NEVER);
	return taken;
}

/* Comes @release_ns, of @class and @uid, which is due, before those that wait for @cpu, as part_releases() has them? */
__weak bool is_before_waiting(u32 cpu, u32 class, u64 release_ns, u32 uid)
{
	const struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	u64 waits = first_of_classes(cctx, RELEASE_WAITS, class), now = cctx->coop_now_ns;

	if (waits <= release_ns)
		return false;
	/* Neither this one nor who is behind has to be looked at where that makes no difference. */
	if (waits > now && first_of_classes(cctx, RELEASE_BEHIND, class) > release_ns)
		return true;
	return has_part(uid, cpu, now);
}

/* Does the task of @tctx, which has just yielded or whose slice is over, go on, because no release is earlier than its own (rules 1 and 2)? */
static bool goes_on_for_release(const struct task_ctx *tctx, s32 cpu, struct cpu_ctx *cctx)
{
	if (!is_due(tctx, cctx->coop_now_ns) || is_ahead(tctx))
		return false;
	if (!is_before_waiting(cpu, tctx->class, tctx->coop.release_ns, tctx->coop.uid))
		return false;
	if (tctx->class == LL_CLASS_OTHER && rescue_comes_first(cctx))
		return false;
	return !more_urgent_waits(cctx, tctx->class) || may_use_share(cctx, tctx->class);
}

/* Take who runs for its release (rules 1 and 2); @above is the class of the task that could go on. For @enq_flags see take_from_queue(). */
static bool take_due(s32 cpu, struct cpu_ctx *cctx, u32 above, u64 enq_flags)
{
	u64 now = cctx->coop_now_ns;
	u32 class;

	bpf_for(class, LL_CLASS_HUCIN, LL_NR_CLASSES) {
		if (earlier(first_of_queue(cctx, RELEASE_WAITS, class), first_of_queue(cctx, RELEASE_BEHIND, class)) > now)
			continue;
		if ((above < class || more_urgent_waits(cctx, class)) && !may_use_share(cctx, class))
			break;
		if (class == LL_CLASS_OTHER && rescue_comes_first(cctx))
			break;
		if (take_first_due(cpu, cctx, class, enq_flags)) {
			count(LL_STAT_coop_due);
			return true;
		}
	}
	return false;
}

/* A kernel thread on @cctx that works for others, whose slice is over, makes way for a due release, if there is one (rule 5). */
static bool give_way(s32 cpu, struct cpu_ctx *cctx, u64 enq_flags)
{
	cctx->kthread_gives_way = part_releases(cpu) && take_due(cpu, cctx, LL_CLASS_OTHER, enq_flags);
	if (cctx->kthread_gives_way)
		cctx->gave_way_at_ns = cctx->coop_now_ns;
	return cctx->kthread_gives_way;
}

#endif /* LIMELIGHT_RELEASE_H */
