/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How many each user has of what there is a limited number of, so that no user but root takes all; and for how long each one's releases have run of
 * late, so that no user's are late because of another's.
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

/*
 * By user id, root's too: what has run on each CPU for releases, that is, before who would have been next otherwise. Many threads of one user that
 * are all due at one moment would make those of others late by as much as they take together. So who has run for releases for half of the time, and
 * a little, comes after who has not (part_releases()).
 *
 * What it is bad at: of two users who both use more than that, nobody is modest, and the earlier release is first; so it is for those releases of a
 * modest one that came while it was over for a moment. The programs of one user are not told apart, and one with many user ids, of a namespace say,
 * is as many users. Should there be so many users that somebody's bucket is given to another, that one's is empty again.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_PERCPU_HASH);
	__uint(max_entries, COOP_MAX_PAGES);
	__type(key, u32);
	__type(value, struct ll_bucket);
} release_buckets SEC(".maps");

/*
 * Has what @uid has run for releases on @cpu left it a part? By coop_now(). Not static, nor are others that are asked for cooperative threads only:
 * the verifier would look at them at each of the places.
 */
__weak bool has_part(u32 uid, u32 cpu, u64 now)
{
	struct ll_bucket *bucket = bpf_map_lookup_percpu_elem(&release_buckets, &uid, cpu);

	return !bucket || !ll_bucket_is_over(bucket, now);
}

/*
 * @uid has run for a release, for @ran_ns until now; @now may be when that began. Where that was another CPU, and this one changes the task, it is
 * this one's to count, which is as rare as that.
 */
__weak int use_part(u32 uid, u64 ran_ns, u64 now)
{
	struct ll_bucket *bucket = bpf_map_lookup_elem(&release_buckets, &uid), first = {};

	if (bucket) {
		ll_bucket_fill(bucket, ran_ns, now);
		return 0;
	}
	ll_bucket_fill(&first, ran_ns, now);
	return bpf_map_update_elem(&release_buckets, &uid, &first, BPF_ANY);
}

#endif /* LIMELIGHT_USERS_H */
