// SPDX-License-Identifier: MIT
#include "watcher.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "testing.h"

struct coop_slot *watched;
struct coop_request asleep;
static atomic_bool is_watching, has_begun;

struct waiting nothing(void)
{
	struct epoll_event interest = { .events = EPOLLIN };
	struct waiting waiting = { .timer = -1, .set = epoll_create1(EPOLL_CLOEXEC) };
	int ends[2];

	CHECK_EQ(pipe(ends), 0);
	waiting.pipe = ends[0];
	CHECK_EQ(epoll_ctl(waiting.set, EPOLL_CTL_ADD, waiting.pipe, &interest), 0);
	return waiting;
}

void set_timer(int timer, uint64_t when)
{
	const struct itimerspec setting = { .it_value = { .tv_sec = (time_t)(when / 1000000000), .tv_nsec = (long)(when % 1000000000) } };

	CHECK_EQ(timerfd_settime(timer, TFD_TIMER_ABSTIME, &setting, NULL), 0);
}

int new_timer(uint64_t when)
{
	const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);

	CHECK(timer >= 0);
	set_timer(timer, when);
	return timer;
}

static void *watch(void *data)
{
	has_begun = true;
	for (; is_watching; usleep(500))
		if (__atomic_load_n(&watched->request.state, __ATOMIC_ACQUIRE) == COOP_STATE_SLEEPS)
			asleep = watched->request;
	return data;
}

struct coop_request seen_while(const struct way *way, const struct waiting *waiting, int timeout_ms, int result)
{
	pthread_t watcher;

	memset(&asleep, 0, sizeof(asleep));
	is_watching = true;
	has_begun = false;
	CHECK_EQ(pthread_create(&watcher, NULL, watch, NULL), 0);
	while (!has_begun)
		usleep(100);
	CHECK_EQ(way->wait(waiting, timeout_ms), result);
	is_watching = false;
	pthread_join(watcher, NULL);
	CHECK_EQ(watched->request.state, COOP_STATE_RUNS);
	return asleep;
}

bool has_seen_nothing(void)
{
	static int times;

	CHECK(asleep.tid || ++times < 20);
	return !asleep.tid;
}

struct server *begin_timed(void)
{
	struct server *server = begin();
	const uint64_t end = coop_now() + 20 * 1000 * MS;

	while (!own_slot()) {
		CHECK(coop_now() < end);
		CHECK_EQ(poll(NULL, 0, 5), 0);
		shared = server_page(server);
	}
	watched = own_slot();
	return server;
}
