// SPDX-License-Identifier: GPL-2.0-only
/*
 * periodic C T S: a task with a need and a due time, for S seconds: released every T us, it uses C us of CPU by its own thread's clock, and has to
 * be done by the next release. It prints how long after each release it was done, how much CPU time it had had by the next one, how many releases it
 * had to pass over because it was not done with an earlier one, and the CPU time it used.
 *
 * It knows nothing of who schedules it, and nobody has to be believed: whether C per T was had is told by the two clocks. It is bad at being late:
 * what it passes over it does not make up for, so a task that is starved reports few periods and many passed over, not an endless queue.
 *
 * With --told it begins at once, too, but counts from SIGUSR1 on: for S seconds then. So it can be there for as long as others take to begin.
 *
 * With --deadline it is of SCHED_DEADLINE, with so much per T reserved: the yardstick.
 */
#define _GNU_SOURCE
#include "common.h"
#include "deadline.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

struct options {
	uint64_t c_ns, t_ns, seconds, seed, reserved_ns;
	bool told;
};

static volatile sig_atomic_t counts;

static void count_from_now(int number)
{
	(void)number;
	counts = 1;
}

/* What the thread's clock showed at a moment between two looks, at least and at most; 0 where there was no look after it. */
struct between {
	uint64_t least_ns, most_ns;
};

/*
 * Use @c_ns of CPU. What it has had by @due_ns, if it has come to that: at least what it saw before, and what it saw after less all the time since. A
 * CPU of the laboratory's stands still while others have their turn: from one look to the next more than C may pass, all of it on the CPU.
 */
static struct between work(uint64_t c_ns, uint64_t due_ns)
{
	uint64_t cpu_ns = thread_cpu_ns();
	const uint64_t end_ns = cpu_ns + c_ns;
	struct between at_due = { 0 };

	while (cpu_ns < end_ns) {
		burn_some();
		/* In this order: what passes between the two makes it less. */
		cpu_ns = thread_cpu_ns();
		const uint64_t now = now_ns();

		if (now < due_ns) {
			at_due.least_ns = cpu_ns;
		} else if (!at_due.most_ns) {
			at_due.most_ns = thread_cpu_ns();
			if (cpu_ns > at_due.least_ns + (now - due_ns))
				at_due.least_ns = cpu_ns - (now - due_ns);
		}
	}
	return at_due;
}

static void usage(void)
{
	die_usage("usage: periodic C_US T_US SECONDS [--told] [--deadline US] [--seed N]\n"
		  "  uses C_US of CPU in every T_US, for SECONDS; the first release after a part of T_US that the seed chooses (default 1)");
}

static struct options parse(int argc, char **argv)
{
	struct options options = { .seed = 1 };

	if (argc < 4)
		usage();
	options.t_ns = parse_number("T_US", argv[2], 100, 100000000) * NS_PER_US;
	options.c_ns = parse_number("C_US", argv[1], 1, options.t_ns / NS_PER_US) * NS_PER_US;
	options.seconds = parse_number("SECONDS", argv[3], 1, 100000);
	for (int i = 4; i < argc; i++) {
		if (!strcmp(argv[i], "--deadline") && i + 1 < argc)
			options.reserved_ns = parse_number("--deadline", argv[++i], 1, options.t_ns / NS_PER_US) * NS_PER_US;
		else if (!strcmp(argv[i], "--told"))
			options.told = true;
		else if (!strcmp(argv[i], "--seed") && i + 1 < argc)
			options.seed = parse_number("--seed", argv[++i], 0, UINT64_MAX);
		else
			usage();
	}
	return options;
}

/* Is it told to count from the release on that comes next? What it has seen so far is forgotten. */
static bool is_told(struct samples *done)
{
	if (!counts)
		return false;
	counts = 0;
	done->count = 0;
	return true;
}

/* Who starts it blocks the signal until it is taken here: it may be sent before. */
static void wait_to_be_told(void)
{
	sigset_t told;

	sigemptyset(&told);
	sigaddset(&told, SIGUSR1);
	if (signal(SIGUSR1, count_from_now) == SIG_ERR || sigprocmask(SIG_UNBLOCK, &told, NULL))
		die_errno("cannot take a signal");
}

int main(int argc, char **argv)
{
	const struct options options = parse(argc, argv);
	struct samples done = { 0 }, had = { 0 };
	struct random_state random;
	struct between at_due = { 0 };
	uint64_t passed_over = 0;

	/* Ordinary sleeps may otherwise end 50 us late. */
	prctl(PR_SET_TIMERSLACK, 1);
	if (options.reserved_ns)
		become_of_deadline(options.reserved_ns, options.t_ns);
	random_seed(&random, options.seed);
	uint64_t release_ns = now_ns() + random_between(&random, 1, options.t_ns), due_ns = 0;
	uint64_t end_ns = options.told ? UINT64_MAX : release_ns + options.seconds * NS_PER_S;

	if (options.told)
		wait_to_be_told();
	while (release_ns + options.t_ns <= end_ns) {
		sleep_until_ns(release_ns);
		/* What it does for the release before, in this one's period, it has had for this one. */
		const uint64_t since_ns = release_ns == due_ns && at_due.most_ns ? at_due.most_ns : thread_cpu_ns();

		due_ns = release_ns + options.t_ns;
		at_due = work(options.c_ns, due_ns);
		const uint64_t now = now_ns();

		samples_add(&done, now - release_ns);
		samples_add(&had, at_due.least_ns > since_ns ? at_due.least_ns - since_ns : 0);
		for (release_ns += options.t_ns; release_ns + options.t_ns <= (now < end_ns ? now : end_ns); release_ns += options.t_ns)
			passed_over++;
		if (is_told(&done)) {
			had.count = 0;
			passed_over = 0;
			end_ns = release_ns + options.seconds * NS_PER_S;
		}
		if (now >= end_ns)
			break;
	}
	printf("{\"source\": \"two clocks of the program\", \"c_ns\": %" PRIu64 ", \"t_ns\": %" PRIu64 ", \"passed_over\": %" PRIu64
	       ", \"cpu_ns\": %" PRIu64 ", ", options.c_ns, options.t_ns, passed_over, thread_cpu_ns());
	samples_write(stdout, "done", &done);
	fputs(", ", stdout);
	samples_write(stdout, "had", &had);
	puts("}");
	return 0;
}
