/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Every setting of the scheduler. Set by the loader before the program is loaded (sched/src/config.rs, which also
 * carries the text for --help and the man page) and constant afterwards, so the verifier removes what is off.
 */
#ifndef LIMELIGHT_TUNABLES_H
#define LIMELIGHT_TUNABLES_H

/* CPU ids, CPUs and last-level caches of this machine, and which cache each CPU uses. */
const volatile u32 nr_cpus = 1;
const volatile u32 nr_online = 1;
const volatile u32 nr_llcs = 1;
const volatile u8 cpu_llc[LL_MAX_CPUS];

/* Full slice of a HuC process: what the highest rated one of its class gets. */
const volatile u64 huc_slice_ns = 20000000;

/*
 * A process that is HUCIN only through others, by fork, by a wake-up or over the graph, is so for this much CPU and HUCOUT
 * afterwards, until a HUCIN task with some left wakes it: what a program needs to answer a key or to begin, but not the
 * whole compilation that a key press has started. 0 keeps it HUCIN, as in the paper.
 */
const volatile u64 indirect_budget_ns = 30000000;

/*
 * What the daemon may use as HUCIN to have a report of new input take effect: enough to rate the client, not to read the edges
 * afterwards, which takes 2 million instructions that a program would start later. Again no sooner than this, so that no flood of
 * reports keeps it HUCIN.
 */
const volatile u64 report_budget_ns = 1500000;
const volatile u64 report_period_ns = 50000000;

/*
 * Everybody in class OTHER runs once in this period, as far as the bounds below allow. Where there are so many that slices of
 * the least length would make a round longer than other_round_ns, slices are shorter still (design, promise 5). The least length is a
 * compromise, tried with hackbench: with 2 ms twice as many messages are under way, and their pages have to be cleared; with
 * 0.25 ms the switches cost more than that. It is for one CPU: the loader makes it longer where there are more (slice_factor), and has the longest
 * be a quarter of the period.
 */
const volatile u64 other_period_ns = 20000000;
const volatile u64 other_slice_min_ns = 500000;
const volatile u64 other_slice_max_ns = 5000000;
const volatile u64 other_round_ns = 350000000;

/*
 * What the guaranteed share has to go round in: with a thousand waiting for it each gets 27 us (design, promise 5). Half a round is
 * left for what is paid beside: the end of a slice comes late by up to 20 us, and a switch takes 2 to 10.
 */
const volatile u64 share_round_ns = 450000000;
const volatile u64 share_slice_min_ns = 25000;

/* The minimum slice: what a lower class gets when its share is due, and the longest a higher class waits for it. */
const volatile u64 slice_min_ns = 500000;

/* What the lower classes together are guaranteed, in thousandths of the CPU that the higher ones take. */
const volatile u32 share_pm = 60;

/* The most that the account of the guaranteed share can hold, either way. */
const volatile s64 share_cap_ns = 5000000;

/*
 * A task of the same class is preempted by a waking one that is this far behind in virtual time. Ten times what a switch
 * costs: soon enough for a program's own threads to answer each other (a player's, a client's and its server's).
 */
const volatile u64 preempt_lag_ns = 50000;

/* A task that has waited this long is moved ahead of its class. */
const volatile u64 rescue_after_ns = 600000000;

/* How long the epochs are by which those that wait are counted: the loader has four to eight of them in rescue_after_ns, or in two looks. */
const volatile u32 wait_epoch_shift = 27;

/* One of a HuC class counts there as having waited for this much more: longer than a round of a thousand of class OTHER takes. */
const volatile u64 huc_first_ns = 600000000;

/* How often waiting tasks are looked at for that. */
const volatile u64 rescue_period_ns = 100000000;

/*
 * Who holds a lock that a HuC task waits for is of that task's class for this much CPU. What khugepaged does in one go takes 24 ms, a write of
 * 16 MB 125 ms (both traced at 500 million instructions a second), and the one whom the person needs can do nothing before that: the limit is
 * only for who never lets go.
 */
const volatile u64 lock_budget_ns = 500000000;

/*
 * How long a kernel thread runs before everybody after each wake-up: more than most of them ever take. One that goes on is before all others of
 * class OTHER. Whoever serves the person waits for so long, and until a worker can be preempted (ksoftirqd between two batches of RCU's callbacks, up
 * to 0.1 ms in the laboratory): kdamond, which current kernels start by themselves, takes 2 ms at a time.
 */
const volatile u64 kthread_first_ns = 100000;

/*
 * And for how long one that works for others, and has had that, then waits for a HuC task that goes on: beside that it has a ninth of the CPU, and
 * there is a bound for who waits for its work. Beside programs that make and end threads all the time the workers that free their stacks take up
 * to 2.7 ms in one go.
 */
const volatile u64 kthread_waits_ns = 800000;

/* For how much CPU a login is of class HUCOUT: as long as one is to take at most, beside whatever else there is. */
const volatile u64 login_budget_ns = 2000000000;

/* For how long reservations that make room come after logins, of all together; a tenth of the time comes back. 0 where nobody is rated. */
const volatile u64 login_first_ns = 5000000000;

/* And by how much it, or a reader of RCU, may be ahead of its class until it goes by its weight: more than what the kernel does in one go takes. */
const volatile u64 kthread_ahead_ns = 100000000;

/*
 * How much CPU a reader of RCU has in reader_window_ns to come to the end of what it reads, and may be one again: a huge page is copied in 6 ms of
 * the laboratory's. Whoever is a reader nearly always has 1 % of a CPU by this, and one that has used it up goes on after that window: half of what
 * the kernel lets a grace period take.
 */
const volatile u64 reader_budget_ns = 100000000;
const volatile u64 reader_window_ns = 10000000000;

/* What a kernel thread of positive nice value may use after each wake-up before it goes with class OTHER. */
const volatile u64 kthread_budget_ns = 30000000;

/*
 * And what it may use as one of nice 0, of which a tenth of the time comes back: khugepaged looks at 4,096 pages, and sleeps for 10 s. What it did
 * with those took up to 0.2 s of one of four CPUs of the laboratory.
 */
const volatile u64 kthread_even_ns = 400000000;

/* How far ahead, among the tasks of one CPU: more than any two can be apart, where one of nice 19 goes through 68 s of virtual time a second. */
const volatile u64 rescue_ahead_ns = 1ULL << 60;

/*
 * Who has waited this long although it was moved ahead waits for the guaranteed share, with so many that it does not suffice.
 * The share then grows: the kernel ends a scheduler that lets a task wait for timeout_ms.
 */
const volatile u64 overdue_after_ns = 4000000000;

/* How long a cooperative thread may run on after the slice that it was told before it is preempted and demoted (section 3.2; 1 ms there). */
const volatile u64 coop_slack_ns = 1000000;

/*
 * Releases of a thread that is further ahead of its class than the longest slice and so much CPU are not kept (section 3.2: "order of ms"). An event
 * takes less than 1 ms there, and one of each of several threads may come due at once.
 */
const volatile u64 coop_ahead_ns = 4000000;

/*
 * Load of reservations on one CPU, in parts per million of it (Redline, section 6.1, which leaves the numbers open). Admission ends at R_hi.
 * Above R_max some are taken back until it is below R_hi; below R_lo they are given back. What is above R_max is for kernel threads, which
 * are before all reservations, and for the guaranteed share; between R_hi and R_max is room for a burst of those that were admitted by what
 * they use; and R_lo is so much lower that what is given back does not go at once.
 */
const volatile u32 load_low_ppm = 600000;
const volatile u32 load_high_ppm = 800000;
const volatile u32 load_max_ppm = 900000;

/* Slices shorter than this end by a timer, longer ones by the kernel's tick. */
const volatile u64 tick_ns = 4000000;

#endif /* LIMELIGHT_TUNABLES_H */
