/* SPDX-License-Identifier: MIT */
/* What player and streamer share beside the protocol: how they complain, read their options, and keep figures. */
#ifndef PLAYER_COMMON_H
#define PLAYER_COMMON_H

#include <stddef.h>
#include <stdint.h>

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S UINT64_C(1000000000)

enum status {
	STATUS_OK = 0,
	STATUS_FAILED = 1,
	STATUS_USAGE = 64,
};

/* The name that messages begin with; each program has its own. */
extern const char program_name[];

/* What is wrong, why, and what to do about it. */
void complain(const char *reason, const char *fix, const char *what, ...) __attribute__((format(printf, 3, 4)));
void die(enum status status, const char *reason, const char *fix, const char *what, ...) __attribute__((noreturn, format(printf, 4, 5)));

/* The number that an option was given, or the end of the program. */
uint64_t parse_number(const char *option, const char *text, uint64_t least, uint64_t most);

/* An address and a port as HOST:PORT, [HOST]:PORT where the host has colons: a socket that listens there or is connected to it. */
int listen_at(const char *place);
int connect_to(const char *place);

/* SIGTERM and SIGINT as a descriptor, to be an event like any other. */
int end_signals(void);

/* Memory, or the end of the program. */
void *allocate(size_t bytes);

struct samples {
	uint64_t *values;
	size_t count, room;
};

void samples_add(struct samples *samples, uint64_t value);
/* The least value that `per_mille` of all are not above; 0 where there is none. Sorts them. */
uint64_t samples_quantile(struct samples *samples, unsigned int per_mille);

/* CPU time of this thread: what is measured with it does not depend on what else the machine does. */
uint64_t thread_cpu_ns(void);

#endif /* PLAYER_COMMON_H */
