// SPDX-License-Identifier: MIT
#include "whole_ms.h"

#include <coop.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_S 1000000000ull
#define NS_PER_MS 1000000ull

static const char *const x_servers[] = { "X", "Xephyr", "Xnest", "Xorg", "Xtigervnc", "Xvfb", "Xvnc", "Xwayland" };

static bool counts_whole_ms;
/* In ns of CLOCK_MONOTONIC; 0: there is none. */
static _Thread_local uint64_t last_reading;

__attribute__((constructor)) static void look_at_program(void)
{
	const char *said = getenv("COOP_WHOLE_MS");

	if (said && *said) {
		counts_whole_ms = strcmp(said, "0") != 0;
		return;
	}
	for (size_t i = 0; i < sizeof(x_servers) / sizeof(*x_servers); i++)
		if (!strcmp(program_invocation_short_name, x_servers[i]))
			counts_whole_ms = true;
}

int whole_ms_read(clockid_t clock, struct timespec *now, int (*real)(clockid_t, struct timespec *))
{
	int result;

	if (!counts_whole_ms)
		return real(clock, now);
	/* X servers read the coarse clock where its ticks are 1 ms or less apart. It lags behind what the kernel's timers go by. */
	if (clock == CLOCK_MONOTONIC_COARSE)
		clock = CLOCK_MONOTONIC;
	result = real(clock, now);
	if (!result && clock == CLOCK_MONOTONIC)
		last_reading = (uint64_t)now->tv_sec * NS_PER_S + (uint64_t)now->tv_nsec;
	return result;
}

bool whole_ms_wait(int timeout_ms, uint64_t *deadline, struct timespec *left)
{
	const uint64_t reading = last_reading;
	uint64_t now, end;

	last_reading = 0;
	if (!reading || timeout_ms <= 0)
		return false;
	end = reading - reading % NS_PER_MS + (uint64_t)timeout_ms * NS_PER_MS;
	now = coop_now();
	*deadline = end > now ? end : 0;
	*left = (struct timespec){ 0 };
	if (end > now)
		*left = (struct timespec){ .tv_sec = (time_t)((end - now) / NS_PER_S), .tv_nsec = (long)((end - now) % NS_PER_S) };
	return true;
}

void whole_ms_forget(void)
{
	last_reading = 0;
}
