// SPDX-License-Identifier: GPL-2.0-only
/* A program of a test: cooperative until its standard input ends. */
#include <coop.h>
#include <poll.h>

int main(void)
{
	struct pollfd input = { .fd = 0, .events = POLLIN };

	while (!poll(&input, 1, 0)) {
		struct coop_event timer = { .type = COOP_TIMER, .release = coop_now() + 1000000 };

		coop_poll(COOP_GROUP_SELF, &timer, 0);
	}
	return 0;
}
