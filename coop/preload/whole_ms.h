/* SPDX-License-Identifier: MIT */
/*
 * X servers count time in whole milliseconds: they cut the clock (GetTimeInMillis in their os/utils.c), and take a timeout in ms from that to
 * their next timer. So they sleep from a moment within a millisecond, and wake as far within a later one: up to 1 ms after their own clock
 * has reached the timer, on an idle machine too. For them a timeout ends when the clock that they cut reaches what they reckoned with: the
 * last reading, cut, and the timeout. By their clock that is never too early.
 *
 * A reading counts for one wait, and none is no reading: who waits again without having looked at the clock waits for all of the timeout. So
 * from one reading to the next it takes them the whole milliseconds that they asked for, and nobody goes round in circles.
 *
 * It is for programs that reckon so, and for no others, which would find a timeout up to 1 ms short: X servers are known by their names, and
 * COOP_WHOLE_MS=1 or 0 in the environment says it of any program.
 *
 * What it is bad at: who reads the clock twice before a wait, and reckons with the first reading, sleeps 1 ms longer where a millisecond
 * began in between, as without this. select() is left as it is: X servers have not used it since 2016.
 */
#ifndef COOP_PRELOAD_WHOLE_MS_H
#define COOP_PRELOAD_WHOLE_MS_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* The clock, as the program reads it. */
int whole_ms_read(clockid_t clock, struct timespec *now, int (*real)(clockid_t, struct timespec *));

/*
 * Is a wait of `timeout_ms`, which begins, one until a whole millisecond of a clock that the program has read? Then `*deadline` is that, in ns of
 * CLOCK_MONOTONIC, or 0 where it is over, and `*left` how long it takes.
 */
bool whole_ms_wait(int timeout_ms, uint64_t *deadline, struct timespec *left);

/* What was read so far was not read by the program. */
void whole_ms_forget(void);

#endif
