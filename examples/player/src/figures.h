/* SPDX-License-Identifier: MIT */
/* What became of each frame, and how well the timing was. */
#ifndef PLAYER_FIGURES_H
#define PLAYER_FIGURES_H

#include <coop.h>
#include <stdio.h>

#include "common.h"
#include "protocol.h"

/* What becomes of a frame that was due. Each has exactly one. */
enum fate {
	SHOWN,
	NOT_SENT,		/* too late for the network */
	EXPIRED,		/* nobody had begun to decode it in time: too late for the CPU */
	REFERENCE_LOST,		/* what it needs was dropped */
	LATE,			/* decoded, but after its time had passed */
	DAMAGED,		/* it does not decode to a whole picture */
	NO_PICTURE,		/* all pictures were with the X server */
	FATES,
};

/* Events, whose CPU time is counted. */
enum work {
	PREPARE,		/* before the film begins */
	PREDECODE,		/* decoding before it begins: with the first frames libavcodec makes its tables, and no timer of this film waits */
	RECEIVE,
	DECODE,
	DISPLAY,
	WORKS,
};

struct figures {
	uint64_t frames[KINDS][FATES];
	struct samples shown_ns;	/* the frames that were shown, by their time in the film */
	struct samples release_ns;	/* of each of them: of its display timer (CLOCK_MONOTONIC) */
	struct samples tardiness_ns;	/* of each of them: from the release of a display timer until it runs */
	struct samples on_screen_ns;	/* from the same release until the X server had it on the screen */
	struct samples cpu_ns[WORKS];	/* of each event */
	uint64_t kept;			/* display timers that ran in good standing */
	uint64_t first_kept_ns;		/* when good standing was seen first; 0: never */
	uint64_t bytes;
	uint64_t begin_ns;		/* when the server was asked */
	uint64_t start_ns;		/* when the first frame was to be shown */
	enum coop_promise promise;	/* the last one while it played */
};

/* One line of JSON. */
void figures_write(FILE *out, const char *film, struct figures *figures);
void figures_free(struct figures *figures);

#endif /* PLAYER_FIGURES_H */
