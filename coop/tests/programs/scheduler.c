// SPDX-License-Identifier: MIT
#include "scheduler.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "testing.h"

struct coop_answer next_answer;
bool scheduler_is_there;
struct coop_slot *shared;
struct coop_request last_request;
int introductions;
int yields;
void (*on_yield)(void);

struct coop_slot *own_slot(void)
{
	const u32 tid = (u32)syscall(SYS_gettid);

	for (int i = 1; shared && i <= 31; i++)
		if (shared[i].request.tid == tid)
			return &shared[i];
	return NULL;
}

int sched_yield(void)
{
	struct coop_slot *slot = own_slot();

	/* The leak sanitizer yields, too, in whatever state that is. */
	if (slot && slot->request.state != COOP_STATE_YIELDS) {
		introductions++;
		return 0;
	}
	yields++;
	if (!scheduler_is_there || !slot)
		return 0;
	last_request = slot->request;
	if (on_yield)
		on_yield();
	next_answer.call = last_request.call;
	slot->answer = next_answer;
	return 0;
}

void answer_with(u64 release_ns, u64 slice_end_ns, u64 user_virtual_time, u32 standing)
{
	next_answer = (struct coop_answer){
		.release_ns = release_ns, .slice_end_ns = slice_end_ns, .user_virtual_time = user_virtual_time, .standing = standing,
	};
}

struct server *begin(void)
{
	struct server *server = server_start(&(struct server_faults){ 0 });

	scheduler_is_there = true;
	answer_with(COOP_NEVER, COOP_NEVER, COOP_NEVER, COOP_STANDING_GOOD);
	return server;
}

enum coop_promise promise_of_a_call(void)
{
	struct coop_event work = best_effort_of(1, NULL, NULL);

	CHECK_EQ(coop_poll(0, NULL, &work), 0);
	return coop_promise();
}

void wait_until_kept(struct server *server)
{
	const uint64_t end = coop_now() + 20 * 1000 * MS;

	do {
		CHECK(coop_now() < end);
		shared = server_page(server);
	} while (promise_of_a_call() != COOP_PROMISE_KEPT);
}

struct coop *begin_with_coop(struct server **server)
{
	struct coop *coop;

	*server = begin();
	coop = new_coop();
	CHECK_EQ(coop_promise(), COOP_PROMISE_NONE);
	wait_until_kept(*server);
	return coop;
}
