/* SPDX-License-Identifier: MIT */
/*
 * Which descriptors of the program are timerfds, and in which epoll sets they are: the kernel does not tell the one who waits. Only
 * what passes by is known: timerfd_create(), epoll_create(), epoll_ctl(). A timer that was inherited over execve(), received over
 * a socket or made by dup() is not, and its sleepers have no release on its account.
 *
 * When a timer is due is asked of the kernel each time. What is known here may be out of date (a number was closed, and used
 * again): the kernel's answer, and every new descriptor, put it right; until then it makes a release wrong, and nothing else.
 *
 * All of it is lock-free and allocates nothing: it is called in signal handlers, and in children of fork().
 */
#ifndef COOP_PRELOAD_TIMERS_H
#define COOP_PRELOAD_TIMERS_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/select.h>

/* A descriptor has come into being. */
void timers_add(int fd);
void timers_add_set(int set);
/* `fd` is from now on watched by `set`, or is not. */
void timers_put(int set, int fd);
void timers_drop(int set, int fd);

/* When the first timer of a set is due, in ns of CLOCK_MONOTONIC; COOP_NEVER: none is. */
uint64_t timers_first_of_set(int set);
uint64_t timers_first_of_poll(const struct pollfd *fds, nfds_t count);
uint64_t timers_first_of_select(int count, const fd_set *fds);

/* Does a read() of `fd` wait for a timer? Then `*due` is when that is due, as above. Of what is no timer no more than a bit is looked at. */
bool timers_wait_of_read(int fd, uint64_t *due);

#endif
