// SPDX-License-Identifier: MIT
#include "common.h"

#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static void say(const char *reason, const char *fix, const char *what, va_list arguments)
{
	char text[600];

	vsnprintf(text, sizeof(text), what, arguments);
	/* At once: several players may share a terminal. */
	dprintf(STDERR_FILENO, "%s: %s\n  reason: %s\n  fix: %s\n", program_name, text, reason, fix);
}

void complain(const char *reason, const char *fix, const char *what, ...)
{
	va_list arguments;

	va_start(arguments, what);
	say(reason, fix, what, arguments);
	va_end(arguments);
}

void die(enum status status, const char *reason, const char *fix, const char *what, ...)
{
	va_list arguments;

	va_start(arguments, what);
	say(reason, fix, what, arguments);
	va_end(arguments);
	exit(status);
}

uint64_t parse_number(const char *option, const char *text, uint64_t least, uint64_t most)
{
	char *end, fix[80];
	uint64_t number;

	errno = 0;
	number = strtoull(text, &end, 10);
	if (text[0] >= '0' && text[0] <= '9' && !*end && !errno && number >= least && number <= most)
		return number;
	snprintf(fix, sizeof(fix), "give a whole number from %llu to %llu", (unsigned long long)least, (unsigned long long)most);
	die(STATUS_USAGE, "it is no such number", fix, "cannot use '%s' for %s", text, option);
}

/* The parts of HOST:PORT. */
static struct addrinfo *resolve(const char *place, int flags)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = flags };
	const char *colon = strrchr(place, ':');
	struct addrinfo *found = NULL;
	char host[256];
	size_t length;
	int error;

	if (!colon || colon == place || !colon[1] || (size_t)(colon - place) >= sizeof(host))
		die(STATUS_USAGE, "it has not the form HOST:PORT", "write 127.0.0.1:7009, say", "cannot use '%s' as an address", place);
	length = (size_t)(colon - place);
	memcpy(host, place, length);
	host[length] = '\0';
	if (host[0] == '[' && host[length - 1] == ']') {
		host[length - 1] = '\0';
		memmove(host, host + 1, length - 1);
	}
	error = getaddrinfo(host, colon + 1, &hints, &found);
	if (error)
		die(STATUS_USAGE, gai_strerror(error), "write 127.0.0.1:7009, say", "cannot use '%s' as an address", place);
	return found;
}

int listen_at(const char *place)
{
	struct addrinfo *address = resolve(place, AI_PASSIVE);
	const int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), yes = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) || bind(fd, address->ai_addr, address->ai_addrlen) ||
	    listen(fd, SOMAXCONN))
		die(STATUS_FAILED, strerror(errno), "stop who is there, or choose another port (0: any that is free)", "cannot listen at %s", place);
	freeaddrinfo(address);
	return fd;
}

int connect_to(const char *place)
{
	struct addrinfo *address = resolve(place, 0);
	const int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, address->ai_addr, address->ai_addrlen))
		die(STATUS_FAILED, strerror(errno), "start a streamer there, or name another one with --server", "cannot reach a server at %s", place);
	freeaddrinfo(address);
	return fd;
}

void *allocate(size_t bytes)
{
	void *memory = calloc(1, bytes);

	if (!memory)
		die(STATUS_FAILED, strerror(ENOMEM), "free some memory, or play a smaller film", "cannot get %zu bytes", bytes);
	return memory;
}

void samples_add(struct samples *samples, uint64_t value)
{
	if (samples->count == samples->room) {
		const size_t room = samples->room ? 2 * samples->room : 4096;
		uint64_t *values = realloc(samples->values, room * sizeof(*values));

		if (!values)
			die(STATUS_FAILED, strerror(ENOMEM), "free some memory", "cannot keep %zu samples", room);
		samples->values = values;
		samples->room = room;
	}
	samples->values[samples->count++] = value;
}

static int compare(const void *left, const void *right)
{
	const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

uint64_t samples_quantile(struct samples *samples, unsigned int per_mille)
{
	size_t rank = (samples->count * per_mille + 999) / 1000;

	if (!samples->count)
		return 0;
	qsort(samples->values, samples->count, sizeof(*samples->values), compare);
	return samples->values[rank ? rank - 1 : 0];
}

uint64_t thread_cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

int end_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC);
}
