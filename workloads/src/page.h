/* SPDX-License-Identifier: GPL-2.0-only */
/* What the cooperative workloads that want to do harm have in common. */
#ifndef PAGE_H
#define PAGE_H

#include "common.h"

#include <coop.h>
#include <unistd.h>

/* Waits until this process has its page; beside a load that takes a second or two. Dies where it gets none. */
static inline void wait_for_page(void)
{
	struct coop_event timer = { .type = COOP_TIMER };

	for (int call = 0; call < 100 && coop_promise() == COOP_PROMISE_NONE; call++) {
		timer.release = now_ns() + NS_PER_MS;
		coop_poll(0, &timer, NULL);
		usleep(50000);
	}
	if (coop_promise() == COOP_PROMISE_NONE)
		die_usage("there is no page: is limelight running?");
}

#endif /* PAGE_H */
