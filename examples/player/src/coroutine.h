/* SPDX-License-Identifier: MIT */
/*
 * A function with a stack of its own, which runs in pieces: coroutine_run() until it says coroutine_pause(), and from there the next time. So
 * a long computation that is not ours to cut up (a decoder's) becomes many short events (section 2 of the paper, [Adya 2002]).
 */
#ifndef PLAYER_COROUTINE_H
#define PLAYER_COROUTINE_H

struct coroutine;

/* `function` must not return. It begins with the first coroutine_run(). */
struct coroutine *coroutine_new(void (*function)(void *), void *user);
/* Not while it is in the middle of something that holds memory: what is on its stack is forgotten. */
void coroutine_free(struct coroutine *coroutine);
void coroutine_run(struct coroutine *coroutine);
/* In the coroutine: back to who called coroutine_run(). */
void coroutine_pause(struct coroutine *coroutine);

#endif /* PLAYER_COROUTINE_H */
