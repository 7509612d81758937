/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What `adaptive` decodes: frames that take as much CPU time each as a film's do, so of a constant or of a variable bit rate, cut into events.
 *
 * A film of a variable rate has scenes of half a second to two seconds of the program's own frames; all frames of one take the same, by a factor
 * that is drawn for it. There are at most so many frames decoded that have not been shown: then there is nothing to do before the next timer.
 */
#ifndef LIMELIGHT_WORKLOADS_ADAPTIVE_FILM_H
#define LIMELIGHT_WORKLOADS_ADAPTIVE_FILM_H

#include "common.h"

struct film {
	uint64_t frame_us;	/* mean; 0: every event is a frame */
	uint64_t vary_pct;
	uint64_t ahead_most;	/* 0: any number */
	uint64_t steps_per_ms;	/* as burn_us() has them */
	struct random_state random;
	uint64_t decoded, ahead;
	uint64_t scene_frames, scene_frame_us; /* left of the scene, and what each takes */
	uint64_t left_us;	/* of the frame being decoded */
};

void film_begin(struct film *film, uint64_t frame_us, uint64_t vary_pct, uint64_t ahead_most, uint64_t seed, uint64_t steps_per_ms);
/* Is there a frame to be decoded? */
bool film_has_work(const struct film *film);
/* Decodes for event_us; true where that was the end of a frame. The last event of a frame may be shorter. */
bool film_decode(struct film *film, uint64_t event_us);
/* A frame's time has come: true where one was there. */
bool film_show(struct film *film);

#endif
