// SPDX-License-Identifier: GPL-2.0-only
/*
 * vandal: a process that has a page of cooperative polling and writes nonsense all over it, header, requests and answers, between calls that give
 * up the CPU in every way there is, shares groups, joins them and leaves them with tokens right and wrong, and now and then begins anew by an exec
 * of a second thread of its own, cooperative too, which goes on under the process's id. It can harm nobody but itself (design, promise 10).
 */
#include "page.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#define PAGE_BYTES (256 * 128)
/* Rounds before it begins anew, on the average: about a second. */
#define ROUNDS_OF_A_LIFE 1000
/* And until it asks: below what closes its connection. */
#define ROUNDS_OF_A_QUESTION 30

/* Where libcoop has mapped the page; NULL where it has none. */
static uint32_t *find_page(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long begin = 0, end;
	char line[512];

	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, "bpf-map") && sscanf(line, "%lx-%lx", &begin, &end) == 2 && end - begin >= PAGE_BYTES)
			break;
		else
			begin = 0;
	if (maps)
		fclose(maps);
	return (uint32_t *)begin;
}

/* The first of a process to get here goes on as its only thread. */
static void *begin_anew(void *seconds)
{
	struct coop_event timer = { .type = COOP_TIMER, .release = now_ns() + NS_PER_MS };
	char seed[24];

	coop_poll(1, &timer, NULL);
	snprintf(seed, sizeof(seed), "%u", (unsigned int)(now_ns() % UINT32_MAX) + 1);
	execl("/proc/self/exe", "vandal", seconds, seed, NULL);
	return NULL;
}

/* One of its own mostly; and a token that is right, one that was, or one that nobody has given. */
static void ask_about_a_group(struct random_state *random)
{
	static struct coop_token token;
	const uint32_t gid = (uint32_t)random_between(random, 0, 12);

	switch (random_next(random) % 5) {
	case 0: coop_share_group(gid, &token); break;
	case 1: coop_unshare_group(gid); break;
	case 2: coop_join_group(gid, &token); break;
	case 3: coop_leave_group(gid); break;
	default: token.bytes[random_next(random) % sizeof(token.bytes)] ^= 1; break;
	}
}

int main(int argc, char **argv)
{
	struct coop_event timer = { .type = COOP_TIMER }, work = { .type = COOP_BEST_EFFORT };
	struct random_state random;

	if (argc != 3)
		die_usage("usage: vandal SECONDS SEED");
	const uint64_t end_ns = now_ns() + parse_number("SECONDS", argv[1], 1, 3600) * NS_PER_S;
	random_seed(&random, parse_number("SEED", argv[2], 1, UINT32_MAX));
	wait_for_page();
	uint32_t *page = find_page();
	if (!page)
		die_usage("there is no page: is limelight running?");
	const uint32_t tid = (uint32_t)gettid();
	for (uint64_t round = 0; now_ns() < end_ns; round++) {
		for (int word = 0; word < 64; word++)
			page[random_next(&random) % (PAGE_BYTES / 4)] = round % 3 ? (uint32_t)random_next(&random) : tid;
		timer.release = random_next(&random);
		work.user_virtual_time = random_next(&random);
		if (random_between(&random, 1, ROUNDS_OF_A_LIFE) == 1) {
			char left_s[24];
			pthread_t thread;

			snprintf(left_s, sizeof(left_s), "%llu", (unsigned long long)((end_ns - now_ns()) / NS_PER_S + 1));
			if (!pthread_create(&thread, NULL, begin_anew, left_s))
				pthread_join(thread, NULL);
		}
		if (random_between(&random, 1, ROUNDS_OF_A_QUESTION) == 1)
			ask_about_a_group(&random);
		switch (random_next(&random) % 4) {
		case 0: coop_poll((uint32_t)random_next(&random), &timer, &work); break;
		case 1: sched_yield(); break;
		case 2: usleep(100); break;
		default: burn_cpu_ns(random_between(&random, 0, 3 * NS_PER_MS)); break;
		}
	}
	return 0;
}
