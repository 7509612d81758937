/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How many each user has of what there is a limited number of, so that no user but root takes all.
 */
#ifndef LIMELIGHT_USERS_H
#define LIMELIGHT_USERS_H

/* By user id, root's too; no entry is none. */
struct user_counts {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, COOP_MAX_PAGES);
	__type(key, u32);
	__type(value, u32);
};

/* May @uid have one more of what @users counts, of which each user but root may have @most? Then it has. */
static bool admit_user(void *users, u32 uid, u32 most)
{
	u32 none = 0, *has;

	has = bpf_map_lookup_elem(users, &uid);
	if (!has) {
		bpf_map_update_elem(users, &uid, &none, BPF_NOEXIST);
		has = bpf_map_lookup_elem(users, &uid);
	}
	if (!has)
		return false;
	if (!uid || *has < most) {
		__sync_fetch_and_add(has, 1);
		return true;
	}
	return false;
}

/* @uid has one less. A user's last one may leave while another comes: then that is one more than allowed. */
static void dismiss_user(void *users, u32 uid)
{
	u32 *has = bpf_map_lookup_elem(users, &uid);

	if (has && __sync_fetch_and_sub(has, 1) == 1)
		bpf_map_delete_elem(users, &uid);
}

#endif /* LIMELIGHT_USERS_H */
