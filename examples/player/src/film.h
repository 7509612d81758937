/* SPDX-License-Identifier: MIT */
/* A film as windows: stretches of a few frames, in order of importance within each. */
#ifndef PLAYER_FILM_H
#define PLAYER_FILM_H

#include "protocol.h"

struct coded_frame {
	struct frame_facts facts;
	uint8_t *data;
	size_t bytes;
};

/* One window; its frames in order of importance. */
struct window {
	struct window_facts facts;
	struct coded_frame *frames;
};

/* What was read of a file, for one viewer. */
struct film;

/* Ends the program where the file cannot be played: it is called for every file before the first viewer comes. */
void film_check(const char *path);
/* The same later: NULL where the file has become another. `loops`: after its end it begins again, for ever. */
struct film *film_open(const char *path, bool loops);
void film_close(struct film *film);
struct film_facts film_facts(const struct film *film);
/* The next window, which window_free() frees; false at the end. */
bool film_next(struct film *film, struct window *window);
void window_free(struct window *window);

#endif /* PLAYER_FILM_H */
