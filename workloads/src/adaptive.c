// SPDX-License-Identifier: GPL-2.0-only
/*
 * adaptive: a cooperative program as the paper's video player is one (cooperative polling, section 2.2), without the video: a timer that is due at
 * its times, and best-effort events that could take all the CPU, each of a fixed length. Events make up frames (adaptive_film.h).
 *
 * It prints when its timers were due and how late they were (the time from release to callback), how many of them fell into good standing, how
 * many events and frames it got through, and the CPU time; all of that from --begin-ns on, so that others have begun, too, and without the last
 * tenth of a second: who ends is not cooperative any more.
 *
 * With --plain it does the same as a program does without cooperative polling: it sleeps until its timer is due where it has nothing else to
 * do, and works on where it has. It is then of the class in which it was started, or of SCHED_DEADLINE.
 */
#include "adaptive_film.h"
#include "common.h"
#include "deadline.h"

#include <coop.h>
#include <getopt.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define LEAVE_NS (NS_PER_S / 10)

static const char usage[] =
	"usage: adaptive [--begin-ns B] [--seconds S] [--period-us P] [--phase-us W] [--timer-us T] [--event-us E] [--group G]\n"
	"                [--late-pm M --late-us L [--sleeps]] [--seed N] [--frame-us F] [--vary-pct V] [--ahead A]\n"
	"                [--plain] [--steps-per-ms N] [--deadline-pm D] [--share PATH] [--join PATH]\n"
	"  from the time B (CLOCK_MONOTONIC; now) for S s;\n"
	"  a timer every P us that takes T us, one of them W us after B (without W, the first one P us after the start);\n"
	"  best-effort events of E us each, 0: none; of group G, 0: alone;\n"
	"  M of a thousand timers take up to L us more, or sleep so long without having said so;\n"
	"  frames of F us (0: of one event), in scenes whose frames take up to V % more or less; at most A decoded before their timer, 0: any number;\n"
	"  N steps of work for each ms of all that, 0: what is done in so much CPU time;\n"
	"  without cooperative polling; then of SCHED_DEADLINE with D thousandths of the CPU in each of its periods, 0: as it was started;\n"
	"  a token for group G written to a file, for others; or G being the group that such a token is for";

static struct {
	uint64_t begin_ns, seconds, period_us, timer_us, event_us, group, late_pm, late_us, seed, frame_us, vary_pct, ahead, deadline_pm;
	uint64_t steps_per_ms, phase_us;
	const char *share, *join;
	bool is_plain, sleeps, has_phase;
} option = { .seconds = 3, .period_us = 10000, .timer_us = 200, .event_us = 100, .seed = 1 };

static struct {
	struct coop_event timer, work;
	struct random_state random;
	struct film film;
	struct samples late, release, cpu; /* the last: CPU time so far, at the first timer of each second */
	uint64_t begin_ns, end_ns, start_ns, first_kept_ns, kept, events, frames, shown, cpu_ns, next_second_ns;
	bool has_work, is_over;
} program;

static bool counts(uint64_t now)
{
	return now >= program.begin_ns && now <= program.end_ns - LEAVE_NS;
}

static void count_timer(uint64_t release_ns, uint64_t now)
{
	const bool is_kept = coop_promise() == COOP_PROMISE_KEPT;

	if (is_kept && !program.first_kept_ns)
		program.first_kept_ns = now;
	if (!counts(now))
		return;
	if (now >= program.next_second_ns) {
		samples_add(&program.cpu, thread_cpu_ns());
		program.next_second_ns = now - (now - program.begin_ns) % NS_PER_S + NS_PER_S;
	}
	samples_add(&program.late, now - release_ns);
	samples_add(&program.release, release_ns);
	program.kept += is_kept;
}

/* The timer's work: a frame is shown, if one is there. */
static void be_due(uint64_t now)
{
	uint64_t more_us = 0;

	count_timer(program.timer.release, now);
	if (film_show(&program.film) && counts(now))
		program.shown++;
	if (option.late_pm && random_between(&program.random, 1, 1000) <= option.late_pm)
		more_us = random_between(&program.random, 0, option.late_us);
	burn_us(option.timer_us + (option.sleeps ? 0 : more_us), option.steps_per_ms);
	if (option.sleeps && more_us)
		sleep_until_ns(now_ns() + more_us * NS_PER_US);
	program.timer.release += option.period_us * NS_PER_US;
	program.is_over = now > program.end_ns;
}

/* One best-effort event. */
static void work(void)
{
	const bool is_frame = film_decode(&program.film, option.event_us);
	const uint64_t now = coop_now();

	program.work.user_virtual_time = program.film.decoded;
	if (counts(now)) {
		program.events++;
		program.frames += is_frame;
	}
}

/* Submits the next event, if there is one to be submitted, and it is not there yet. */
static void submit_work(struct coop *coop)
{
	if (!program.has_work && option.event_us && film_has_work(&program.film))
		program.has_work = !coop_submit(coop, &program.work);
}

static void on_timer(struct coop *coop, struct coop_event *event)
{
	be_due(coop_now());
	if (program.is_over) {
		coop_stop(coop);
		return;
	}
	coop_submit(coop, event);
	submit_work(coop);
}

static void on_work(struct coop *coop, struct coop_event *event)
{
	(void)event;
	program.has_work = false;
	work();
	submit_work(coop);
}

static const struct option names[] = {
	{ "begin-ns", required_argument, NULL, 'b' }, { "seconds", required_argument, NULL, 's' }, { "period-us", required_argument, NULL, 'p' },
	{ "timer-us", required_argument, NULL, 't' }, { "event-us", required_argument, NULL, 'e' }, { "group", required_argument, NULL, 'g' },
	{ "late-pm", required_argument, NULL, 'm' }, { "late-us", required_argument, NULL, 'l' }, { "seed", required_argument, NULL, 'n' },
	{ "frame-us", required_argument, NULL, 'f' }, { "vary-pct", required_argument, NULL, 'v' }, { "ahead", required_argument, NULL, 'a' },
	{ "share", required_argument, NULL, 'w' }, { "join", required_argument, NULL, 'j' },
	{ "plain", no_argument, NULL, 'q' }, { "sleeps", no_argument, NULL, 'z' }, { "phase-us", required_argument, NULL, 'i' },
	{ "steps-per-ms", required_argument, NULL, 'x' }, { "deadline-pm", required_argument, NULL, 'd' }, { 0 },
};

static void read_options(int argc, char **argv)
{
	int name;

	while ((name = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (name) {
		case 'b': option.begin_ns = parse_number("--begin-ns", optarg, 0, UINT64_MAX); break;
		case 's': option.seconds = parse_number("--seconds", optarg, 1, 3600); break;
		case 'p': option.period_us = parse_number("--period-us", optarg, 1, 10000000); break;
		case 'i':
			option.phase_us = parse_number("--phase-us", optarg, 0, 10000000);
			option.has_phase = true;
			break;
		case 't': option.timer_us = parse_number("--timer-us", optarg, 0, 1000000); break;
		case 'e': option.event_us = parse_number("--event-us", optarg, 0, 1000000); break;
		case 'g': option.group = parse_number("--group", optarg, 0, UINT32_MAX); break;
		case 'm': option.late_pm = parse_number("--late-pm", optarg, 0, 1000); break;
		case 'l': option.late_us = parse_number("--late-us", optarg, 0, 1000000); break;
		case 'n': option.seed = parse_number("--seed", optarg, 1, UINT32_MAX); break;
		case 'f': option.frame_us = parse_number("--frame-us", optarg, 0, 10000000); break;
		case 'v': option.vary_pct = parse_number("--vary-pct", optarg, 0, 100); break;
		case 'a': option.ahead = parse_number("--ahead", optarg, 0, 10000); break;
		case 'w': option.share = optarg; break;
		case 'j': option.join = optarg; break;
		case 'q': option.is_plain = true; break;
		case 'z': option.sleeps = true; break;
		case 'x': option.steps_per_ms = parse_number("--steps-per-ms", optarg, 0, 1000000000); break;
		case 'd': option.deadline_pm = parse_number("--deadline-pm", optarg, 0, 1000); break;
		default: die_usage("%s", usage);
		}
	}
	if (optind != argc || (option.deadline_pm && !option.is_plain))
		die_usage("%s", usage);
}

/* From then on whose timers meet is the same in every run where all have a phase; without, it is by when each of them came to be. */
static uint64_t first_release_ns(void)
{
	const uint64_t now = coop_now(), period_ns = option.period_us * NS_PER_US, wanted_ns = program.begin_ns + option.phase_us * NS_PER_US;

	if (!option.has_phase)
		return now + period_ns;
	return wanted_ns > now ? now + (wanted_ns - now) % period_ns : now + period_ns - (now - wanted_ns) % period_ns;
}

static void run_plain(void)
{
	/* Ordinary sleeps may otherwise end 50 us late. */
	prctl(PR_SET_TIMERSLACK, 1);
	if (option.deadline_pm)
		become_of_deadline(option.period_us * NS_PER_US * option.deadline_pm / 1000, option.period_us * NS_PER_US);
	program.timer.release = first_release_ns();
	while (!program.is_over) {
		const uint64_t now = coop_now();

		if (program.timer.release <= now)
			be_due(now);
		else if (option.event_us && film_has_work(&program.film))
			work();
		else
			sleep_until_ns(program.timer.release);
	}
}

/* A file that is there is whole. */
static void write_token(const struct coop_token *token)
{
	char name[4096];
	FILE *file;

	snprintf(name, sizeof(name), "%s.new", option.share);
	file = fopen(name, "w");
	if (!file || fwrite(token->bytes, sizeof(token->bytes), 1, file) != 1 || fclose(file) || rename(name, option.share))
		die_errno("cannot write %s", option.share);
}

static void read_token(struct coop_token *token)
{
	FILE *file;

	while (!(file = fopen(option.join, "r")))
		usleep(10000);
	if (fread(token->bytes, sizeof(token->bytes), 1, file) != 1)
		die_usage("there is no token in %s", option.join);
	fclose(file);
}

static void use_token(void)
{
	struct coop_token token;
	int error = 0;

	if (option.share) {
		error = coop_share_group((uint32_t)option.group, &token);
		if (!error)
			write_token(&token);
	}
	if (option.join) {
		read_token(&token);
		error = coop_join_group((uint32_t)option.group, &token);
	}
	if (error)
		die_usage("the group cannot be used: %s", strerror(-error));
}

static void run_cooperatively(void)
{
	struct coop *coop;

	if (coop_new(&coop) || (option.group && coop_set_group(coop, (uint32_t)option.group)))
		die_usage("cannot begin to be cooperative");
	use_token();
	submit_work(coop);
	if (coop_submit(coop, &program.timer) || coop_run(coop))
		die_usage("cannot run");
}

static void run(void)
{
	program.start_ns = coop_now();
	program.begin_ns = option.begin_ns ? option.begin_ns : program.start_ns;
	program.end_ns = program.begin_ns + option.seconds * NS_PER_S;
	program.timer = (struct coop_event){ .type = COOP_TIMER, .callback = on_timer, .release = first_release_ns() };
	program.work = (struct coop_event){ .type = COOP_BEST_EFFORT, .callback = on_work };
	film_begin(&program.film, option.frame_us, option.vary_pct, option.ahead, option.seed, option.steps_per_ms);
	if (option.is_plain)
		run_plain();
	else
		run_cooperatively();
	program.cpu_ns = program.cpu.count ? thread_cpu_ns() - program.cpu.values[0] : 0;
}

int main(int argc, char **argv)
{
	const struct sched_param ordinary = { 0 };

	read_options(argc, argv);
	random_seed(&program.random, option.seed);
	run();
	sched_setscheduler(0, SCHED_OTHER, &ordinary);
	/* Not before the others have ended, too: what follows takes a while, and is not cooperative. */
	sleep_until_ns(program.end_ns + NS_PER_S);
	printf("{\"timers\": %zu, \"kept\": %" PRIu64 ", \"events\": %" PRIu64 ", \"frames\": %" PRIu64 ", \"shown\": %" PRIu64 ", ",
	       program.late.count, program.kept, program.events, program.frames, program.shown);
	printf("\"cpu_ns\": %" PRIu64 ", \"until_kept_ns\": %" PRId64 ", ", program.cpu_ns,
	       program.first_kept_ns ? (int64_t)(program.first_kept_ns - program.start_ns) : -1);
	samples_write(stdout, "late", &program.late);
	fputs(", ", stdout);
	samples_write(stdout, "release", &program.release);
	fputs(", ", stdout);
	samples_write(stdout, "cpu_at", &program.cpu);
	puts("}");
	return 0;
}
