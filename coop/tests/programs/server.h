/* SPDX-License-Identifier: MIT */
/*
 * Stands in for limelight's daemon in tests: listens on a socket of its own, hands out pages (files in memory), and can do so wrongly.
 * The scheduler's part is played by whoever looks at the page.
 */
#ifndef COOP_TEST_SERVER_H
#define COOP_TEST_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "coop_abi.h"

/* How the server is wrong. All zeros: it is right, and its pages have 31 slots. */
struct server_faults {
	s32 error;		/* in the welcome */
	u32 magic, version;	/* in the welcome; 0: the right ones */
	u32 slots;		/* in the welcome; 0: 31 */
	u32 header_magic, header_version, header_cell_bytes, header_slots;	/* 0: the right ones */
	off_t page_bytes;	/* 0: as many as the slots need */
	bool is_unsealed;
	size_t message_bytes;	/* 0: a whole welcome */
	int descriptors;	/* how many more than one come along; -1: none does */
	bool is_silent;		/* takes connections and never answers */
	bool hangs_up;		/* instead of an answer */
	int delay_ms;		/* before the answer */
	s32 ask_error;		/* to questions about groups */
	u32 reply_magic;	/* 0: the right one */
	int old_replies;	/* that come before, of earlier questions */
	bool is_mute;		/* does not answer them */
	bool knows_no_asks;	/* hangs up on them, as daemons of before did */
};

struct server;

/* Starts it and lets the library find it (COOP_SOCKET). */
struct server *server_start(const struct server_faults *faults);
/* As if the daemon was killed: the listening socket and all connections end. */
void server_stop(struct server *server);
/* Connections so far. */
int server_asked(struct server *server);
/* Who asked, and the page it got, which is NULL where it got none; all zeros for a number that is not below server_asked(). */
struct server_client {
	pid_t pid;
	struct coop_slot *page;
};
struct server_client server_client(struct server *server, int number);
/* The last page handed out: cells, of which cell 0 is the header. NULL before. */
struct coop_slot *server_page(struct server *server);
/* The hello that came last. */
struct coop_hello server_hello(struct server *server);

/* How many questions about groups there were, and one of them. */
int server_asked_of_groups(struct server *server);
struct coop_ask server_ask(struct server *server, int number);

#endif
