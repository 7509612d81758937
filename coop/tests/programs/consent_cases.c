// SPDX-License-Identifier: MIT
/* Groups of several users: what is asked of the daemon, and what is made of its answers. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server.h"
#include "testing.h"

static const struct coop_token handed_in = { .bytes = "0123456789abcde" };

/* What each call gives beside a daemon with these faults. */
static void check_all(const struct server_faults *faults, int error)
{
	struct server *server = server_start(faults);
	struct coop_token token;

	CHECK_EQ(coop_share_group(7, &token), error);
	CHECK_EQ(coop_unshare_group(7), error);
	CHECK_EQ(coop_join_group(7, &handed_in), error);
	CHECK_EQ(coop_leave_group(7), error);
	server_stop(server);
}

CASE(what_is_asked_is_what_was_said,
     "Each call is one question, numbered higher than the one before, with the group and, to join, the token as it was handed over; the token"
     " that is given is the daemon's, byte by byte. No thread needs a scheduler for it: the page is asked for first.")
{
	struct server *server = server_start(&(struct server_faults){ 0 });
	const u32 questions[] = { COOP_ASKS_TOKEN, COOP_ASKS_WITHDRAWAL, COOP_ASKS_TO_JOIN, COOP_ASKS_TO_LEAVE };
	struct coop_token token;

	CHECK_EQ(coop_share_group(0x64, &token), 0);
	CHECK(!memcmp(token.bytes, "defghijklmnopqrs", sizeof(token.bytes)));
	CHECK_EQ(coop_unshare_group(0x64), 0);
	CHECK_EQ(coop_join_group(0x64, &handed_in), 0);
	CHECK_EQ(coop_leave_group(0x64), 0);
	CHECK_EQ(server_asked_of_groups(server), 4);
	CHECK_EQ(server_asked(server), 1);
	for (int i = 0; i < 4; i++) {
		const struct coop_ask ask = server_ask(server, i);

		CHECK_EQ(ask.magic, COOP_ABI_MAGIC);
		CHECK_EQ(ask.version, COOP_ABI_VERSION);
		CHECK_EQ(ask.question, questions[i]);
		CHECK_EQ(ask.gid, 0x64);
		CHECK_EQ(ask.number, server_ask(server, 0).number + (u64)i);
		CHECK_EQ(memcmp(ask.token, handed_in.bytes, sizeof(ask.token)) == 0, i == 2);
	}
	server_stop(server);
}

CASE(a_refusal_is_the_result, "What the daemon says is what the call gives, and the page stays; what is no errno is -EPROTO.")
{
	check_all(&(struct server_faults){ .ask_error = -EACCES }, -EACCES);
	check_all(&(struct server_faults){ .ask_error = -4095 }, -4095);
	check_all(&(struct server_faults){ .ask_error = -4096 }, -EPROTO);
	check_all(&(struct server_faults){ .ask_error = 1 }, -EPROTO);
}

CASE(what_makes_no_sense_is_not_asked, "Nobody's group and no token are -EINVAL, and the daemon is not even connected to.")
{
	struct server *server = server_start(&(struct server_faults){ 0 });
	struct coop_token token;

	CHECK_EQ(coop_share_group(COOP_GROUP_SELF, &token), -EINVAL);
	CHECK_EQ(coop_share_group(7, NULL), -EINVAL);
	CHECK_EQ(coop_unshare_group(COOP_GROUP_SELF), -EINVAL);
	CHECK_EQ(coop_join_group(COOP_GROUP_SELF, &handed_in), -EINVAL);
	CHECK_EQ(coop_join_group(7, NULL), -EINVAL);
	CHECK_EQ(coop_leave_group(COOP_GROUP_SELF), -EINVAL);
	CHECK_EQ(server_asked(server), 0);
	server_stop(server);
}

CASE(without_limelight_it_says_so,
     "Where nobody listens, or gives no page, each call is -ENOTCONN, at once: a second for four calls on a busy machine.")
{
	struct coop_token token;
	const u64 begin_ns = coop_now();

	CHECK_EQ(setenv("COOP_SOCKET", "", 1), 0);
	CHECK_EQ(coop_share_group(7, &token), -ENOTCONN);
	CHECK_EQ(coop_unshare_group(7), -ENOTCONN);
	CHECK_EQ(coop_join_group(7, &handed_in), -ENOTCONN);
	CHECK_EQ(coop_leave_group(7), -ENOTCONN);
	CHECK(coop_now() - begin_ns < 1000000000);
}

CASE(a_refused_page_is_none, "A process that was refused its page has nobody to ask.")
{
	check_all(&(struct server_faults){ .error = -EDQUOT }, -ENOTCONN);
}

CASE(a_daemon_of_before_hangs_up, "One that knows no such question hangs up: -ECONNRESET, and the process has a page again at the next call.")
{
	struct server *server = server_start(&(struct server_faults){ .knows_no_asks = true });
	struct coop_token token;

	CHECK_EQ(coop_share_group(7, &token), -ECONNRESET);
	CHECK_EQ(coop_share_group(7, &token), -ECONNRESET);
	CHECK_EQ(server_asked(server), 2);
	struct coop *coop = new_coop();
	CHECK_EQ(server_asked(server), 3);
	CHECK_EQ(coop_free(coop), 0);
	server_stop(server);
}

CASE(silence_has_an_end, "A daemon that does not answer costs a second, not less, and up to 20 on a busy machine, and the page stays.")
{
	struct server *server = server_start(&(struct server_faults){ .is_mute = true });
	struct coop_token token;
	const u64 begin_ns = coop_now();

	CHECK_EQ(coop_share_group(7, &token), -ETIMEDOUT);
	CHECK(coop_now() - begin_ns >= 1000000000 && coop_now() - begin_ns < 20000000000);
	CHECK_EQ(server_asked(server), 1);
	server_stop(server);
}

/* When a thread began to ask, and how long it was until it was told that nobody answers. */
struct asked_in_vain {
	u64 begin_ns, took_ns;
	pthread_barrier_t *all_there;
};

static void *ask_in_vain(void *seen)
{
	struct asked_in_vain *asked = seen;
	struct coop_token token;

	pthread_barrier_wait(asked->all_there);
	asked->begin_ns = coop_now();
	CHECK_EQ(coop_share_group(7, &token), -ETIMEDOUT);
	asked->took_ns = coop_now() - asked->begin_ns;
	return NULL;
}

/* How many began more than 1 ms after the first: they have time left for a question of their own when that one's is over. */
static int began_later(const struct asked_in_vain *asked, size_t count)
{
	u64 first_ns = asked[0].begin_ns;
	int later = 0;

	for (size_t i = 1; i < count; i++)
		if (asked[i].begin_ns < first_ns)
			first_ns = asked[i].begin_ns;
	for (size_t i = 0; i < count; i++)
		later += asked[i].begin_ns > first_ns + MS;
	return later;
}

CASE(silence_has_the_same_end_for_all,
     "Where five threads ask a daemon that does not answer, each is told so after a second: 3 on a busy machine, and 5 if each would wait"
     " a second of its own, one after the other. Who was waiting for its turn all the time has asked nothing, so nothing is done for it later.")
{
	struct server *server = server_start(&(struct server_faults){ .is_mute = true });
	pthread_t threads[5];
	struct asked_in_vain asked[ARRAY_SIZE(threads)];
	pthread_barrier_t all_there;

	CHECK_EQ(pthread_barrier_init(&all_there, NULL, ARRAY_SIZE(threads)), 0);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
		asked[i].all_there = &all_there;
		CHECK_EQ(pthread_create(&threads[i], NULL, ask_in_vain, &asked[i]), 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
		CHECK(asked[i].took_ns >= 1000 * MS && asked[i].took_ns < 3000 * MS);
	}
	/* The first one's, that of who had its turn in the last millisecond, and on a busy machine those of who began later. */
	const int later = began_later(asked, ARRAY_SIZE(asked));

	CHECK(server_asked_of_groups(server) >= 1 && server_asked_of_groups(server) <= 2 + later);
	server_stop(server);
}

CASE(another_questions_answer_is_none,
     "Answers to questions that were given up come first: they are passed over. Nor is an answer one"
     " that does not begin as one.")
{
	struct coop_token token;

	check_all(&(struct server_faults){ .old_replies = 3 }, 0);
	struct server *server = server_start(&(struct server_faults){ .reply_magic = 7 });
	CHECK_EQ(coop_share_group(7, &token), -ETIMEDOUT);
	server_stop(server);
}

CASE(a_child_asks_for_itself, "In a child made by fork() the calls are the child's own: its page, its connection.")
{
	struct server *server = server_start(&(struct server_faults){ 0 });
	struct coop_token token;
	int status;

	CHECK_EQ(coop_share_group(7, &token), 0);
	const pid_t child = fork();
	if (!child)
		_exit(coop_share_group(7, &token) ? 1 : 0);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	CHECK_EQ(server_asked(server), 2);
	CHECK_EQ(server_client(server, 1).pid, child);
	server_stop(server);
}
