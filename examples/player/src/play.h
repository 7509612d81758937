/* SPDX-License-Identifier: MIT */
/* The playing of one film: the paper's Figure 3. */
#ifndef PLAYER_PLAY_H
#define PLAYER_PLAY_H

#include <coop.h>
#include <stdbool.h>
#include <stdint.h>

#include "figures.h"

struct play_options {
	const char *server, *film, *title;
	bool is_blind;
	uint64_t begin_ns;	/* when the first frame is shown; 0: preroll_ns after the server has answered */
	uint64_t preroll_ns;
	uint64_t length_ns;	/* of the film that is played; UINT64_MAX: all of it */
};

struct play;

/* Connects; the film plays once coop_run() is called, which returns when it is over. Ends the program where there is no server. */
struct play *play_open(struct coop *coop, const struct play_options *options);
/* Ends it now: coop_run() returns. */
void play_stop(struct play *play);
/* Did it come to the end it was to come to? What was wrong has been said. */
bool play_is_well(const struct play *play);
struct figures *play_figures(struct play *play);
void play_close(struct play *play);

#endif /* PLAYER_PLAY_H */
