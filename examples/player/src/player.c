// SPDX-License-Identifier: MIT
/*
 * player: plays a film from a streamer, as a cooperative program: the paper's adaptive video player (section 2.2). Here are its options and its one
 * call of coop_run(); what happens in between is in play.c.
 */
#include <coop.h>
#include <getopt.h>
#include <libavutil/log.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common.h"
#include "memory.h"
#include "play.h"

const char program_name[] = "player";

static const char usage[] =
	"Usage: player [OPTION]... FILM\n"
	"\n"
	"Plays a film that a streamer serves, in a window of the X server at DISPLAY. Where the CPU or the network does not do for all frames, the\n"
	"least important ones are dropped. When it has ended, one line of JSON says what became of each frame and how late the timers were.\n"
	"\n"
	"  -s, --server HOST:PORT   the streamer (127.0.0.1:7009)\n"
	"  -d, --display WHAT       present: by the X server's Present extension; none: not at all (present)\n"
	"  -g, --group N            share the CPU in group N, by the part of the frames that is shown; 0: with nobody (0)\n"
	"  -n, --seconds N          of the film, then it ends (all of it)\n"
	"  -p, --preroll-ms N       from the server's answer to the first frame (1000)\n"
	"  -b, --begin-ns N         show the first frame at this time of CLOCK_MONOTONIC, in place of --preroll-ms\n"
	"  -t, --title TEXT         of the window (the film's name)\n"
	"  -h, --help               this text\n"
	"  -V, --version            the version\n"
	"\n"
	"SIGTERM, SIGINT and closing the window end it, too, and the figures are written. Exit status: 0 the film was played, 1 it was not, or not to\n"
	"its end, 64 wrong usage.\n";

static struct play_options option = { .server = "127.0.0.1:7009", .preroll_ns = NS_PER_S, .length_ns = UINT64_MAX };
static uint32_t group = COOP_GROUP_SELF;

static void read_display(const char *text)
{
	if (strcmp(text, "present") && strcmp(text, "none"))
		die(STATUS_USAGE, "it is none of the ways", "give present or none", "cannot use '%s' for --display", text);
	option.is_blind = !strcmp(text, "none");
}

static void read_options(int argc, char **argv)
{
	static const struct option names[] = {
		{ "server", required_argument, NULL, 's' }, { "display", required_argument, NULL, 'd' }, { "group", required_argument, NULL, 'g' },
		{ "seconds", required_argument, NULL, 'n' }, { "preroll-ms", required_argument, NULL, 'p' },
		{ "begin-ns", required_argument, NULL, 'b' }, { "title", required_argument, NULL, 't' }, { "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' }, { 0 },
	};
	int name;

	opterr = 0;
	while ((name = getopt_long(argc, argv, "s:d:g:n:p:b:t:hV", names, NULL)) != -1) {
		switch (name) {
		case 's': option.server = optarg; break;
		case 'd': read_display(optarg); break;
		case 'g': group = (uint32_t)parse_number("--group", optarg, 0, UINT32_MAX); break;
		case 'n': option.length_ns = parse_number("--seconds", optarg, 1, 86400) * NS_PER_S; break;
		case 'p': option.preroll_ns = parse_number("--preroll-ms", optarg, 0, 60000) * NS_PER_MS; break;
		case 'b': option.begin_ns = parse_number("--begin-ns", optarg, 1, UINT64_MAX / 4); break;
		case 't': option.title = optarg; break;
		case 'h': fputs(usage, stdout); exit(STATUS_OK);
		case 'V': puts("player " PLAYER_VERSION); exit(STATUS_OK);
		default: die(STATUS_USAGE, "it is unknown, or something is missing", "see player --help", "cannot use option '%s'", argv[optind - 1]);
		}
	}
	if (argc - optind != 1)
		die(STATUS_USAGE, "it plays one film", "player FILM, see player --help", "%s", argc == optind ? "nothing to play" : "too much to play");
	option.film = argv[optind];
	if (strlen(option.film) > MOST_NAME || !*option.film)
		die(STATUS_USAGE, "no film is called so", "give the name of its file, without folders", "cannot ask for '%s'", option.film);
	if (!option.title)
		option.title = option.film;
}

static void on_signal(struct coop *coop, struct coop_event *event)
{
	(void)coop;
	play_stop(event->user);
}

int main(int argc, char **argv)
{
	struct coop_event end = { .type = COOP_DESCRIPTOR, .events = POLLIN, .callback = on_signal };
	struct coop *coop;
	struct play *play;
	bool is_well;
	int error;

	read_options(argc, argv);
	memory_prepare();
	/* What is damaged is counted: a line of text for each would be written by an event. */
	av_log_set_level(AV_LOG_QUIET);
	error = coop_new(&coop);
	if (!error)
		error = coop_set_group(coop, group);
	if (error)
		die(STATUS_FAILED, strerror(-error), "allow this process more descriptors (ulimit -n)", "cannot begin");
	play = play_open(coop, &option);
	end.fd = end_signals();
	end.user = play;
	error = coop_submit(coop, &end);
	if (error)
		die(STATUS_FAILED, strerror(-error), "allow this process more descriptors (ulimit -n)", "cannot begin");
	error = coop_run(coop);
	if (error)
		die(STATUS_FAILED, strerror(-error), "report it as a defect of libcoop", "cannot go on");
	figures_write(stdout, option.film, play_figures(play));
	is_well = play_is_well(play) && !fflush(stdout);
	(void)coop_cancel(coop, &end);
	close(end.fd);
	play_close(play);
	coop_free(coop);
	return is_well ? STATUS_OK : STATUS_FAILED;
}
