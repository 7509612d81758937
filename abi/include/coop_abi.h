/* SPDX-License-Identifier: MIT */
/*
 * The boundary between a cooperative process (libcoop) and limelight: the messages by which the process gets its page
 * from the daemon, and the page, which its threads share with the BPF scheduler. MIT, because libcoop is.
 *
 * The idea. coop_poll (EuroSys 2009, section 3.1) is no system call here. A thread writes its two events into its slot and
 * gives up the CPU: by sched_yield(), or by sleeping until its release. The scheduler sees it do so, copies the slot,
 * decides, and writes its answer into the slot before the thread runs again.
 *
 * The page is an array of cells of COOP_CELL_BYTES. Cell 0 is the header; each of the others is the slot of one thread.
 * To the scheduler it is a mappable array map with one cell an entry (or with one value of all of them), found by the
 * process id that the daemon has from the kernel (SO_PEERCRED), never from the client.
 *
 * Units: _ns is nanoseconds of CLOCK_MONOTONIC, which is bpf_ktime_get_ns(). Fixed widths, no holes, sizes asserted below.
 * The version covers everything here. What is reserved is written as 0 and ignored when read.
 *
 * Rules for the client's side
 *  1. It writes the request, `call` last, each time one higher than before, and only then gives up the CPU.
 *  2. After it has run again, an answer counts if its `call` is the request's. If not, no scheduler was there for this call,
 *     and it does without. So a scheduler that goes and comes back needs no word from anybody.
 *  3. It sets `state` to COOP_STATE_RUNS as soon as it runs again. Blocking in that state is what the paper calls
 *     non-cooperative sleep.
 *  4. A thread takes a free slot by an atomic exchange of `tid` from 0 to its own id, gives it back by setting it to 0, and
 *     writes no other thread's. The page is not inherited by fork (MADV_DONTFORK).
 *  5. Once it has a slot it makes itself known by one sched_yield(), with COOP_STATE_RUNS: the scheduler looks at the pages of
 *     threads only that it knows, or it would have to look for one whenever anybody on the machine sleeps.
 *
 * Rules for the scheduler's side
 *  1. The process can write every byte of its page at any time, header, answers and other threads' slots included. Copy a
 *     request once and judge the copy; never read back an answer; never take a length or an index from the page.
 *  2. Read the request where the thread itself gives up the CPU: in ops.yield, which is also where it becomes known, and where
 *     it stops to sleep (ops.stopping with runnable = false, and not where somebody changes it while it runs) with
 *     COOP_STATE_SLEEPS. Its own writes are visible there without barriers.
 *  3. Answer whenever it begins to run or goes on: in ops.running, and in the dispatch after a yield to nobody. Write `call` last.
 *  4. `tid` is the id that the thread sees in its own pid namespace. The slot of a task is the first one whose `tid` equals
 *     thread_pid->numbers[thread_pid->level].nr; remember its index, let go of it where that slot's `tid` has become another
 *     or the task has another pid (exec), and set it to 0 when the task exits.
 *  5. Any release is legal: one in the past is due, one in a million years never comes. Any user virtual time and any group
 *     is legal, too. A group is named within a user: the pair (user who connected, gid) names one, so that who is
 *     of the same user has its owner's consent. Who is of another needs a token (struct coop_ask).
 *  6. A thread may stay in COOP_STATE_SLEEPS while it runs, if it sleeps in somebody else's loop (coop_get_fd): it sleeps
 *     cooperatively wherever it next blocks, with the release that stands in the slot then, and so again and again on one call.
 */
#ifndef LIMELIGHT_COOP_ABI_H
#define LIMELIGHT_COOP_ABI_H

#ifndef __VMLINUX_H__
typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
#endif

/*
 * Where the daemon listens: AF_UNIX, SOCK_SEQPACKET. A hello is answered by a welcome; the connection then stays open, and its
 * end tells either side that the other one has gone. What else is asked on it, after the welcome, is about groups of several
 * users.
 */
#define COOP_SOCKET_PATH "/run/limelight/coop.sock"

enum coop_abi_limits {
	COOP_ABI_VERSION = 1,
	COOP_ABI_MAGIC = 0x706f6f63,	/* "coop" where the least significant byte comes first */
	COOP_CELL_BYTES = 128,		/* two cache lines: what the thread writes, and what the scheduler writes */
	COOP_MAX_SLOTS = 255,		/* more than that no client believes; 31 fill one page of 4096 bytes */
	COOP_PAGE_CELLS = 256,		/* cells of every page that limelight hands out: the header and COOP_MAX_SLOTS */
	COOP_MAX_PAGES = 1024,		/* processes that can have a page at once: 32 MiB of pages */
	COOP_ABI_TOKEN_BYTES = 16,
};

/* No release, no best-effort event, no other thread: later than every time, and less important than everything. */
#define COOP_ABI_NEVER (~0ULL)

/* Client to daemon: give me my page. A process that asks again, for a second copy of the library say, gets the same one. */
struct coop_hello {
	u32 magic;		/* COOP_ABI_MAGIC */
	u32 version;		/* COOP_ABI_VERSION of the client */
	u32 reserved[2];
};

/*
 * Daemon to client. With error 0 exactly one file descriptor comes along (SCM_RIGHTS): the page, to be mapped from offset 0,
 * readable, writable and shared. Where it is not a BPF map but a file, it has to be sealed against shrinking.
 */
struct coop_welcome {
	u32 magic;		/* COOP_ABI_MAGIC */
	u32 version;		/* COOP_ABI_VERSION of the daemon */
	s32 error;		/* 0, or -errno: -EPROTONOSUPPORT (version), -EDQUOT (too many of this user), -ENOSPC (in all), -EAGAIN */
	u32 slots;		/* slots of the page, 1..COOP_MAX_SLOTS */
};

/*
 * Consent of a group's owner to others' being in it is a token: bytes that nobody can guess, by which the daemon knows the group.
 * Bytes and not a descriptor, so that the daemon need not take descriptors from anybody, and a program passes it on by whatever
 * they already speak. Whoever has it can join, so it is passed on as a password is. It ends with the page of the process that
 * asked for it, or when that says so; then all who joined by it are out.
 */
enum coop_question {
	COOP_ASKS_TOKEN = 1,	/* a token for group `gid` of this user; the same one again, where this process has one */
	COOP_ASKS_WITHDRAWAL = 2,	/* that token is good no more */
	COOP_ASKS_TO_JOIN = 3,	/* what this process calls `gid` is the group that the token is for, in place of its own user's */
	COOP_ASKS_TO_LEAVE = 4,	/* it is its own user's again */
};

/* Client to daemon, who has a page. A daemon that knows no such question hangs up. */
struct coop_ask {
	u32 magic;		/* COOP_ABI_MAGIC */
	u32 version;		/* COOP_ABI_VERSION of the client */
	u32 question;		/* enum coop_question */
	u32 gid;		/* not 0 */
	u64 number;		/* which question this is; comes back with the answer */
	u8 token[COOP_ABI_TOKEN_BYTES];	/* COOP_ASKS_TO_JOIN: the one that is handed in */
};

/* Daemon to client. */
struct coop_reply {
	u32 magic;		/* COOP_ABI_MAGIC */
	u32 version;		/* COOP_ABI_VERSION of the daemon */
	s32 error;		/* 0, or -errno: see coop_share_group(3), coop_join_group(3) */
	u32 reserved;
	u64 number;		/* of the question */
	u8 token[COOP_ABI_TOKEN_BYTES];	/* COOP_ASKS_TOKEN: it */
};

/* Cell 0. Written by the daemon before it hands out the page; nobody but the client ever reads it. */
struct coop_header {
	u32 magic;		/* COOP_ABI_MAGIC */
	u32 version;		/* COOP_ABI_VERSION */
	u32 cell_bytes;		/* COOP_CELL_BYTES */
	u32 slots;		/* as in the welcome */
	u64 reserved[14];
};

/* What a thread is about to do. */
enum coop_state {
	COOP_STATE_RUNS = 0,	/* it runs its events; if it blocks, it sleeps non-cooperatively (section 3.2) */
	COOP_STATE_YIELDS = 1,	/* it is in sched_yield(), and runnable */
	COOP_STATE_SLEEPS = 2,	/* it has nothing to do before its release, or before a descriptor or a signal wakes it */
};

/* Why a thread's release was not, or will not be kept (section 3.2). Until its next call it is scheduled as any other. */
enum coop_standing {
	COOP_STANDING_GOOD = 0,
	COOP_DEMOTED_OVERRAN = 1u << 0,	/* it ran beyond its slice and the slack that it has */
	COOP_DEMOTED_SLEPT = 1u << 1,	/* it slept elsewhere */
	COOP_DEMOTED_AHEAD = 1u << 2,	/* it is ahead of the least virtual time by more than the threshold */
};

/* Written by the thread. */
struct coop_request {
	u64 call;		/* which call this is; written last */
	u64 release_ns;		/* release of its earliest timer; COOP_ABI_NEVER: it has none */
	u64 user_virtual_time;	/* least of its best-effort events; COOP_ABI_NEVER: it has none */
	u32 tid;		/* whose slot this is; 0: free */
	u32 gid;		/* its group; 0: it is alone in a group of its own */
	u32 state;		/* enum coop_state */
	u32 reserved0;
	u64 reserved[3];
};

/* Written by the scheduler. */
struct coop_answer {
	u64 call;		/* the call that is answered; written last */
	u64 release_ns;		/* earliest release of the other cooperative threads of its CPU for which it is to yield; COOP_ABI_NEVER: there is none */
	u64 slice_end_ns;	/* when the slice ends: now + min(release - now, period / N), now for a due release */
	u64 user_virtual_time;	/* least among the others of its group; COOP_ABI_NEVER: there is none */
	u32 standing;		/* enum coop_standing, of this call and of what was since the call before */
	u32 reserved0;
	u64 reserved[3];
};

struct coop_slot {
	struct coop_request request;
	struct coop_answer answer;
} __attribute__((aligned(64)));

_Static_assert(sizeof(struct coop_hello) == 16, "struct coop_hello crosses the boundary");
_Static_assert(sizeof(struct coop_welcome) == 16, "struct coop_welcome crosses the boundary");
_Static_assert(sizeof(struct coop_ask) == 40, "struct coop_ask crosses the boundary");
_Static_assert(sizeof(struct coop_reply) == 40, "struct coop_reply crosses the boundary");
_Static_assert(sizeof(struct coop_header) == COOP_CELL_BYTES, "struct coop_header is a cell");
_Static_assert(sizeof(struct coop_request) == 64, "struct coop_request is a cache line");
_Static_assert(sizeof(struct coop_answer) == 64, "struct coop_answer is a cache line");
_Static_assert(sizeof(struct coop_slot) == COOP_CELL_BYTES, "struct coop_slot is a cell");

#endif /* LIMELIGHT_COOP_ABI_H */
