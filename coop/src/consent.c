// SPDX-License-Identifier: MIT
/*
 * Groups of several users: a token from the group's owner, and what is done with it elsewhere. The daemon is asked, over the connection that the
 * process's page came by; so consent lasts no longer than that.
 */
#include <errno.h>
#include <string.h>

#include "internal.h"

_Static_assert(sizeof(struct coop_token) == COOP_ABI_TOKEN_BYTES && COOP_TOKEN_BYTES == COOP_ABI_TOKEN_BYTES, "one token");

/* Of what the daemon says, an errno is believed and nothing else. */
static int ask(u32 question, uint32_t gid, const struct coop_token *handed_in, struct coop_token *given)
{
	struct coop_ask ask = { .magic = COOP_ABI_MAGIC, .version = COOP_ABI_VERSION, .question = question, .gid = gid };
	struct coop_reply reply;
	int error;

	if (gid == COOP_GROUP_SELF)
		return -EINVAL;
	if (handed_in)
		memcpy(ask.token, handed_in->bytes, sizeof(ask.token));
	/* A child made by clone(2) itself has nothing of its parent's. */
	(void)thread_forks();
	error = attach_ask(&ask, &reply);
	if (!error && given)
		memcpy(given->bytes, reply.token, sizeof(given->bytes));
	return error;
}

int coop_share_group(uint32_t gid, struct coop_token *token)
{
	return token ? ask(COOP_ASKS_TOKEN, gid, NULL, token) : -EINVAL;
}

int coop_unshare_group(uint32_t gid)
{
	return ask(COOP_ASKS_WITHDRAWAL, gid, NULL, NULL);
}

int coop_join_group(uint32_t gid, const struct coop_token *token)
{
	return token ? ask(COOP_ASKS_TO_JOIN, gid, token, NULL) : -EINVAL;
}

int coop_leave_group(uint32_t gid)
{
	return ask(COOP_ASKS_TO_LEAVE, gid, NULL, NULL);
}
