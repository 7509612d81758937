// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include "common.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static uint64_t read_clock(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t now_ns(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

uint64_t thread_cpu_ns(void)
{
	return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

void sleep_until_ns(uint64_t when_ns)
{
	struct timespec when = {
		.tv_sec = (time_t)(when_ns / NS_PER_S),
		.tv_nsec = (long)(when_ns % NS_PER_S),
	};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL) == EINTR)
		;
}

static void burn_steps(uint64_t steps)
{
	volatile uint64_t mix = 88172645463325252ULL;

	for (uint64_t i = 0; i < steps; i++)
		mix = mix * 6364136223846793005ULL + 1442695040888963407ULL;
}

void burn_some(void)
{
	burn_steps(1000);
}

void burn_cpu_ns(uint64_t cpu_ns)
{
	const uint64_t end_ns = thread_cpu_ns() + cpu_ns;

	while (thread_cpu_ns() < end_ns)
		burn_some();
}

void burn_us(uint64_t us, uint64_t steps_per_ms)
{
	if (steps_per_ms)
		burn_steps(us * steps_per_ms / 1000);
	else
		burn_cpu_ns(us * NS_PER_US);
}

static void say(const char *format, va_list arguments)
{
	fprintf(stderr, "%s: ", program_invocation_short_name);
	vfprintf(stderr, format, arguments);
}

void die_usage(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	say(format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(2);
}

void die_errno(const char *format, ...)
{
	const int error = errno;
	va_list arguments;

	va_start(arguments, format);
	say(format, arguments);
	va_end(arguments);
	fprintf(stderr, ": %s\n", strerror(error));
	exit(1);
}

bool fork_one(uint64_t index, uint64_t count)
{
	const pid_t parent = getpid(), child = fork();

	if (child < 0)
		die_errno("cannot start process %" PRIu64 " of %" PRIu64, index + 1, count);
	if (child)
		return false;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* The caller may have died before that was said. */
	if (getppid() != parent)
		_exit(1);
	return true;
}

uint64_t parse_number(const char *what, const char *text, uint64_t low, uint64_t high)
{
	char *end = NULL;

	errno = 0;
	const uint64_t value = strtoull(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || value < low || value > high)
		die_usage("%s is '%s': give a whole number from %" PRIu64 " to %" PRIu64, what, text, low, high);
	return value;
}

void random_seed(struct random_state *state, uint64_t seed)
{
	state->value = seed ? seed : 1;
	/* Neighbouring seeds start alike: step past that. */
	for (int i = 0; i < 16; i++)
		random_next(state);
}

uint64_t random_next(struct random_state *state)
{
	state->value ^= state->value >> 12;
	state->value ^= state->value << 25;
	state->value ^= state->value >> 27;
	return state->value * 2685821657736338717ULL;
}

uint64_t random_between(struct random_state *state, uint64_t low, uint64_t high)
{
	return low + random_next(state) % (high - low + 1);
}

void become_instrument(bool optional)
{
	const struct sched_param param = { .sched_priority = 60 };

	if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &param) && !optional)
		die_errno("cannot run above what is measured (SCHED_FIFO); run as root");
}

void become_ordinary(void)
{
	const struct sched_param param = { 0 };

	if (sched_setscheduler(0, SCHED_OTHER, &param))
		die_errno("cannot give SCHED_FIFO back");
}

void pin_to_one_cpu(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(0, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		die_errno("cannot stay on CPU 0");
}

void samples_add(struct samples *samples, uint64_t value_ns)
{
	if (samples->count == samples->room) {
		samples->room = samples->room ? 2 * samples->room : 4096;
		samples->values = realloc(samples->values, samples->room * sizeof(*samples->values));
		if (!samples->values)
			die_errno("no memory for %zu samples", samples->room);
	}
	samples->values[samples->count++] = value_ns;
}

void samples_write(FILE *out, const char *name, const struct samples *samples)
{
	samples_write_in(out, name, "_ns", samples);
}

void samples_write_in(FILE *out, const char *name, const char *unit, const struct samples *samples)
{
	fprintf(out, "\"%s%s\": [", name, unit);
	for (size_t i = 0; i < samples->count; i++)
		fprintf(out, "%s%" PRIu64, i ? "," : "", samples->values[i]);
	fputc(']', out);
}

static sigset_t end_signal(void)
{
	sigset_t end;

	sigemptyset(&end);
	sigaddset(&end, SIGTERM);
	return end;
}

void hold_end(void)
{
	const sigset_t end = end_signal();

	sigprocmask(SIG_BLOCK, &end, NULL);
}

void await_end(void)
{
	const sigset_t end = end_signal();
	int signal;

	sigwait(&end, &signal);
}
