/* SPDX-License-Identifier: MIT */
/* The player's end of the connection: messages as they come in, and its position. */
#ifndef PLAYER_STREAM_H
#define PLAYER_STREAM_H

#include <coop.h>

#include "protocol.h"

/* What comes of a connection. The owner ends the play for STREAM_REFUSED and STREAM_LIED; what it has it may play on for the others. */
enum stream_end {
	STREAM_COMPLETE,	/* the film is over */
	STREAM_LOST,		/* it ended in the middle */
	STREAM_REFUSED,
	STREAM_LIED,		/* what came keeps to no protocol */
};

struct stream;

/* Who is called; `false` from the first three: what came cannot be true. */
struct stream_owner {
	bool (*film)(void *user, const struct film_facts *film);
	bool (*window)(void *user, const struct window_facts *window);
	/* `data` is the owner's from here, to be given to free(). At least 64 bytes of zero lie behind it. */
	bool (*frame)(void *user, const struct frame_facts *frame, uint8_t *data, size_t bytes);
	/* Nothing comes any more. `reason` is for people. */
	void (*end)(void *user, enum stream_end end, const char *reason);
	/* So many bytes were read, which took so long. */
	void (*received)(void *user, size_t bytes, uint64_t cpu_ns);
	void *user;
};

/* Asks for a film on a connected socket, which is the stream's from here. */
struct stream *stream_open(struct coop *coop, int fd, const char *film, const struct stream_owner *owner);
/* Says how far the film is. Never waits: what the socket does not take now is said later. */
void stream_tell(struct stream *stream, uint64_t now_ns);
/* NULL is nothing to do. */
void stream_close(struct stream *stream);

#endif /* PLAYER_STREAM_H */
