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

/* Terminal work items in flight: work item -> tgid of whoever queued it last. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, u32);
} tty_work SEC(".maps");

/* Kernel workers that run such an item now: pid of the worker -> tgid that it acts for. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, u32);
} acting_for SEC(".maps");

extern const void flush_to_ldisc __ksym __weak;

/*
 * Until when wake-ups are recorded although nobody serves the person yet. A key reaches its client, and the client its shell,
 * before anybody can report the key: so what happens right after a hub woke somebody is kept, whoever it touches.
 */
u64 hub_woke_until_ns;

enum { HUB_WAKE_NS = 50000000 };

static bool after_hub_wake(void)
{
	return scx_bpf_now() < hub_woke_until_ns;
}

static bool is_tracking(void)
{
	return tracking || after_hub_wake();
}

static bool is_tty_work(struct work_struct *work)
{
	return &flush_to_ldisc && (void *)work->func == &flush_to_ldisc;
}

SEC("tp_btf/workqueue_queue_work")
int BPF_PROG(ll_queue_work, int req_cpu, struct pool_workqueue *pwq, struct work_struct *work)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32;
	u64 key = (u64)work;

	if (is_tty_work(work) && is_tracking() && bpf_in_task())
		bpf_map_update_elem(&tty_work, &key, &tgid, BPF_ANY);
	return 0;
}

SEC("tp_btf/workqueue_execute_start")
int BPF_PROG(ll_execute_start, struct work_struct *work)
{
	u32 worker = bpf_get_current_pid_tgid();
	u64 key = (u64)work;
	u32 *tgid;

	if (!is_tty_work(work) || !is_tracking())
		return 0;
	tgid = bpf_map_lookup_elem(&tty_work, &key);
	if (tgid)
		bpf_map_update_elem(&acting_for, &worker, tgid, BPF_ANY);
	return 0;
}

SEC("tp_btf/workqueue_execute_end")
int BPF_PROG(ll_execute_end, struct work_struct *work, void *function)
{
	u32 worker = bpf_get_current_pid_tgid();

	/* Not conditional on is_tracking(): an entry left behind would misattribute this worker's later wake-ups. */
	if (&flush_to_ldisc && function == &flush_to_ldisc)
		bpf_map_delete_elem(&acting_for, &worker);
	return 0;
}

/* Whose doing is the wake-up that is under way? 0 where it is nobody's. */
static u32 waker_tgid(struct task_struct *waker)
{
	u32 worker = waker->pid, own = waker->tgid, *tgid;

	/* Read before the branch: the verifier refuses one load through two kinds of pointer, which is what clang makes of it. */
	barrier_var(own);
	if (!bpf_in_task() || !worker)
		return 0;
	if (!is_kthread(waker))
		return own;
	tgid = bpf_map_lookup_elem(&acting_for, &worker);
	return tgid ? *tgid : 0;
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

/* Somebody wakes @p: an edge of the graph, and a rating on loan where a HUCIN process wakes one without. */
static void note_wakeup(struct task_struct *p, struct task_ctx *tctx)
{
	struct ll_rating *from;
	u32 tgid = p->tgid, from_tgid;

	if (this_cpu_ctx()->runs_hub)
		hub_woke_until_ns = scx_bpf_now() + HUB_WAKE_NS;
	if (!is_tracking() || tctx->class == LL_CLASS_KTHREAD)
		return;
	from_tgid = waker_tgid(bpf_get_current_task_btf());
	if (!from_tgid || from_tgid == tgid)
		return;
	from = bpf_map_lookup_elem(&ratings, &from_tgid);
	if (!from && !is_huc_class(tctx->class) && !after_hub_wake())
		return;
	record_edge(from_tgid, tgid);
	if (from && from->in_milli && tctx->class == LL_CLASS_OTHER && give_rating(p, from_tgid, LL_RATING_LENT)) {
		count(LL_STAT_lent);
		refresh_rating(p, tctx);
	}
}

#endif /* LIMELIGHT_EDGES_H */
