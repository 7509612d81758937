// SPDX-License-Identifier: MIT
#include "protocol.h"

#include <string.h>

#include "common.h"

static void put32(uint8_t **at, uint32_t value)
{
	for (int shift = 24; shift >= 0; shift -= 8)
		*(*at)++ = (uint8_t)(value >> shift);
}

static void put64(uint8_t **at, uint64_t value)
{
	put32(at, (uint32_t)(value >> 32));
	put32(at, (uint32_t)value);
}

static uint32_t get32(const uint8_t **at)
{
	uint32_t value = 0;

	for (int i = 0; i < 4; i++)
		value = value << 8 | *(*at)++;
	return value;
}

static uint64_t get64(const uint8_t **at)
{
	const uint64_t high = get32(at);

	return high << 32 | get32(at);
}

/* Puts the header in front of what was written, and says how much that is now; `data` follow. */
static size_t close_message(uint8_t *message, const uint8_t *end, enum message_type type, size_t data)
{
	const size_t bytes = (size_t)(end - message);

	put32(&message, type);
	put32(&message, (uint32_t)(bytes - HEADER_BYTES + data));
	return bytes;
}

size_t write_play(uint8_t *message, const char *name)
{
	uint8_t *at = message + HEADER_BYTES;

	put32(&at, PROTOCOL_MAGIC);
	put32(&at, PROTOCOL_VERSION);
	at = (uint8_t *)stpncpy((char *)at, name, MOST_NAME);
	return close_message(message, at, MESSAGE_PLAY, 0);
}

size_t write_position(uint8_t *message, uint64_t now_ns)
{
	uint8_t *at = message + HEADER_BYTES;

	put64(&at, now_ns);
	return close_message(message, at, MESSAGE_POSITION, 0);
}

size_t write_film(uint8_t *message, const struct film_facts *film)
{
	uint8_t *at = message + HEADER_BYTES;

	put32(&at, film->width);
	put32(&at, film->height);
	put64(&at, film->frame_ns);
	return close_message(message, at, MESSAGE_FILM, 0);
}

size_t write_window(uint8_t *message, const struct window_facts *window)
{
	uint8_t *at = message + HEADER_BYTES;

	put32(&at, window->number);
	for (int kind = 0; kind < KINDS; kind++)
		put32(&at, window->frames[kind]);
	put64(&at, window->begin_ns);
	put64(&at, window->duration_ns);
	return close_message(message, at, MESSAGE_WINDOW, 0);
}

size_t write_frame(uint8_t *message, const struct frame_facts *frame, size_t data)
{
	uint8_t *at = message + HEADER_BYTES;

	put32(&at, frame->window);
	put32(&at, frame->importance);
	put32(&at, frame->kind);
	put32(&at, frame->group);
	put32(&at, frame->reference);
	put32(&at, 0);
	put64(&at, frame->shown_ns);
	return close_message(message, at, MESSAGE_FRAME, data);
}

size_t write_text(uint8_t *message, enum message_type type, const char *text)
{
	uint8_t *at = (uint8_t *)stpncpy((char *)message + HEADER_BYTES, text, MOST_NAME);

	return close_message(message, at, type, 0);
}

bool read_header(const uint8_t *header, enum message_type *type, size_t *bytes)
{
	*type = get32(&header);
	*bytes = get32(&header);
	return *type >= MESSAGE_PLAY && *type <= MESSAGE_REFUSED && *bytes <= MOST_BYTES;
}

bool read_play(const uint8_t *body, size_t bytes, char name[MOST_NAME + 1])
{
	const uint8_t *at = body;

	if (bytes <= 8 || bytes > 8 + MOST_NAME || get32(&at) != PROTOCOL_MAGIC || get32(&at) != PROTOCOL_VERSION)
		return false;
	memcpy(name, at, bytes - 8);
	name[bytes - 8] = '\0';
	return true;
}

bool read_position(const uint8_t *body, size_t bytes, uint64_t *now_ns)
{
	if (bytes != 8)
		return false;
	*now_ns = get64(&body);
	return true;
}

bool read_film(const uint8_t *body, size_t bytes, struct film_facts *film)
{
	if (bytes != 16)
		return false;
	film->width = get32(&body);
	film->height = get32(&body);
	film->frame_ns = get64(&body);
	return film->width >= LEAST_SIDE && film->width <= MOST_SIDE && film->height >= LEAST_SIDE && film->height <= MOST_SIDE &&
	       film->frame_ns >= NS_PER_MS && film->frame_ns <= NS_PER_S;
}

uint32_t window_frames(const struct window_facts *window)
{
	uint32_t frames = 0;

	for (int kind = 0; kind < KINDS; kind++)
		frames += window->frames[kind];
	return frames;
}

bool read_window(const uint8_t *body, size_t bytes, struct window_facts *window)
{
	if (bytes != 32)
		return false;
	window->number = get32(&body);
	for (int kind = 0; kind < KINDS; kind++) {
		window->frames[kind] = get32(&body);
		if (window->frames[kind] > MOST_FRAMES)
			return false;
	}
	window->begin_ns = get64(&body);
	window->duration_ns = get64(&body);
	/* 2^62 ns are 146 years: sums of such times do not overflow. */
	return window_frames(window) && window_frames(window) <= MOST_FRAMES && window->begin_ns < 1ull << 62 && window->duration_ns &&
	       window->duration_ns <= MOST_WINDOW_S * NS_PER_S;
}

bool read_frame(const uint8_t *body, size_t bytes, struct frame_facts *frame)
{
	if (bytes <= FRAME_HEAD_BYTES)
		return false;
	frame->window = get32(&body);
	frame->importance = get32(&body);
	frame->kind = get32(&body);
	frame->group = get32(&body);
	frame->reference = get32(&body);
	(void)get32(&body);
	frame->shown_ns = get64(&body);
	return frame->kind < KINDS && frame->importance < MOST_FRAMES;
}
