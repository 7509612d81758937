/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the daemon has entered for a cooperative process: its page (coop.bpf.h), and the groups of other users that it may use (group.bpf.h).
 * Everything here is the daemon's to write and ours to read.
 */
#ifndef LIMELIGHT_PAGE_H
#define LIMELIGHT_PAGE_H

/* Never used: libbpf has to find the whole type of a cell in the object's BTF to make the inner map's description. */
struct coop_slot coop_slot_type;

/* The page of one process: cell 0 is its header, each of the others the slot of a thread. */
struct coop_page {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, COOP_PAGE_CELLS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct coop_slot);
};

/*
 * Pages by number, most of them before anybody has asked: to change a map of maps takes a grace period of RCU, which takes seconds where somebody
 * whom nobody waits for is preempted as a reader. Writer: the daemon, as of the next two.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, COOP_MAX_PAGES);
	__type(key, u32);
	__array(values, struct coop_page);
} coop_pages SEC(".maps");

/* The number of the page by tgid, which the daemon has from the kernel (SO_PEERCRED). */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, COOP_MAX_PAGES);
	__type(key, u32);
	__type(value, u32);
} coop_numbers SEC(".maps");

/* And whose it is by number. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, COOP_MAX_PAGES);
	__type(key, u32);
	__type(value, struct ll_page_owner);
} coop_owners SEC(".maps");

/*
 * Consents by page number: the groups of others that a process has been let into. An array, as no element of it becomes another process's under our
 * eyes (find_number()), and mapped by the daemon, which so changes a word at a time: a name only where the gid beside it is 0, and `changes`
 * last.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, COOP_MAX_PAGES);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct ll_consents);
} coop_consents SEC(".maps");

/* Is @number that of the page of process @tgid? */
static bool is_owner(u32 number, u32 tgid)
{
	struct ll_page_owner *owner = bpf_map_lookup_elem(&coop_owners, &number);

	return owner && READ_ONCE(owner->tgid) == tgid;
}

/*
 * The number of the page of @p's process; COOP_MAX_PAGES where it has none. An element of a hash map may be another key's by the time it is read:
 * so the owner is asked, too. What is found is used in this call of ours only: the daemon gives a number to the next one when all calls that may
 * have read it are over.
 */
static u32 find_number(const struct task_struct *p)
{
	u32 tgid = p->tgid, *found = bpf_map_lookup_elem(&coop_numbers, &tgid), number;

	if (!found)
		return COOP_MAX_PAGES;
	number = READ_ONCE(*found);
	return is_owner(number, tgid) ? number : COOP_MAX_PAGES;
}

/* The same for who is cooperative: most often it is what it was in its last call, which costs a tenth of looking in the hash map. */
static u32 number_of_page(const struct task_struct *p, struct task_ctx *tctx)
{
	if (!is_owner(tctx->coop.number, p->tgid))
		tctx->coop.number = find_number(p);
	return tctx->coop.number;
}

/* The page @number; NULL for what find_number() says of who has none. */
static void *page_at(u32 number)
{
	return number < COOP_MAX_PAGES ? bpf_map_lookup_elem(&coop_pages, &number) : NULL;
}

static struct coop_slot *slot_in_page(u32 number, u32 cell)
{
	void *page = page_at(number);

	return page ? bpf_map_lookup_elem(page, &cell) : NULL;
}

static struct coop_slot *slot_of_thread(const struct task_struct *p, struct task_ctx *tctx)
{
	return slot_in_page(number_of_page(p, tctx), tctx->coop.cell);
}

/* The last change of the consents of the process with page @number; 0 where there was none, or it has no page. */
static u64 consents_now(u32 number)
{
	struct ll_consents *consents = bpf_map_lookup_elem(&coop_consents, &number);

	return consents ? READ_ONCE(consents->changes) : 0;
}

/*
 * The user who connected for page @number. Not whose rights its process has now: a file system may have it borrow some (overlayfs), and where it
 * executed a set-user-id file the page is still of who did, until the daemon sees that.
 */
static u32 user_of_page(u32 number)
{
	struct ll_page_owner *owner = bpf_map_lookup_elem(&coop_owners, &number);

	return owner ? READ_ONCE(owner->uid) : (u32)-1;
}

/*
 * The name of the group that the process with page @number calls @gid: another user's, where it has consent for that, or else its own user's. A
 * consent that is just being changed may be read as the one before: so who goes by it notes consents_now() first, and looks again when that is
 * another.
 */
static u64 group_name(u32 number, u32 gid)
{
	u64 name = (u64)user_of_page(number) << LL_GROUP_UID_SHIFT | gid;
	struct ll_consents *consents = bpf_map_lookup_elem(&coop_consents, &number);
	u32 i;

	if (!consents)
		return name;
	bpf_for(i, 0, LL_MAX_CONSENTS)
		if (READ_ONCE(consents->of[i & (LL_MAX_CONSENTS - 1)].gid) == gid)
			return READ_ONCE(consents->of[i & (LL_MAX_CONSENTS - 1)].name);
	return name;
}

#endif /* LIMELIGHT_PAGE_H */
