// SPDX-License-Identifier: MIT
/*
 * A frame takes a decoder several milliseconds, and an event should take less than one. libavcodec decodes a frame in one call, but
 * while it does so it calls back for each band of the picture that is ready, which for H.264 is a row of macroblocks, 16 lines. So the
 * decoder runs in a coroutine, and its callback pauses it once a piece has taken PIECE_NS.
 *
 * The band is converted for the screen right there, while it is in the cache; what is shown is therefore complete when the call returns, and
 * the order in which libavcodec would give its pictures out, which is not that of importance, does not matter.
 *
 * The promise: a piece takes PIECE_NS, and what one row takes beyond it. The first one of a frame has the copying of the frame's data to it.
 * What it is bad at: a film with so many bits in a row that one takes a millisecond (on a machine of today, frames of some hundred
 * kilobytes). H.264 in libavcodec can be paused nowhere else: its slices come in one call (AV_CODEC_FLAG2_CHUNKS, which says otherwise, has it
 * patch up as lost what has not come yet). Decoding by several threads would leave the coroutine, and is off.
 */
#include "decoder.h"

#include <coop.h>
#include <libavcodec/avcodec.h>
#include <libswscale/swscale.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "coroutine.h"

/* How long a piece goes on taking rows. The paper's least slice (section 3.2): shorter pieces would not have others run any sooner. */
#define PIECE_NS (100 * NS_PER_US)
/* Macroblocks, in pairs: what is coded may be larger than what is to be seen. */
#define ROUNDING 32
/* Parameters before an I frame's slices that are worth comparing: a hundred bytes, and what an encoder says of itself. */
#define HEAD_BYTES 1024
/* The type of NAL unit of a frame at which a decoder forgets what was before (IDR). Other slices and their parts have those from 1 on. */
#define NAL_REFRESH 5

struct decoder {
	AVCodecContext *codec;
	AVPacket *packet;
	AVFrame *unused;		/* what libavcodec gives out: it was taken before */
	struct SwsContext *convert;
	struct coroutine *coroutine;
	uint32_t width, height;
	uint64_t begin_ns;		/* of the piece */
	uint8_t head[HEAD_BYTES];	/* what stood before the slices of the last I frame that libavcodec was given with it */
	int head_bytes;
	/* The frame that is being decoded. */
	uint8_t *pixels;
	size_t stride;
	uint32_t lines;			/* that are there, from the top */
	bool is_afresh, is_busy, is_damaged;
	bool has_failed;		/* a frame was damaged since libavcodec forgot all that was before */
};

/* What the film said of itself, and what the screen's pictures are made for? The data may say anything. */
static bool is_as_told(const struct decoder *decoder, const AVFrame *frame)
{
	return decoder->codec->width == (int)decoder->width && decoder->codec->height == (int)decoder->height &&
	       frame->width >= (int)decoder->width && frame->height >= (int)decoder->height &&
	       (frame->format == AV_PIX_FMT_YUV420P || frame->format == AV_PIX_FMT_YUVJ420P);
}

static void pause_if_long(struct decoder *decoder)
{
	if (coop_now() - decoder->begin_ns >= PIECE_NS)
		coroutine_pause(decoder->coroutine);
}

/* A frame's head has been read. */
static int get_buffer(AVCodecContext *codec, AVFrame *frame, int flags)
{
	int error;

	pause_if_long(codec->opaque);
	error = avcodec_default_get_buffer2(codec, frame, flags);
	pause_if_long(codec->opaque);
	return error;
}

/* A band is ready: `count` lines from `first`, of a picture that may have more than is to be seen. */
static void on_band(AVCodecContext *codec, const AVFrame *frame, int offset[AV_NUM_DATA_POINTERS], int first, int type, int count)
{
	struct decoder *decoder = codec->opaque;
	const uint32_t from = decoder->lines, until = (uint32_t)(first + count) < decoder->height ? (uint32_t)(first + count) : decoder->height;
	uint8_t *target[4] = { decoder->pixels };
	const int strides[4] = { (int)decoder->stride };

	(void)type;
	pause_if_long(decoder);
	if (!is_as_told(decoder, frame) || (uint32_t)first != from || until <= from) {
		/* The lines beyond the last that is to be seen come here, too. */
		decoder->is_damaged |= (uint32_t)first < decoder->height && (uint32_t)first != from;
		decoder->is_damaged |= !is_as_told(decoder, frame);
	} else {
		const uint8_t *source[4] = { frame->data[0] + offset[0], frame->data[1] + offset[1], frame->data[2] + offset[2] };

		sws_scale(decoder->convert, source, frame->linesize, (int)from, (int)(until - from), target, strides);
		decoder->lines = until;
	}
	pause_if_long(decoder);
}

/* Where the first NAL unit of a slice begins, or one of a part of it; `bytes` where there is none. Its type says what frame it is. */
static int find_slice(const uint8_t *data, int bytes, int *type)
{
	for (int at = 0; at + 3 < bytes; at++) {
		*type = data[at + 3] & 0x1f;
		if (data[at] == 0 && data[at + 1] == 0 && data[at + 2] == 1 && *type >= 1 && *type <= NAL_REFRESH)
			return at;
	}
	*type = 0;
	return bytes;
}

/*
 * Begins an I frame. Two things that libavcodec would do there take it a millisecond each in one go, and are left out where they come to nothing: to
 * forget all that was before, where the frame says that itself, and to read the same parameters as the last time, of which it makes tables. Once
 * a frame has been damaged nothing is left out: it may have left anything behind, other parameters too.
 */
static void begin_afresh(struct decoder *decoder)
{
	AVPacket *packet = decoder->packet;
	int type, head_bytes = find_slice(packet->data, packet->size, &type);

	if (type != NAL_REFRESH || decoder->has_failed) {
		avcodec_flush_buffers(decoder->codec);
		pause_if_long(decoder);
	}
	if (decoder->has_failed)
		decoder->head_bytes = 0;
	decoder->has_failed = false;
	if (head_bytes > (int)sizeof(decoder->head)) {
		decoder->head_bytes = 0;
		return;
	}
	if (head_bytes == decoder->head_bytes && !memcmp(packet->data, decoder->head, (size_t)head_bytes)) {
		packet->data += head_bytes;
		packet->size -= head_bytes;
		return;
	}
	memcpy(decoder->head, packet->data, (size_t)head_bytes);
	decoder->head_bytes = head_bytes;
}

static void decode_frame(struct decoder *decoder)
{
	if (decoder->is_afresh)
		begin_afresh(decoder);
	if (avcodec_send_packet(decoder->codec, decoder->packet) < 0)
		decoder->is_damaged = true;
	av_packet_unref(decoder->packet);
	while (avcodec_receive_frame(decoder->codec, decoder->unused) >= 0)
		av_frame_unref(decoder->unused);
	decoder->is_damaged |= decoder->lines < decoder->height;
	decoder->has_failed |= decoder->is_damaged;
}

/* The coroutine. */
static void decode_all(void *user)
{
	struct decoder *decoder = user;

	for (;;) {
		decode_frame(decoder);
		decoder->is_busy = false;
		coroutine_pause(decoder->coroutine);
	}
}

static void open_codec(struct decoder *decoder)
{
	const AVCodec *h264 = avcodec_find_decoder(AV_CODEC_ID_H264);

	decoder->codec = avcodec_alloc_context3(h264);
	decoder->packet = av_packet_alloc();
	decoder->unused = av_frame_alloc();
	if (!h264 || !decoder->codec || !decoder->packet || !decoder->unused)
		die(STATUS_FAILED, "libavcodec has no decoder of H.264, or no memory is left", "install Debian's libavcodec", "cannot decode");
	decoder->codec->opaque = decoder;
	decoder->codec->draw_horiz_band = on_band;
	decoder->codec->get_buffer2 = get_buffer;
	decoder->codec->thread_count = 1;
	/* A frame that says it is larger is refused before memory is taken for it. */
	decoder->codec->max_pixels = (int64_t)(decoder->width + ROUNDING) * (decoder->height + ROUNDING);
	/* What is damaged is dropped, and counted. */
	decoder->codec->error_concealment = 0;
	if (avcodec_open2(decoder->codec, h264, NULL) < 0)
		die(STATUS_FAILED, "libavcodec cannot begin", "install Debian's libavcodec", "cannot decode");
}

struct decoder *decoder_new(uint32_t width, uint32_t height)
{
	struct decoder *decoder = allocate(sizeof(*decoder));

	decoder->width = width;
	decoder->height = height;
	return decoder;
}

bool decoder_prepare(struct decoder *decoder)
{
	const int width = (int)decoder->width, height = (int)decoder->height;

	if (!decoder->codec) {
		open_codec(decoder);
		return true;
	}
	if (decoder->coroutine)
		return false;
	/* Of equal size a conversion has no state, so that bands can be converted one by one. */
	decoder->convert = sws_getContext(width, height, AV_PIX_FMT_YUV420P, width, height, AV_PIX_FMT_BGR0, SWS_POINT, NULL, NULL, NULL);
	if (!decoder->convert)
		die(STATUS_FAILED, "libswscale cannot convert pictures of this size", "play a smaller film", "cannot decode");
	decoder->coroutine = coroutine_new(decode_all, decoder);
	return true;
}

void decoder_free(struct decoder *decoder)
{
	if (!decoder)
		return;
	/* Its stack holds what belongs to libavcodec. */
	while (decoder->is_busy)
		decoder_step(decoder);
	if (decoder->coroutine)
		coroutine_free(decoder->coroutine);
	sws_freeContext(decoder->convert);
	av_frame_free(&decoder->unused);
	av_packet_free(&decoder->packet);
	avcodec_free_context(&decoder->codec);
	free(decoder);
}

static void release(void *user, uint8_t *data)
{
	(void)user;
	free(data);
}

void decoder_begin(struct decoder *decoder, uint8_t *data, size_t bytes, bool is_afresh, uint8_t *pixels, size_t stride)
{
	/* Freed when libavcodec has no use for it any more: nothing is copied. */
	decoder->packet->buf = av_buffer_create(data, bytes + AV_INPUT_BUFFER_PADDING_SIZE, release, NULL, 0);
	if (!decoder->packet->buf)
		die(STATUS_FAILED, "no memory is left", "free some", "cannot decode");
	decoder->packet->data = data;
	decoder->packet->size = (int)bytes;
	decoder->is_afresh = is_afresh;
	decoder->pixels = pixels;
	decoder->stride = stride;
	decoder->lines = 0;
	decoder->is_damaged = false;
	decoder->is_busy = true;
}

enum decoder_result decoder_step(struct decoder *decoder)
{
	decoder->begin_ns = coop_now();
	coroutine_run(decoder->coroutine);
	if (decoder->is_busy)
		return DECODER_MORE;
	return decoder->is_damaged ? DECODER_DAMAGED : DECODER_DONE;
}
