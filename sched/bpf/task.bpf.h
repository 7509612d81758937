/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the scheduler knows of each task and each CPU, and the questions that the other files ask about them.
 */
#ifndef LIMELIGHT_TASK_H
#define LIMELIGHT_TASK_H

#define PF_EXITING 0x00000004
#define PF_FORKNOEXEC 0x00000040	/* forked, and has executed nothing since */
#define PF_KTHREAD 0x00200000
#define PF_NO_SETAFFINITY 0x04000000
#define TASK_INTERRUPTIBLE 0x00000001

/*
 * The release queues of a CPU, for each class: of those that wait for the CPU, of those that sleep, and of those that wait, are due, and whose user
 * has had its part (part_releases()).
 */
enum { RELEASE_WAITS = 0, RELEASE_SLEEPS = 1, RELEASE_BEHIND = 2, NR_RELEASE_QUEUES = 3 * LL_NR_CLASSES };

/* And behind those the queues of reservations: who waits for its period to start, and who is entitled to the CPU, by deadline. */
enum { QUEUE_STARTS = NR_RELEASE_QUEUES, QUEUE_DEADLINES, NR_TIMED_QUEUES, TIMED_QUEUES_ROOM = 16 };

/* Demoted, too, but nobody is told: it has not called yet. */
enum { COOP_HAS_NOT_CALLED = 1U << 31 };

/* What is known of a cooperative thread (coop.bpf.h). */
struct coop_ctx {
	u64 release_ns;		/* when its next timer is due; COOP_ABI_NEVER: it has none */
	u64 user_vtime;		/* and of its best-effort events the least; COOP_ABI_NEVER: it has none */
	u64 call;		/* which of its calls that is of */
	s64 ran_ns;		/* what it has run since that; less than 0 until the stint that led to it is charged */
	u32 number;		/* of its process's page when that was looked for last */
	u32 cell;		/* of that page; 0: the thread is not cooperative */
	u32 tid;		/* as written there */
	u32 uid;		/* the user that it counts for */
	u32 standing;		/* enum coop_standing, since that call, or COOP_HAS_NOT_CALLED */
	u32 stood;		/* and before it */
	u32 offences;		/* how often it ran on for too long, and has not made up for (run_beyond()) */
	u32 probation;		/* how often it has to yield in time until it has the whole slack again */
	u32 in_time;		/* and how often it has since */
	u64 beyond_ns;		/* since that call: what it has run after the slice that it was told */
	u32 item;		/* its number in release queues */
	u32 queue;		/* the queue it is in; NR_RELEASE_QUEUES: in none */
	u32 queue_cpu;		/* and that queue's CPU */
	s32 home;		/* the CPU that it stays on */
	u32 brought_ns;		/* by how much its last move put it ahead */
	u32 rate_pm;		/* how fast its virtual time passes, in thousandths, 1000 at least; 0: it is not cooperative, or has not run */
	u32 gid;		/* its group's name; 0: it has none */
	u32 group;		/* and that group's number; 0: none */
	u64 kind;		/* and of which kind it was when it entered that: kind_of() */
	u32 waits_in_group;	/* it is in the group's queue */
	u32 is_guest;		/* the group is another user's */
	u32 in_play;		/* it counts for `coop_threads` of its home (enter_play()) */
	u64 consents;		/* the last change of its consents when it entered the group */
	u64 look_again_ns;	/* it has no slot: when one is next looked for (join_coop()) */
};

/* What is known of a task's part in its process's reservation (reserve.bpf.h). */
struct reserve_ctx {
	u32 number;		/* of the reservation; 0: none */
	u32 has_ended;		/* it is gone, though its parent has not asked for it yet: it can hold none */
	u16 wants;		/* it is one of those that want the CPU */
	u16 woke;		/* as the first of its process, and no period has been begun for that */
	u64 window_ns;		/* it is a child that draws on its parent's, and may for so much CPU; 0: it is its process's own */
	u64 charged_at_ns;	/* until when a reservation that it held before has been charged */
	struct ll_period left;	/* what was left of that one's period */
	u64 held;		/* its number in the queues of reservations, and who that counts for: see hold_item(); 0: none */
	u32 queue;		/* the one it is in; 0: in none */
	u32 queue_cpu;		/* and that queue's CPU */
	u32 generation;		/* it descends by so many forks from one that held a reservation, and has executed nothing since; 0: not so, or more */
};

/* A login: see login.bpf.h. */
struct login_ctx {
	u64 left_ns;		/* CPU for which it is of class HUCOUT at least */
	u64 began_with_ns;	/* what it had of that when it was forked */
	u64 refilled_at_ns;
	u32 is_one;
};

/*
 * Per task. All callbacks for one task are serialised by the lock of its run queue. Others come without it: who moves a waiting task
 * (`waits`, atomic), and who changes ratings or lends a class for a lock (`rating_epoch`, set last, and what it stands for). Reads from
 * another task's wake-up (class, hub) may be one rating period old, which is what ratings are anyway.
 */
struct task_ctx {
	u64 vtime;		/* virtual time in the clock of `class` */
	u64 forgiven;		/* pinned: of its CPU's `forgiven`, what `vtime` has had */
	u64 charged_at_ns;	/* running: until when `vtime` is charged */
	u64 wakeable_at_ns;	/* when it became runnable by a wake-up; 0 once it has run */
	u64 waited_ns;		/* and how long it then waited, until that is recorded */
	u64 queued_at_ns;	/* when it was put into a queue; 0 while it is in none */
	u32 cgroup_slot;	/* 0 for the root cgroup, whose tasks' weights are not scaled */
	u32 rating_epoch;	/* value of `rating_epoch` that the five below were looked up at, but a kernel thread's weight_pm: renew_even() */
	u32 class;		/* enum ll_class */
	u32 slice_pm;
	u32 weight_pm;
	u32 rating_flags;	/* enum ll_rating_flags */
	u32 handed_over;	/* how often in a row it woke up another and slept at once, up to HANDS_OVER_TIMES */
	u32 has_input;		/* its rating came from input, too, when it was looked up */
	u32 pinned_clock;	/* CPU and class whose pinned tasks `vtime` keeps up with; NO_PINNED_CLOCK where that is to be found */
	u32 rescued;		/* it runs because it had waited too long, out of class OTHER's share */
	u64 reads_since_ns;	/* since when it was a reader of RCU each time that it was preempted; 0 where not the last time */
	u64 reader_ran_ns;	/* and what it has run so */
	u64 reader_window_at_ns;	/* since then, for reader_window_ns */
	u64 indirect_ran_ns;	/* CPU that it and its children used on an indirect rating since that was renewed; kernel threads: since they woke up */
	u64 even_ran_ns;	/* a nice kernel thread: what it has run as one of nice 0, and not had back (renew_even()) */
	u64 even_at_ns;		/* and when that was reckoned last */
	u64 hub_woke_at_ns;	/* when a hub woke it last */
	u64 inherited_ran_ns;	/* what its parent had used of that when it was forked */
	u32 counted_class;	/* class under which its weight is counted in its cgroup; LL_NR_CLASSES while it is not */
	u32 counted_weight;
	u32 waits;		/* as what it is counted among those that wait: see queue.bpf.h */
	u64 blocked_on;		/* address of the kernel's lock that it waits for; 0 = none */
	u32 blocked_on_mutex;	/* that is a mutex, not a read-write semaphore */
	u32 lent_to;		/* pid of the lock's holder, while that has this task's class */
	u32 lock_class;		/* class that it has for a lock it holds; LL_NR_CLASSES = only its own */
	u32 lock_waiter;	/* and the pid of who lent it that */
	u64 lock_ran_ns;	/* and what it has run since */
	u64 lock_lent_ns;	/* and when a real-time task last lent it that */
	struct login_ctx login;
	struct coop_ctx coop;
	struct reserve_ctx reserve;
};

enum { NO_PINNED_CLOCK = -1U };

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} task_ctxs SEC(".maps");

/*
 * Per CPU. Written on its own CPU with its run queue locked, except `claim`, `huc_waits_at_ns`, `class` where what was lent for a lock is taken
 * back, and what its timer and its running task's wake-ups note. Other CPUs read `class` and `vtime` to choose
 * whom to preempt: a stale answer costs one needless or one missed kick, and ll_running() looks again.
 */
struct cpu_ctx {
	u32 class;		/* class of the running task; LL_NR_CLASSES while there is none of ours */
	u32 claim;		/* class + 1 of a task that was sent here to preempt and has not yet run; else 0 */
	u64 vtime;		/* virtual time of the running task when it started */
	u64 running_since_ns;	/* and when that was */
	u32 weight_pm;		/* and how many thousandths of its weight count */
	u16 weight;		/* and that weight */
	u8 hands_over;		/* the running task's `handed_over` when it started */
	u8 has_next;		/* a task was put straight behind the running one */
	u8 runs_pinned;		/* the running task goes by this CPU's own clock */
	u8 own_turn;		/* of those who have waited too long, the next is one that only this CPU can run */
	u8 runs_hub;		/* the running task is a hub: a display server, mostly */
	u8 runs_worker;		/* the running task is a kernel thread that works for others */
	u8 runs_first;		/* it goes before its class, for a lock that it holds */
	u8 goes_through_queues;	/* its timer looks for who has waited too long: whoever is put here waits for that */
	u8 kthread_waits;	/* a kernel thread waits for a HuC task, or one that has its share, that it has made way for */
	u64 huc_first_until_ns;	/* until when HuC tasks go before the workers that have made way for one */
	u64 huc_waits_at_ns;	/* since when a HuC task waits for kernel threads that work for others; 0 while none does */
	u8 kthread_gives_way;	/* the running kernel thread is about to be put behind a release, or behind one of those */
	u64 gave_way_at_ns;	/* and when one was put behind a release last, by coop_now_ns */
	u64 woke_sync_at_ns;	/* when the running task last woke up another and said that it was about to sleep; else 0 */
	u64 slice_end_ns;	/* when the timer should end the running task's slice; 0 = leave it to the tick */
	u64 timer_at_ns;	/* when that timer fires next; 0 while it is not set */
	u64 slice_at_ns;	/* when the two below were computed */
	u32 other_slice_ns;	/* slice of class OTHER */
	u32 share_slice_ns;	/* and while HuC tasks want the CPU */
	u64 forgiven[LL_NR_CLASSES];	/* virtual time that pinned tasks were behind by and need not catch up: see pinned_clock() */
	u64 runs_forgiven;	/* what the running task has had of that */
	u64 far_at_ns;		/* when a task was last taken from another cache for having fallen behind */
	u64 no_huc_until_ns;	/* HuC tasks wait that may not run here: do not preempt for them before this */
	s64 share_credit_ns;	/* what tasks that only this CPU can run are owed */
	s64 share_pending_ns;	/* this CPU's part of the shared account, not yet added to it */
	u32 pinned_waiting[LL_NR_CLASSES] __attribute__((aligned(8)));	/* tasks in the queues of this CPU alone */
	u64 head_vtime;		/* virtual time of the first waiting task of class OTHER */
	u64 head_at_ns;		/* when that was looked up */
	u64 coop_until_ns;	/* on the clock of coop_now(): until then its own class does not preempt the running task; else 0 */
	u64 coop_told_ns;	/* and the end of the slice that it was told */
	u64 coop_lost_ns;	/* and what interrupts that wake others up have had of its time */
	u64 interrupt_at_ns;	/* when an interrupt woke up somebody here last, while such a task ran */
	u64 coop_now_ns;	/* coop_now() when the dispatch, or the stint, began that is looked at */
	u32 runs_due;		/* the running task is cooperative, and was due when it began or went on */
	u32 runs_uid;		/* and its user */
	u64 first_release[TIMED_QUEUES_ROOM];	/* the first of each timed queue; COOP_ABI_NEVER where that is empty */
	u32 filled_queues;	/* a bit for each timed queue, where that is not empty */
	u32 coop_homes;	/* cooperative threads that stay on this CPU */
	u32 coop_threads;	/* and those of them that are in play: while there are none, nothing has to be asked about them */
	u32 reservations;	/* those admitted here: while there are none, nothing has to be asked about deadlines */
	u32 runs_makes_room;	/* while `runs_rank`: what runs may be revoked, and serves nobody (makes_room()) */
	u64 runs_rank;	/* the running task's rank (rank_of()), where it runs on its reservation; else 0 */
	u64 runs_latest_ns;	/* and until when that could have waited for others' releases */
	u64 release_until_ns;	/* until when releases go before the first reservation that waits */
	u64 reserved_ns;	/* what has run here on reservations */
	u64 reserved_until_ns;	/* and of that, what is in `load` */
	u64 load_at_ns;		/* when `load` last had a second added: this and the two below by the lock of admissions */
	u32 admitted_ppm;	/* the sum of C / T of those admitted here */
	struct ll_load load;
	u64 huc_ns;		/* what has run here of the HuC classes, but on reservations */
	u64 huc_until_ns;	/* and of that, what is in `huc_load`: this and that by the lock of admissions, too */
	struct ll_load huc_load;	/* what they take so of each second */
	u32 raise_pid;		/* a task that was lent a class for a lock it holds, and may have to change queue; 0 = none */
	u64 stats[LL_NR_STATS];
} __attribute__((aligned(64)));

struct cpu_ctx cpu_ctxs[LL_MAX_CPUS];

/*
 * Tasks in shared queues, by class. Never too low while one waits; may be too high for the length of a move or a callback. Kernel threads
 * never wait in a queue of ours: in their place those are counted that have waited too long, there and in pinned_waiting.
 */
u32 waiting[LL_NR_CLASSES] __attribute__((aligned(8)));

enum { RESCUED = LL_CLASS_KTHREAD };

/*
 * Of all but those, by when they came to wait: in the epochs of 2^wait_epoch_shift ns, this many of which go round. So whether anybody can have
 * waited too long is known without going through the queues.
 */
enum { WAIT_EPOCHS = 16 };
u32 waiting_since[WAIT_EPOCHS] __attribute__((aligned(8)));

/* Somebody was rescued and has not run since: no release of class OTHER goes before them. Writer: the timer that looks for tasks that have waited. */
u32 rescue_first;

/* Logins that have some of their budget left (login.bpf.h): when one ran, or came to wait, last ... */
u64 login_seen_at_ns;

/* ... and for how long there was one, but for what has come back, and since when that is. */
u64 login_first_ran_ns;
u64 login_first_at_ns;

/* Who has come to wait is noted when it runs at the latest: who goes first does soon. */
enum { LOGIN_SEEN_NS = 100000000 };

/* Cooperative threads that have a group, and those that are in play on any CPU. */
u32 coop_grouped;
u32 coop_in_play;

/* For this long what was seen of the queues is good enough for a decision that recurs at every switch or wake-up. */
enum { LOOK_AGAIN_NS = 1000000 };

/* What class OTHER is owed by the machine. Written by all CPUs, each at most once per SHARE_FLUSH_NS of its own change. */
s64 share_credit_ns;

/* Each class's clock: the greatest virtual time at which a task of it has started to run. */
u64 class_vtime[LL_NR_CLASSES];

/*
 * Indexes of an array of LL_MAX_CPUS or LL_NR_CLASSES, both powers of two. The mask shows the verifier that they are in bounds,
 * the barrier keeps clang from proving that it is not needed.
 */
static u32 cpu_index(s32 cpu)
{
	u32 index = cpu;

	barrier_var(index);
	return index & (LL_MAX_CPUS - 1);
}

static u32 class_index(u32 class)
{
	barrier_var(class);
	return class & (LL_NR_CLASSES - 1);
}

static struct cpu_ctx *cpu_ctx_of(s32 cpu)
{
	return &cpu_ctxs[cpu_index(cpu)];
}

/* Does a task of @class wait that only the CPU of @cctx can run? */
static u32 pinned_waiting(const struct cpu_ctx *cctx, u32 class)
{
	return nr_cpus > 1 ? cctx->pinned_waiting[class_index(class)] : 0;
}

/* The same, and for class OTHER those too that have waited too long. */
static __always_inline u32 own_waiting(const struct cpu_ctx *cctx, u32 class)
{
	return pinned_waiting(cctx, class) | (class == LL_CLASS_OTHER ? pinned_waiting(cctx, RESCUED) : 0);
}

/* Does any task wait that @cctx could run? Two classes at a look: this is asked at wake-ups that must cost nothing. */
static bool anyone_waits(const struct cpu_ctx *cctx)
{
	const __u64_alias_t *shared = (const __u64_alias_t *)waiting, *own = (const __u64_alias_t *)cctx->pinned_waiting;

	return shared[0] | shared[1] | own[0] | own[1];
}

/* Keep for other CPUs what they need to tell the virtual time of @p while it runs on @cctx. */
static void note_virtual_time(const struct task_struct *p, const struct task_ctx *tctx, struct cpu_ctx *cctx, u64 now)
{
	cctx->vtime = tctx->vtime;
	cctx->running_since_ns = now;
	cctx->weight = p->scx.weight;
	cctx->weight_pm = tctx->weight_pm;
	cctx->runs_pinned = tctx->pinned_clock != NO_PINNED_CLOCK;
	cctx->runs_forgiven = tctx->forgiven;
}

/* How fast the virtual time of what runs on @cctx passes, in thousandths. Computed when asked for, which is less often than who runs changes. */
static u32 vtime_rate_pm(const struct cpu_ctx *cctx)
{
	return ll_vtime_rate_pm(cctx->weight, cctx->weight_pm);
}

/* Virtual time of what runs on @cctx, estimated at @now. Cgroups are left out. */
static u64 running_vtime(const struct cpu_ctx *cctx, u64 now)
{
	s64 ran_ns = now - cctx->running_since_ns;

	/* It may have only just started there, by a clock a little ahead of ours. */
	return cctx->vtime + (ran_ns > 0 ? ran_ns : 0) * vtime_rate_pm(cctx) / 1000;
}

static struct cpu_ctx *this_cpu_ctx(void)
{
	return cpu_ctx_of(bpf_get_smp_processor_id());
}

static struct task_ctx *task_ctx_of(struct task_struct *p)
{
	return bpf_task_storage_get(&task_ctxs, p, 0, 0);
}

static void count(u32 stat)
{
	if (stat < LL_NR_STATS)
		this_cpu_ctx()->stats[stat]++;
}

static u64 earlier(u64 one, u64 other)
{
	return one < other ? one : other;
}

static u64 longer(u64 one, u64 other)
{
	return one > other ? one : other;
}

/*
 * Now, in a timer that was not to fire before @due_ns. There no run queue is locked, and scx_bpf_now() may stand still for a tick: when another CPU
 * takes a task from this one's run queue, the kernel notes the time of that for this CPU, and nobody there says that it is over (seen on Linux 7.2,
 * in slices that ended 4 ms late: the timer fired, found that it was not time yet, and was set again, 30 times over).
 */
static u64 now_in_timer(u64 due_ns)
{
	return longer(scx_bpf_now(), due_ns);
}

static bool is_kthread(const struct task_struct *p)
{
	return p->flags & PF_KTHREAD;
}

static bool is_exiting(const struct task_struct *p)
{
	return p->flags & PF_EXITING;
}

/* Can, or shall, only one CPU run @p, of several? Then it waits in that CPU's own queue. */
static bool is_pinned(const struct task_struct *p, const struct task_ctx *tctx)
{
	return nr_cpus > 1 && (p->nr_cpus_allowed == 1 || is_migration_disabled(p) || tctx->coop.cell);
}

static u32 release_queue(u32 state, u32 class)
{
	return (state * LL_NR_CLASSES + class_index(class)) & (TIMED_QUEUES_ROOM - 1);
}

/* Is @tctx a cooperative thread whose releases are kept? */
static bool in_good_standing(const struct task_ctx *tctx)
{
	return tctx->coop.cell && !tctx->coop.standing;
}

/* Now on the clock of applications, CLOCK_MONOTONIC. scx_bpf_now() is cheaper, and another: they drift apart. */
static u64 coop_now(void)
{
	return bpf_ktime_get_ns();
}

/*
 * A dispatch asks for it at every turn, and reading it costs as much as what it is asked for: @cctx keeps one look. That is 1 or 2 us old where it is
 * used, so that a slice ends that much earlier. Where nobody is cooperative nobody asks.
 */
static void look_at_coop_clock(struct cpu_ctx *cctx)
{
	if (cctx->coop_threads)
		cctx->coop_now_ns = coop_now();
}

static bool is_due(const struct task_ctx *tctx, u64 now)
{
	return in_good_standing(tctx) && tctx->coop.release_ns <= now;
}

/* Does @tctx run on @cctx for its release, and not because it is the first of its class? */
static bool runs_for_release(const struct task_ctx *tctx, const struct cpu_ctx *cctx)
{
	if (!tctx->coop.cell || !is_due(tctx, cctx->coop_now_ns))
		return false;
	return waiting[class_index(tctx->class)] | own_waiting(cctx, tctx->class) | (tctx->class == LL_CLASS_OTHER ? waiting[RESCUED] : 0);
}

static bool is_huc_class(u32 class)
{
	return class == LL_CLASS_HUCIN || class == LL_CLASS_HUCOUT;
}

#endif /* LIMELIGHT_TASK_H */
