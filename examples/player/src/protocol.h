/* SPDX-License-Identifier: MIT */
/*
 * What player and streamer say to each other, over TCP.
 *
 *   player                                streamer
 *   PLAY version, name            ->
 *                                 <-      FILM size, frame rate       or REFUSED why
 *                                 <-      WINDOW number, frames of each kind, begin, duration
 *                                 <-      FRAME importance, kind, what it needs, time, data       for each that is sent
 *   POSITION how far it is        ->      ...
 *                                 <-      END
 *
 * A window is a stretch of a few frames of the film, and the unit of adaptation: its frames are sent in order of importance, and what has
 * not been sent when the showing of the window begins is not sent any more. The player says how far it is, and is served two windows beyond
 * that. So the streamer needs no clock, and what is late because the network or the player is slow is dropped at the source.
 *
 * A message is a header of two 32-bit numbers, type and bytes that follow, and its fields in the order in which they are listed below, big-endian.
 * Either side may lie: whoever reads checks.
 */
#ifndef PLAYER_PROTOCOL_H
#define PLAYER_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum protocol {
	PROTOCOL_MAGIC = 0x70726f67,	/* "prog" */
	PROTOCOL_VERSION = 1,
	HEADER_BYTES = 8,
	FRAME_HEAD_BYTES = 32,
	MOST_BYTES = 8 << 20,		/* of a message; a frame of H.264's highest level is smaller */
	MOST_NAME = 255,
	MOST_FRAMES = 64,		/* of a window: a key frame, an anchor, and more B frames than encoders put between them */
	LEAST_SIDE = 16,
	MOST_SIDE = 4096,
	MOST_WINDOW_S = 10,		/* long */
	WINDOWS_AHEAD = 2,		/* of the one that is shown: one to be decoded while it is, and one to be received */
};

enum message_type {
	MESSAGE_PLAY = 1,	/* u32 magic, version; name */
	MESSAGE_POSITION,	/* u64 now_ns, of the film */
	MESSAGE_FILM,		/* u32 width, height; u64 frame_ns */
	MESSAGE_WINDOW,		/* u32 number, I frames, P frames, B frames; u64 begin_ns, duration_ns */
	MESSAGE_FRAME,		/* u32 window, importance, kind, group, reference, 0; u64 shown_ns; data */
	MESSAGE_END,		/* nothing */
	MESSAGE_REFUSED,	/* text */
};

enum kind {
	KIND_I,	/* can be decoded by itself */
	KIND_P,	/* needs the references before it, and others need it */
	KIND_B,	/* nothing needs it */
	KINDS,
};

struct film_facts {
	uint32_t width, height;
	uint64_t frame_ns;
};

/* Times count from the beginning of the film. A window does not begin before the one before it has ended. */
struct window_facts {
	uint32_t number;
	uint32_t frames[KINDS];
	uint64_t begin_ns, duration_ns;
};

/*
 * What a frame needs: `group` counts the I frames, `reference` the references of the group, its I frame being 0. An I frame needs nothing,
 * a P frame the reference before it, a B frame those up to its own number.
 */
struct frame_facts {
	uint32_t window;
	uint32_t importance;	/* within the window; 0 is the most important */
	enum kind kind;
	uint32_t group, reference;
	uint64_t shown_ns;
};

/* Writes a message's header and fields to `at`, which has the room; returns its bytes. `data` is how many will follow. */
size_t write_play(uint8_t *at, const char *name);
size_t write_position(uint8_t *at, uint64_t now_ns);
size_t write_film(uint8_t *at, const struct film_facts *film);
size_t write_window(uint8_t *at, const struct window_facts *window);
size_t write_frame(uint8_t *at, const struct frame_facts *frame, size_t data);
size_t write_text(uint8_t *at, enum message_type type, const char *text);

/* The header's type and length: false where no message is that long. */
bool read_header(const uint8_t *header, enum message_type *type, size_t *bytes);
/* What follows it. False: it is too short, too long, or says what cannot be. A frame's data begin after FRAME_HEAD_BYTES. */
bool read_play(const uint8_t *body, size_t bytes, char name[MOST_NAME + 1]);
bool read_position(const uint8_t *body, size_t bytes, uint64_t *now_ns);
bool read_film(const uint8_t *body, size_t bytes, struct film_facts *film);
bool read_window(const uint8_t *body, size_t bytes, struct window_facts *window);
bool read_frame(const uint8_t *body, size_t bytes, struct frame_facts *frame);

/* Frames of a window, of all kinds. */
uint32_t window_frames(const struct window_facts *window);

#endif /* PLAYER_PROTOCOL_H */
