// SPDX-License-Identifier: GPL-2.0-only
/*
 * crowd N: N threads that are registered with the scheduler and sleep until a release that is far away, until it is killed. So there are many whose
 * releases have to be kept in order, and nobody who runs. "ready" is printed once all are asleep in good standing; those of a user who has more than
 * are admitted look for it less and less often.
 */
#include "common.h"

#include <coop.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* A page has places for 255. */
#define THREADS_OF_PROCESS 200
#define THREADS_MAX 10000
#define FAR_NS (1000 * NS_PER_S)
#define STACK_BYTES 65536
/* A thread looks whether it is in good standing after so long, then after twice that, and so on up to so long. */
#define LOOK_NS (100 * NS_PER_MS)
#define LOOK_MAX_NS (10 * NS_PER_S)

static _Atomic unsigned *settled; /* by all processes */

static void *sleep_cooperatively(void *number)
{
	const uint64_t far_ns = coop_now() + FAR_NS + (uintptr_t)number * NS_PER_S;
	uint64_t look_ns = LOOK_NS;

	for (;;) {
		/* With a last short sleep in good standing it is known; then comes the long one. */
		const bool is_known = coop_promise() == COOP_PROMISE_KEPT;
		struct coop_event timer = { .type = COOP_TIMER, .release = is_known ? far_ns : coop_now() + look_ns };

		if (is_known)
			atomic_fetch_add(settled, 1);
		if (coop_poll(COOP_GROUP_SELF, &timer, NULL) && !is_known)
			die_errno("a thread cannot be cooperative");
		look_ns = look_ns < LOOK_MAX_NS / 2 ? 2 * look_ns : LOOK_MAX_NS;
	}
	return NULL;
}

static void be_one_process(unsigned first, unsigned count)
{
	pthread_attr_t attributes;
	pthread_t thread;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	for (unsigned i = 0; i < count; i++)
		if (pthread_create(&thread, &attributes, sleep_cooperatively, (void *)(uintptr_t)(first + i)))
			die_errno("cannot make thread %u of %u", i + 1, count);
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	if (argc != 2)
		die_usage("usage: crowd THREADS");
	const unsigned wanted = (unsigned)parse_number("THREADS", argv[1], 1, THREADS_MAX);

	settled = mmap(NULL, sizeof(*settled), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (settled == MAP_FAILED)
		die_errno("cannot share memory to count who is there");
	for (unsigned first = 0; first < wanted; first += THREADS_OF_PROCESS) {
		const pid_t child = fork();

		if (child < 0)
			die_errno("cannot start a process");
		if (!child)
			be_one_process(first, wanted - first < THREADS_OF_PROCESS ? wanted - first : THREADS_OF_PROCESS);
	}
	while (atomic_load(settled) < wanted)
		sleep_until_ns(now_ns() + LOOK_NS);
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}
