/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How many each user has of what there is a limited number of, so that no user but root takes all.
 */
#ifndef LIMELIGHT_USERS_H
#define LIMELIGHT_USERS_H

/* By user id, but root's, who has no limit; no entry is none. */
struct user_counts {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, COOP_MAX_PAGES);
	__type(key, u32);
	__type(value, u32);
};

enum { DISMISS_TRIES = 64 };	/* each that fails means that another CPU has changed the count meanwhile */

/* May @uid have one more of what @users counts, of which each user but root may have @most? Then it has. */
static bool admit_user(void *users, u32 uid, u32 most)
{
	u32 none = 0, *has;

	if (!uid)
		return true;
	has = bpf_map_lookup_elem(users, &uid);
	if (!has) {
		bpf_map_update_elem(users, &uid, &none, BPF_NOEXIST);
		has = bpf_map_lookup_elem(users, &uid);
	}
	if (!has)
		return false;
	if (*has < most) {
		__sync_fetch_and_add(has, 1);
		return true;
	}
	return false;
}

/*
 * @uid has one less. A user's last one may leave while another comes: then that is one more than allowed, or counted for the user who comes in this
 * one's place in the map. It is never less than none.
 */
static void dismiss_user(void *users, u32 uid)
{
	u32 *has = uid ? bpf_map_lookup_elem(users, &uid) : NULL, was, i;

	if (!has)
		return;
	bpf_for(i, 0, DISMISS_TRIES) {
		was = READ_ONCE(*has);
		if (!was || __sync_val_compare_and_swap(has, was, was - 1) == was)
			break;
	}
	if (!READ_ONCE(*has))
		bpf_map_delete_elem(users, &uid);
}

#endif /* LIMELIGHT_USERS_H */
