// SPDX-License-Identifier: MIT
#include "testing.h"

#include <dirent.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A case that hangs is a failure, soon. */
#define PATIENCE_S 120

static struct test_case *cases;

void add_case(struct test_case *one)
{
	one->next = cases;
	cases = one;
}

int main(int argc, char **argv)
{
	const bool lists = argc == 2 && !strcmp(argv[1], "--list");

	for (const struct test_case *one = cases; one; one = one->next) {
		if (lists)
			puts(one->name);
		if (argc != 2 || strcmp(argv[1], one->name))
			continue;
		alarm(PATIENCE_S);
		one->run();
		return 0;
	}
	if (lists)
		return 0;
	fprintf(stderr, "usage: %s CASE | --list\n", argv[0]);
	return 2;
}

void skip(const char *why)
{
	fprintf(stderr, "%s\n", why);
	exit(77);
}

struct coop *new_coop(void)
{
	struct coop *coop;

	CHECK_EQ(coop_new(&coop), 0);
	return coop;
}

struct coop_event timer_at(uint64_t release, coop_callback callback, void *user)
{
	return (struct coop_event){ .type = COOP_TIMER, .release = release, .callback = callback, .user = user };
}

struct coop_event best_effort_of(uint64_t user_virtual_time, coop_callback callback, void *user)
{
	return (struct coop_event){ .type = COOP_BEST_EFFORT, .user_virtual_time = user_virtual_time, .callback = callback, .user = user };
}

struct coop_event descriptor_of(int fd, uint32_t events, coop_callback callback, void *user)
{
	return (struct coop_event){ .type = COOP_DESCRIPTOR, .fd = fd, .events = events, .callback = callback, .user = user };
}

void submit_ready(struct coop *coop, struct coop_event *readers, size_t count, coop_callback callback)
{
	int ends[2];

	CHECK_EQ(pipe(ends), 0);
	CHECK_EQ(write(ends[1], "x", 1), 1);
	for (size_t i = 0; i < count; i++) {
		readers[i] = descriptor_of(dup(ends[0]), POLLIN, callback, NULL);
		CHECK_EQ(coop_submit(coop, &readers[i]), 0);
	}
}

void stop_now(struct coop *coop, struct coop_event *event)
{
	(void)event;
	CHECK_EQ(coop_stop(coop), 0);
}

void burn(uint64_t ns)
{
	const uint64_t end = coop_now() + ns;

	while (coop_now() < end)
		;
}

uint64_t next_random(void)
{
	static _Thread_local uint64_t state = 88172645463325252ull;

	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return state * 2685821657736338717ull;
}

int open_descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	int count = 0;

	CHECK(folder != NULL);
	while (readdir(folder))
		count++;
	closedir(folder);
	/* Not the two dots and the folder's own. */
	return count - 3;
}

void settle_in(void)
{
	for (int i = 0; i < 20; i++)
		CHECK_EQ(poll(NULL, 0, 10), 0);
}
