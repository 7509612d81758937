/* SPDX-License-Identifier: MIT */
/* H.264 in pieces, each well below 1 ms of work, straight into a picture for the screen. */
#ifndef PLAYER_DECODER_H
#define PLAYER_DECODER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum decoder_result {
	DECODER_MORE,		/* it is not done: call again */
	DECODER_DONE,
	DECODER_DAMAGED,	/* done, and there is no whole picture */
};

struct decoder;

/* For frames of this size. Before the first one it is prepared. */
struct decoder *decoder_new(uint32_t width, uint32_t height);
/* A piece of what it takes to decode: false, it is all there. The longest is libavcodec's own beginning, 1 ms in one call. */
bool decoder_prepare(struct decoder *decoder);
/* Ends what is being decoded, too. NULL is nothing to do. */
void decoder_free(struct decoder *decoder);

/*
 * Begins a frame, once the one before is done. `data`, with 64 bytes of zero behind the `bytes` of them, are the decoder's from here, and given to
 * free(). To `pixels`, lines of `stride` bytes, four a point, it writes until it is done. `is_afresh`: what was decoded before is not needed (an I
 * frame).
 */
void decoder_begin(struct decoder *decoder, uint8_t *data, size_t bytes, bool is_afresh, uint8_t *pixels, size_t stride);
/* One piece of it. */
enum decoder_result decoder_step(struct decoder *decoder);

#endif /* PLAYER_DECODER_H */
