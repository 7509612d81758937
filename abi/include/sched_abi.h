/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The boundary between the BPF scheduler and the daemon: every byte layout that both sides see, once.
 *
 * The BPF side includes this file after vmlinux.h; the Rust side has it turned into bindings at build time with the
 * same clang flags. Fixed-width types only, padding spelled out, sizes asserted below.
 *
 * Units are in the names: _ns nanoseconds, _us microseconds, _pm per mille. "Rating" is HuC's: how much a process has
 * lately served the person (tech report, section 4). Ratings cross the boundary in thousandths (milli), because BPF
 * has no floating point.
 */
#ifndef LIMELIGHT_SCHED_ABI_H
#define LIMELIGHT_SCHED_ABI_H

#include "int_types.h"

/* Scheduling classes, most urgent first (HuC, Table 2). FIFO, RR and DEADLINE stay with the kernel, above all of these. */
enum ll_class {
	LL_CLASS_KTHREAD = 0,	/* kernel threads, when they wake up, but for those that the kernel itself has made nice */
	LL_CLASS_HUCIN = 1,	/* recently received the person's input */
	LL_CLASS_HUCOUT = 2,	/* recently changed what the person sees */
	LL_CLASS_OTHER = 3,	/* everything else */
	LL_NR_CLASSES = 4,
};

/* Flags of a process rating. */
enum ll_rating_flags {
	LL_RATING_HUB = 1u << 0,	/* ratings do not travel through it: display server, message bus, ... */
	LL_RATING_INHERITED = 1u << 1,	/* given by fork, by BPF: the daemon's next pass learns of it */
	LL_RATING_LENT = 1u << 2,	/* given by BPF at a wake-up by a HUCIN process: likewise */
	LL_RATING_SELF = 1u << 3,	/* the daemon: HUCIN for as long as a report takes, else the first of class OTHER */
	LL_RATING_INDIRECT = 1u << 4,	/* by fork, by a wake-up or over the graph, not by what the person did to it */
	LL_RATING_HELPER = 1u << 5,	/* a helper: what wakes the daemon to read a report */
};

enum ll_limits {
	LL_MAX_RATED = 16384,	/* processes that can hold a rating at once */
	LL_MAX_EDGES = 131072,	/* edges of the dependency graph that can be pending between two drains */
	LL_LAT_BUCKETS = 32,	/* bucket b counts waits in [2^b, 2^(b+1)) ns */
	LL_MAX_SPECS = 8192,	/* executables that have a specification */
	LL_MAX_RESERVATIONS = 4096,	/* processes that have one, admitted or not; a power of two; number 0 is nobody's */
	LL_MAX_CONSENTS = 8,	/* groups of other users that one cooperative process can be in; a power of two */
	LL_GROUP_UID_SHIFT = 32,	/* of the user id in a group's name; below is the number that the user has for it */
};

/* Whose a page is. Map `coop_owners`, key: u32 number of the page. Writer: the daemon, as a whole. */
struct ll_page_owner {
	u32 tgid;		/* 0: nobody's */
	u32 uid;		/* the effective one, when it connected; nobody's page: -1, which no user has */
};

/* Consent to use another user's group. Words are read and written as a whole, one by one. */
struct ll_consent {
	u64 gid;		/* what the process calls it; 0: no consent */
	u64 name;		/* whose it is and what that one calls it: user id << LL_GROUP_UID_SHIFT | number */
};

/* Those of one process. Map `coop_consents`, key: u32 number of its page. Writer: the daemon, which has it mapped. */
struct ll_consents {
	u64 changes;		/* which of all changes, of any process's, was the last one here; written last */
	struct ll_consent of[LL_MAX_CONSENTS];
};

/*
 * The rating of one process. Map `ratings`, key: u32 tgid.
 * Writers: the daemon, once a second and on an immediate report; BPF creates entries on fork and on a
 * lending wake-up, which may also replace one without an input rating. BPF removes the entry when the last thread exits.
 */
struct ll_rating {
	u32 in_milli;		/* P_in x 1000; > 0 makes the process HUCIN */
	u32 out_milli;		/* P_out x 1000; > 0 makes it HUCOUT where in_milli is 0 */
	u32 slice_pm;		/* share of the full slice its rating earns, in 1..1000 */
	u32 flags;		/* enum ll_rating_flags */
	u32 from_tgid;		/* who gave an inherited or lent rating; 0 where none did */
	u32 weight_pm;		/* share of a full weight inside the class, in 1..1000: a crowd that serves one client shares it */
	u64 start_ns;		/* start time of the process (CLOCK_BOOTTIME): tells a recycled pid apart */
};

/*
 * An edge of the process dependency graph: `from` woke `to`. Map `edges`, value: u64 wake-ups since the last drain.
 * Only edges that touch a rated process are recorded: no other edge can carry a rating anywhere.
 */
struct ll_edge {
	u32 from_tgid;
	u32 to_tgid;
};

/* What a rated process got. Map `proc_stats`, key: u32 tgid. Writer: BPF. Kept while the process is rated. */
struct ll_proc_stats {
	u64 run_ns;			/* CPU time while rated */
	u64 wakeups;			/* times it was dispatched after a wake-up */
	u64 wait_max_ns;		/* longest dispatch latency seen */
	u64 wait_hist[32];		/* dispatch latency, LL_LAT_BUCKETS powers of two */
};

/* Argument of the program ll_publish, which the daemon runs after it has written ratings. */
struct ll_publish_args {
	u32 tracking;		/* does anybody serve the person now, so that wake-ups are worth recording? */
	u32 tgid;		/* process whose waiting tasks change queue at once; 0 where that can wait for their next turn */
};

/*
 * The file of an executable, as the kernel tells files apart. Map `specs`, key. Made by the program ll_identify: what stat() says may differ (btrfs).
 */
struct ll_file {
	u64 inode;
	u32 device;
	u32 generation;		/* of the inode: tells a file from one that was in its place */
};

/* Flags of a specification (Redline, section 3). */
enum ll_spec_flags {
	LL_SPEC_INHERITABLE = 1u << 0,	/* I: a child that executes nothing of its own specification gets one, too */
	LL_SPEC_REVOCABLE = 1u << 1,	/* R: it may be taken back when there is too much load, and comes after the rest then, and after logins */
	LL_SPEC_BEST_EFFORT = 1u << 2,	/* type BE: it wants no reservation, and inherits none */
	LL_SPEC_LOGIN = 1u << 3,	/* L: root's processes of it and those that they start are of class HUCOUT for a while */
	LL_SPEC_INTERACTIVE_PARENT = 1u << 4,	/* P: only for who was executed by an interactive process, its child or grandchild soon */
};

/* What one executable asks for. Map `specs`. Writer: the daemon, before any process is looked at, and when it is told to read its files again. */
struct ll_spec {
	u64 runtime_ns;		/* C: this much CPU ... */
	u64 period_ns;		/* T: ... in every so much time; 0 with LL_SPEC_BEST_EFFORT */
	u32 flags;		/* enum ll_spec_flags */
	u32 id;			/* which specification this is, for the daemon */
};

enum ll_reservation_state {
	LL_RESERVATION_NONE = 0,	/* this one is free */
	LL_RESERVATION_ADMITTED = 1,
	LL_RESERVATION_REFUSED = 2,	/* there was no room when it was asked for */
	LL_RESERVATION_REVOKED = 3,	/* it was taken back: there was too much load */
	LL_RESERVATION_RETIRED = 4,	/* its specification is no longer in force, or the process has left it */
};

/*
 * The reservation of one process, which its threads share, and for the first moment its children (section 3). Map `reservations`, after a lock of
 * 8 bytes. Writer: BPF. The daemon reads it without the lock: each figure is right, not all are of the same moment.
 */
struct ll_reservation {
	u64 runtime_ns;		/* C */
	u64 period_ns;		/* T */
	u64 start_ns;		/* of the period that is under way, on the clock of scx_bpf_now(); may be in the future */
	u64 deadline_ns;	/* and its end; 0: none has begun */
	s64 budget_ns;		/* what is left of C in it */
	u64 late_deadline_ns;	/* of the last period in which it came after all others, for an overload */
	u64 reserved_ns;	/* CPU that it got on the reservation, since it was admitted first */
	u64 used_ns;		/* and altogether, what was left over by others, too */
	u64 periods;		/* periods in which it wanted all of C */
	u64 missed;		/* and of these the ones at whose end there was budget left */
	u64 since_s;		/* seconds of the scheduler's since it was admitted, refused or revoked */
	u32 window_us[4];	/* reserved_ns of the last seconds, the newest at second & 3 */
	u32 second_us;		/* and of the one that is under way */
	u32 exhausted;		/* bit n: in the second n before the last it used up a budget before the deadline */
	u32 state;		/* enum ll_reservation_state */
	u32 flags;		/* enum ll_spec_flags */
	u32 spec;		/* id of its specification */
	u32 tgid;		/* the process */
	u32 home;		/* the CPU that it is entitled to */
	u32 bandwidth_ppm;	/* C / T */
	u32 tasks;		/* that hold it; it is free when there are none */
	u32 wanting;		/* of these, the ones that run or want to */
	u32 slept;		/* since its period began nobody wanted the CPU for a while, by intent */
	u32 overdue;		/* the deadline has passed with budget left */
	u32 judged_load_ppm;	/* revoked: R_load of its CPU at that moment ... */
	u32 judged_max_ppm;	/* ... was more than this, R_max, ... */
	u32 judged_use_ppm;	/* ... and this much was what it had got on the reservation in the window */
	u32 serves;		/* whoever of it ran last was of class HUCIN or HUCOUT */
	u32 retired_ppm;	/* retired: what it was admitted with until then; 0: it was not */
	u32 pad;
};

/* What reservations take of one CPU, in parts per million of it. Map `loads`, key: CPU. Writer: BPF, once a second. */
struct ll_cpu_load {
	u32 recent_ppm;		/* R_load */
	u32 expected_ppm;	/* S_load */
	u32 admitted_ppm;	/* the sum of C / T of those admitted, which a real-time system would go by */
	u32 reservations;	/* how many these are */
	u32 huc_ppm;		/* what tasks of the HuC classes took without one, in the same time as R_load */
};

/* Argument of the program ll_identify: in, an open file of the daemon's; out, what it is. */
struct ll_identify_args {
	u32 fd;
	u32 pad;
	struct ll_file file;
};

/* What the daemon asks of the program ll_reserve. */
enum ll_reserve_op {
	LL_RESERVE_ADOPT = 0,	/* look at a task that runs already, as if it had just executed its program */
	LL_RESERVE_REACTIVATE = 1,	/* submit a reservation, refused or revoked, to admission again */
	LL_RESERVE_RETIRE = 2,	/* take one back for good */
	LL_RESERVE_ASSIGN = 3,	/* submit `spec` to admission for a process that runs already, whatever it executes */
	LL_RESERVE_SPECS = 4,	/* so many executables have a specification now */
};

/*
 * Argument of the program ll_reserve. It returns 0, or -ESRCH, -ENOENT (nothing of the kind), -EBUSY (no room), -EAGAIN (not the process it
 * was), -EPERM (of another user).
 */
struct ll_reserve_args {
	u32 op;			/* enum ll_reserve_op */
	u32 number;		/* of a task (adopt, assign), of a reservation, or of specifications */
	u32 tgid;		/* whose that reservation is */
	u32 uid;		/* assign: for root any process's, for others one with all the rights of this user, and no more */
	struct ll_spec spec;	/* assign */
};

/*
 * Counters, one per CPU, summed by the daemon. X(name, description): this list is the only place that names them.
 */
#define LL_STATS(X)                                                                                                     \
	X(wakeups_direct, "wake-ups that went straight to an idle CPU, or to be the next on a busy one")                \
	X(wakeups_preempting, "wake-ups that took the CPU from something less urgent")                                  \
	X(wakeups_queued, "wake-ups that waited in a class queue")                                                      \
	X(dispatched_hucin, "tasks of class HUCIN taken from their queue")                                              \
	X(dispatched_hucout, "tasks of class HUCOUT taken from their queue")                                            \
	X(dispatched_other, "tasks of class OTHER taken from their queue")                                              \
	X(share_grants, "slices that the guaranteed share gave to a lower class while a higher one waited")             \
	X(kthreads_passed, "times that a kernel thread working for others made way for a HuC task")                     \
	X(rescues, "tasks moved ahead because they had waited too long")                                                \
	X(edges_recorded, "wake-ups recorded as edges of the dependency graph")                                         \
	X(edges_lost, "wake-ups not recorded because the edge map was full")                                            \
	X(lent, "processes that became HuC because a HUCIN process woke them")                                          \
	X(inherited, "processes that became HuC because a HuC process forked them")                                     \
	X(reclassified, "waiting tasks moved to another queue because their rating changed")                            \
	X(lent_for_lock, "tasks lent the class of a HuC task, or HUCIN of a real-time one, that waits for a lock they hold") \
	X(coop_due, "waiting cooperative threads that ran because their release was due")                               \
	X(coop_behind, "due releases that were put behind other users', since their own user had had its part")            \
	X(coop_overran, "times that a cooperative thread was demoted for running on after its slice and the slack") \
	X(coop_slept, "times that one was demoted for sleeping elsewhere")                                              \
	X(coop_ahead, "times that the release of one was not kept because it was ahead of its class")                    \
	X(reserved_admitted, "reservations admitted, reactivated ones included")                                        \
	X(reserved_refused, "reservations refused because there was no room on any CPU")                                \
	X(reserved_revoked, "reservations taken back because there was too much load")                                  \
	X(reserved_dispatched, "waiting tasks that ran because of their reservation")                       \
	X(reserved_sought, "times that one of those was not in its queue yet and was looked for again")

enum ll_stat_id {
#define LL_STAT_ID(name, desc) LL_STAT_##name,
	LL_STATS(LL_STAT_ID)
#undef LL_STAT_ID
	LL_NR_STATS,
};

_Static_assert(sizeof(struct ll_rating) == 32, "struct ll_rating crosses the boundary");
_Static_assert(sizeof(struct ll_edge) == 8, "struct ll_edge crosses the boundary");
_Static_assert(sizeof(struct ll_page_owner) == 8, "struct ll_page_owner crosses the boundary");
_Static_assert(sizeof(struct ll_consents) == 136, "struct ll_consents crosses the boundary");
_Static_assert(sizeof(struct ll_publish_args) == 8, "struct ll_publish_args crosses the boundary");
_Static_assert(sizeof(struct ll_file) == 16, "struct ll_file crosses the boundary");
_Static_assert(sizeof(struct ll_spec) == 24, "struct ll_spec crosses the boundary");
_Static_assert(sizeof(struct ll_reservation) == 176, "struct ll_reservation crosses the boundary");
_Static_assert(sizeof(struct ll_cpu_load) == 20, "struct ll_cpu_load crosses the boundary");
_Static_assert(sizeof(struct ll_identify_args) == 24, "struct ll_identify_args crosses the boundary");
_Static_assert(sizeof(struct ll_reserve_args) == 40, "struct ll_reserve_args crosses the boundary");
_Static_assert(sizeof(struct ll_proc_stats) == 280, "struct ll_proc_stats crosses the boundary");

#endif /* LIMELIGHT_SCHED_ABI_H */
