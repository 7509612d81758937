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

#ifndef __VMLINUX_H__
typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;
#endif

/* Scheduling classes, most urgent first (HuC, Table 2). FIFO, RR and DEADLINE stay with the kernel, above all of these. */
enum ll_class {
	LL_CLASS_KTHREAD = 0,	/* kernel threads, but for those that the kernel itself has made nice */
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
	X(rescues, "tasks moved ahead because they had waited too long")                                                \
	X(edges_recorded, "wake-ups recorded as edges of the dependency graph")                                         \
	X(edges_lost, "wake-ups not recorded because the edge map was full")                                            \
	X(lent, "processes that became HuC because a HUCIN process woke them")                                          \
	X(inherited, "processes that became HuC because a HuC process forked them")                                     \
	X(reclassified, "waiting tasks moved to another queue because their rating changed")                            \
	X(lent_for_lock, "tasks lent the class of a HuC task that waits for a lock they hold")

enum ll_stat_id {
#define LL_STAT_ID(name, desc) LL_STAT_##name,
	LL_STATS(LL_STAT_ID)
#undef LL_STAT_ID
	LL_NR_STATS,
};

_Static_assert(sizeof(struct ll_rating) == 32, "struct ll_rating crosses the boundary");
_Static_assert(sizeof(struct ll_edge) == 8, "struct ll_edge crosses the boundary");
_Static_assert(sizeof(struct ll_publish_args) == 8, "struct ll_publish_args crosses the boundary");
_Static_assert(sizeof(struct ll_proc_stats) == 280, "struct ll_proc_stats crosses the boundary");

#endif /* LIMELIGHT_SCHED_ABI_H */
