/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The process dependency graph: who wakes whom (HuC, section 4.2).
 *
 * Only edges that touch a rated process are recorded. No other edge can carry a rating: PDG_in spreads from a rated waker,
 * PDG_out to whoever wakes a rated process, and each process that is reached becomes rated itself. So on a machine where nobody is
 * at the desk this costs one load and one branch per wake-up.
 *
 * Wake-ups in interrupt context have no waker. Neither have those by kernel threads, with one exception: what is written to
 * a terminal reaches its reader by a work item (flush_to_ldisc), so that work item acts for whoever queued it. Without
 * it the chain X -> xterm -> shell of the paper's Figure 5 would end at xterm.
 */
#ifndef LIMELIGHT_EDGES_H
#define LIMELIGHT_EDGES_H

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, LL_MAX_EDGES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct ll_edge);
	__type(value, u64);
} edges SEC(".maps");

/* Whoever causes a wake-up: its process, and what it has used of its budget. */
struct waker {
	u32 tgid;		/* 0: nobody */
	u32 pad;
	u64 indirect_ran_ns;
};

/* Terminal work items in flight: work item -> whoever queued it last. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, struct waker);
} tty_work SEC(".maps");

/* Kernel workers that run such an item now: pid of the worker -> whom it acts for. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, struct waker);
} acting_for SEC(".maps");

/* Address of flush_to_ldisc, by which its work items are known; 0 where the kernel does not say. */
u64 tty_work_func;

/*
 * Before the scheduler is attached. Not an extern __ksym: for that libbpf reads the whole of /proc/kallsyms, which was a third of the
 * time that loading takes.
 */
SEC("syscall")
int ll_find_symbols(void *args)
{
	static const char name[] = "flush_to_ldisc";

	return bpf_kallsyms_lookup_name(name, sizeof(name), 0, &tty_work_func);
}

/*
 * Until when wake-ups are recorded although nobody serves the person yet. A key reaches its client, and the client its shell,
 * before anybody can report the key: so what happens right after a hub woke somebody is kept, whoever it touches.
 */
u64 hub_woke_until_ns;

static bool after_hub_wake(void)
{
	u64 until = hub_woke_until_ns;

	if (!until)
		return false;
	if (scx_bpf_now() < until)
		return true;
	/* Over: whoever asks next need not read the clock. Unless a hub has woken somebody meanwhile. */
	__sync_val_compare_and_swap(&hub_woke_until_ns, until, 0);
	return false;
}

static bool is_tracking(void)
{
	return tracking || after_hub_wake();
}

static bool is_tty_work(struct work_struct *work)
{
	return tty_work_func && (u64)work->func == tty_work_func;
}

static void describe_waker(struct task_struct *task, struct waker *waker)
{
	struct task_ctx *tctx = task_ctx_of(task);

	waker->tgid = task->tgid;
	waker->indirect_ran_ns = tctx ? tctx->indirect_ran_ns : 0;
}

SEC("tp_btf/workqueue_queue_work")
int BPF_PROG(ll_queue_work, int req_cpu, struct pool_workqueue *pwq, struct work_struct *work)
{
	struct waker waker = {};
	u64 key = (u64)work;

	if (!is_tty_work(work) || !is_tracking() || !bpf_in_task())
		return 0;
	describe_waker(bpf_get_current_task_btf(), &waker);
	bpf_map_update_elem(&tty_work, &key, &waker, BPF_ANY);
	return 0;
}

SEC("tp_btf/workqueue_execute_start")
int BPF_PROG(ll_execute_start, struct work_struct *work)
{
	u32 worker = bpf_get_current_pid_tgid();
	u64 key = (u64)work;
	struct waker *waker;

	if (!is_tty_work(work) || !is_tracking())
		return 0;
	waker = bpf_map_lookup_elem(&tty_work, &key);
	if (waker)
		bpf_map_update_elem(&acting_for, &worker, waker, BPF_ANY);
	return 0;
}

/* Not tp_btf: before 7.0 the verifier refuses its second argument, a pointer to a function. */
SEC("raw_tp/workqueue_execute_end")
int BPF_PROG(ll_execute_end, struct work_struct *work, void *function)
{
	u32 worker = bpf_get_current_pid_tgid();

	/* Not conditional on is_tracking(): an entry left behind would misattribute this worker's later wake-ups. */
	if (tty_work_func && (u64)function == tty_work_func)
		bpf_map_delete_elem(&acting_for, &worker);
	return 0;
}

/* Whose doing is the wake-up that is under way? */
static bool find_waker(struct waker *waker)
{
	struct task_struct *current = bpf_get_current_task_btf();
	u32 worker = current->pid;
	struct waker *behind;

	if (!bpf_in_task() || !worker)
		return false;
	if (!is_kthread(current)) {
		describe_waker(current, waker);
		return true;
	}
	behind = bpf_map_lookup_elem(&acting_for, &worker);
	if (behind)
		*waker = *behind;
	return behind;
}

static void record_edge(u32 from_tgid, u32 to_tgid)
{
	struct ll_edge edge = { .from_tgid = from_tgid, .to_tgid = to_tgid };
	u64 one = 1, *weight = bpf_map_lookup_elem(&edges, &edge);

	if (weight)
		__sync_fetch_and_add(weight, 1);
	else if (bpf_map_update_elem(&edges, &edge, &one, BPF_NOEXIST)) {
		count(LL_STAT_edges_lost);
		return;
	}
	count(LL_STAT_edges_recorded);
}

/* @waker is HUCIN: lend its rating to @p where that has none, renew what @p may answer with where it has. */
static void lend_rating(struct task_struct *p, struct task_ctx *tctx, const struct waker *waker)
{
	renew_budget(tctx, waker->indirect_ran_ns);
	if (tctx->class > LL_CLASS_HUCIN && give_rating(p, waker->tgid, LL_RATING_LENT)) {
		/* Not new input: it has what its waker has left. */
		tctx->has_input = 1;
		count(LL_STAT_lent);
	}
	refresh_rating(p, tctx);
}

/* Somebody wakes the daemon. */
static void note_call(struct task_struct *p, struct task_ctx *tctx)
{
	struct waker waker = {};
	struct ll_rating *from = find_waker(&waker) ? bpf_map_lookup_elem(&ratings, &waker.tgid) : NULL;

	wake_daemon(p, tctx, from && (from->flags & LL_RATING_HELPER));
}

/* Somebody wakes @p: an edge of the graph, and what the waker's rating does for @p. */
static void record_wakeup(struct task_struct *p, struct task_ctx *tctx)
{
	struct waker waker = {};
	struct ll_rating *from;

	if (is_kthread(p) || !find_waker(&waker))
		return;
	from = bpf_map_lookup_elem(&ratings, &waker.tgid);
	if (waker.tgid != p->tgid && (from || is_huc_class(tctx->class) || after_hub_wake()))
		record_edge(waker.tgid, p->tgid);
	if (from && from->in_milli && !(from->flags & (LL_RATING_HUB | LL_RATING_SELF)))
		lend_rating(p, tctx, &waker);
}

/* Somebody wakes @p. Inline, for where nobody is at the desk there is nothing to note. */
static __always_inline void note_wakeup(struct task_struct *p, struct task_ctx *tctx)
{
	if (this_cpu_ctx()->runs_hub) {
		tctx->hub_woke_at_ns = scx_bpf_now();
		hub_woke_until_ns = tctx->hub_woke_at_ns + HUB_WAKE_NS;
	}
	if (tctx->rating_flags & LL_RATING_SELF)
		note_call(p, tctx);
	else if (is_tracking())
		record_wakeup(p, tctx);
}

#endif /* LIMELIGHT_EDGES_H */
