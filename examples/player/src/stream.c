// SPDX-License-Identifier: MIT
/*
 * The socket as an event. Each time it is ready a bounded piece is read, so that however fast the network is, timers and decoding get their
 * turns; a message that is complete goes to its owner at once. The server is not believed: a message is as long as the protocol
 * allows at most, and the owner says whether it can be true.
 */
#include "stream.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common.h"

/* Read by one event: some 20 us of copying. */
#define PIECE_BYTES 65536
/* And for so long at most: a frame of 100 bytes costs as much as one of many, and hundreds of them may have come. */
#define PIECE_NS 100000
/* Decoders read beyond the end of what they are given (AV_INPUT_BUFFER_PADDING_SIZE). */
#define PADDING_BYTES 64
/* Why a connection is given up. */
#define MOST_REASON 300

struct stream {
	struct coop *coop;
	struct stream_owner owner;
	struct coop_event ready;
	bool has_ended;
	/* What comes in. Of a frame, the fields and the data are read to where they stay. */
	uint8_t header[HEADER_BYTES], fields[HEADER_BYTES + MOST_NAME];
	size_t header_got, body_bytes, body_got, fields_bytes;
	enum message_type type;
	uint8_t *data;
	size_t received;		/* by this event */
	/* What goes out. */
	uint8_t out[HEADER_BYTES + 8 + MOST_NAME];
	size_t out_bytes, out_sent;
	uint64_t now_ns;
	bool has_news;
};

static void end(struct stream *stream, enum stream_end how, const char *reason)
{
	stream->has_ended = true;
	stream->owner.end(stream->owner.user, how, reason);
}

/* Sends what is left of a message, and then the newest position. */
static void send_some(struct stream *stream)
{
	for (;;) {
		ssize_t sent;

		if (stream->out_sent == stream->out_bytes) {
			if (!stream->has_news)
				return;
			stream->out_bytes = write_position(stream->out, stream->now_ns);
			stream->out_sent = 0;
			stream->has_news = false;
		}
		sent = send(stream->ready.fd, stream->out + stream->out_sent, stream->out_bytes - stream->out_sent, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (sent < 0)
			/* If the server has gone, the reading side will know why. */
			return;
		stream->out_sent += (size_t)sent;
	}
}

static void refused(struct stream *stream)
{
	char reason[MOST_REASON] = "the server says: ";
	const size_t used = strlen(reason);

	/* It is shown to people: no control characters. */
	for (size_t i = 0; i < stream->body_bytes && used + i + 1 < sizeof(reason); i++)
		reason[used + i] = stream->fields[i] >= ' ' && stream->fields[i] < 127 ? (char)stream->fields[i] : '?';
	end(stream, STREAM_REFUSED, reason);
}

/* A whole message is there. */
static bool hear(struct stream *stream)
{
	void *user = stream->owner.user;
	struct film_facts film;
	struct window_facts window;
	struct frame_facts frame;
	uint8_t *data;

	switch (stream->type) {
	case MESSAGE_FILM:
		return read_film(stream->fields, stream->body_bytes, &film) && stream->owner.film(user, &film);
	case MESSAGE_WINDOW:
		return read_window(stream->fields, stream->body_bytes, &window) && stream->owner.window(user, &window);
	case MESSAGE_FRAME:
		if (!read_frame(stream->fields, stream->body_bytes, &frame))
			return false;
		data = stream->data;
		stream->data = NULL;
		return stream->owner.frame(user, &frame, data, stream->body_bytes - FRAME_HEAD_BYTES);
	case MESSAGE_END:
		end(stream, STREAM_COMPLETE, "");
		return true;
	case MESSAGE_REFUSED:
		refused(stream);
		return true;
	default:
		return false;
	}
}

/* Not calloc(): what is read there need not be cleared before. */
static bool make_room(struct stream *stream, size_t bytes)
{
	uint8_t *data = malloc(bytes + PADDING_BYTES);

	if (!data)
		return false;
	memset(data + bytes, 0, PADDING_BYTES);
	stream->data = data;
	return true;
}

/* The header is there: makes room for the body. */
static bool begin_body(struct stream *stream)
{
	if (!read_header(stream->header, &stream->type, &stream->body_bytes))
		return false;
	stream->body_got = 0;
	stream->fields_bytes = stream->body_bytes;
	if (stream->type != MESSAGE_FRAME)
		return stream->body_bytes <= sizeof(stream->fields);
	if (stream->body_bytes <= FRAME_HEAD_BYTES)
		return false;
	stream->fields_bytes = FRAME_HEAD_BYTES;
	return make_room(stream, stream->body_bytes - FRAME_HEAD_BYTES);
}

/* Where the next bytes go, and how many of them belong there. */
static size_t next_place(struct stream *stream, uint8_t **at)
{
	if (stream->header_got < HEADER_BYTES) {
		*at = stream->header + stream->header_got;
		return HEADER_BYTES - stream->header_got;
	}
	if (stream->body_got < stream->fields_bytes) {
		*at = stream->fields + stream->body_got;
		return stream->fields_bytes - stream->body_got;
	}
	*at = stream->data + (stream->body_got - stream->fields_bytes);
	return stream->body_bytes - stream->body_got;
}

/* Some bytes have come. False: what they say cannot be. */
static bool take(struct stream *stream, size_t bytes)
{
	if (stream->header_got < HEADER_BYTES) {
		stream->header_got += bytes;
		if (stream->header_got < HEADER_BYTES)
			return true;
		if (!begin_body(stream))
			return false;
	} else {
		stream->body_got += bytes;
	}
	if (stream->body_got < stream->body_bytes)
		return true;
	stream->header_got = 0;
	return hear(stream);
}

static void read_some(struct stream *stream, uint64_t begin_ns)
{
	size_t left = PIECE_BYTES;

	while (left && !stream->has_ended && thread_cpu_ns() - begin_ns < PIECE_NS) {
		uint8_t *at;
		size_t room = next_place(stream, &at);
		const ssize_t got = recv(stream->ready.fd, at, room < left ? room : left, MSG_DONTWAIT);

		if (got < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (got <= 0) {
			end(stream, STREAM_LOST, got ? strerror(errno) : "the server closed the connection in the middle of the film");
			return;
		}
		left -= (size_t)got;
		stream->received += (size_t)got;
		if (!take(stream, (size_t)got) && !stream->has_ended)
			end(stream, STREAM_LIED, "what the server sends is not what a streamer of this version sends");
	}
}

static void wait_for_more(struct stream *stream)
{
	(void)coop_cancel(stream->coop, &stream->ready);
	stream->ready.events = stream->out_sent < stream->out_bytes ? POLLIN | POLLOUT : POLLIN;
	if (!stream->has_ended && coop_submit(stream->coop, &stream->ready))
		end(stream, STREAM_LOST, "the system has no room for one more descriptor");
}

static void on_ready(struct coop *coop, struct coop_event *event)
{
	struct stream *stream = event->user;
	const uint64_t begin_ns = thread_cpu_ns();

	(void)coop;
	stream->received = 0;
	read_some(stream, begin_ns);
	send_some(stream);
	stream->owner.received(stream->owner.user, stream->received, thread_cpu_ns() - begin_ns);
	wait_for_more(stream);
}

struct stream *stream_open(struct coop *coop, int fd, const char *film, const struct stream_owner *owner)
{
	struct stream *stream = allocate(sizeof(*stream));

	stream->coop = coop;
	stream->owner = *owner;
	stream->ready = (struct coop_event){ .type = COOP_DESCRIPTOR, .fd = fd, .callback = on_ready, .user = stream };
	stream->out_bytes = write_play(stream->out, film);
	send_some(stream);
	wait_for_more(stream);
	return stream;
}

void stream_tell(struct stream *stream, uint64_t now_ns)
{
	stream->now_ns = now_ns;
	stream->has_news = true;
	if (stream->has_ended)
		return;
	send_some(stream);
	if (stream->out_sent < stream->out_bytes)
		wait_for_more(stream);
}

void stream_close(struct stream *stream)
{
	if (!stream)
		return;
	(void)coop_cancel(stream->coop, &stream->ready);
	close(stream->ready.fd);
	free(stream->data);
	free(stream);
}
