/* SPDX-License-Identifier: MIT */
/* A window of an X server, and pictures that both hold in shared memory. */
#ifndef PLAYER_SCREEN_H
#define PLAYER_SCREEN_H

#include <coop.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A picture: whose it is until screen_give_back(), or until the X server has shown it. */
struct picture {
	uint8_t *pixels;
	size_t stride;
	uint32_t number;	/* the screen's own */
	bool is_taken;
};

struct screen;

struct screen_owner {
	/* The picture that was due at `due_ns` was on the screen at `shown_ns`, says the server. */
	void (*shown)(void *user, uint64_t due_ns, uint64_t shown_ns);
	/* The window was closed (NULL), or the server has gone, and why. Nothing is shown any more. */
	void (*gone)(void *user, const char *reason);
	void *user;
};

/*
 * A window for pictures of this size, with `title`, which stays the caller's, to be opened by screen_prepare(). `is_blind`: there is no window and no
 * X server, and what is shown is not seen (as in the paper's figures 5 to 10).
 */
struct screen *screen_open(struct coop *coop, uint32_t width, uint32_t height, bool is_blind, const char *title, const struct screen_owner *owner);
/* NULL is nothing to do. */
void screen_close(struct screen *screen);

/*
 * Opens a piece of the window, and ends the program where the X server cannot do what is needed; then makes a piece of a picture more. True while
 * there are fewer than `count`: then it is worth calling again. Who has them made before they are needed does not wait for memory later.
 */
bool screen_prepare(struct screen *screen, uint32_t count);
/* A picture that nobody uses, a new one where there is none, or NULL where there are as many as there may be. */
struct picture *screen_take(struct screen *screen);
void screen_give_back(struct screen *screen, struct picture *picture);
/* Shows it at once: it was due at `due_ns`. It comes back by itself. */
void screen_show(struct screen *screen, struct picture *picture, uint64_t due_ns);

#endif /* PLAYER_SCREEN_H */
