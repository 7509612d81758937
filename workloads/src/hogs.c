// SPDX-License-Identifier: GPL-2.0-only
/*
 * hogs KIND N: a background load of N processes, for as long as told or until killed.
 *
 *   spinning  never gives up the CPU
 *   bursty    uses 3 ms of CPU, sleeps 1 ms: to a scheduler that goes by CPU usage it looks like a film player
 *   chatty    pairs that wake each other over pipes, a little work per message, as hackbench does
 *   make      gcc -j N over a generated tree of C files in memory, again and again
 *
 * The same --seed gives the same phases and the same tree. "ready" is printed once all have been started. With --at-once nobody waits for the
 * others, and "ready" is printed before the first is there.
 */
#define _GNU_SOURCE
#include "gate.h"
#include "hogs_make.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Bursts as in the definition of the load. */
#define BURST_CPU_NS (3 * NS_PER_MS)
#define BURST_SLEEP_NS (1 * NS_PER_MS)
/* hackbench's message size; the work is what a small server does with such a request. */
#define MESSAGE_BYTES 100
#define MESSAGE_WORK_NS (20 * NS_PER_US)
#define PROCESSES_MAX 20000

struct options {
	const char *kind;
	unsigned count;
	bool pin;
	bool once;
	bool at_once; /* each begins as soon as it has been forked */
	uint64_t seconds; /* 0: until killed */
	uint64_t seed;
};

static volatile sig_atomic_t stop;

static void on_stop(int signal_number)
{
	(void)signal_number;
	stop = 1;
}

static void pin_to_cpu(unsigned index)
{
	cpu_set_t allowed, one;
	unsigned wanted;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		die_errno("cannot read the CPUs this process may use");
	wanted = index % (unsigned)CPU_COUNT(&allowed);
	CPU_ZERO(&one);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, &allowed) && wanted-- == 0) {
			CPU_SET(cpu, &one);
			break;
		}
	}
	if (sched_setaffinity(0, sizeof(one), &one))
		die_errno("cannot pin process %u", index);
}

static void spin(void)
{
	volatile uint64_t mix = 1;

	for (;;)
		mix = mix * 6364136223846793005ULL + 1;
}

static void run_bursts(struct random_state *random)
{
	/* A first burst of random length: a thousand copies must not march in step. */
	burn_cpu_ns(random_between(random, 1, BURST_CPU_NS));
	for (;;) {
		sleep_until_ns(now_ns() + BURST_SLEEP_NS);
		burn_cpu_ns(BURST_CPU_NS);
	}
}

static void chat(int in, int out, bool begins)
{
	char message[MESSAGE_BYTES] = { 0 };

	if (begins && write(out, message, sizeof(message)) < 0)
		return;
	while (read(in, message, sizeof(message)) > 0) {
		burn_cpu_ns(MESSAGE_WORK_NS);
		if (write(out, message, sizeof(message)) < 0)
			return;
	}
}

/* Starts process `index`; in it, runs `options->kind` and never returns. Chatty processes use `pipes`. */
static void start_one(const struct options *options, unsigned index, int pipes[2][2], _Atomic uint32_t *gate)
{
	struct random_state random;

	if (!fork_one(index, options->count))
		return;
	signal(SIGTERM, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	/* Told to end before it had a chance to be told: `stop` is then set by the parent's handler, in here. */
	if (stop)
		_exit(1);
	if (options->pin)
		pin_to_cpu(index);
	random_seed(&random, options->seed + index);
	gate_wait(gate);
	if (!strcmp(options->kind, "spinning"))
		spin();
	if (!strcmp(options->kind, "bursty"))
		run_bursts(&random);
	chat(pipes[index % 2][0], pipes[1 - index % 2][1], index % 2 == 0);
	_exit(0);
}

static void say_ready(void)
{
	puts("ready");
	fflush(stdout);
}

/* Starts all processes and says "ready" just before it lets them go: a fork bomb, before the first is there. */
static void start_all(const struct options *options)
{
	const bool chatty = !strcmp(options->kind, "chatty");
	int pipes[2][2] = { { -1, -1 }, { -1, -1 } };
	_Atomic uint32_t *gate = gate_make();

	if (options->at_once) {
		say_ready();
		gate_open(gate);
	}
	for (unsigned i = 0; i < options->count; i++) {
		if (chatty && i % 2 == 0 && (pipe2(pipes[0], O_CLOEXEC) || pipe2(pipes[1], O_CLOEXEC)))
			die_errno("cannot make a pipe for pair %u", i / 2);
		start_one(options, i, pipes, gate);
		if (chatty && i % 2 == 1)
			for (int end = 0; end < 4; end++)
				close(pipes[end / 2][end % 2]);
	}
	if (!options->at_once) {
		say_ready();
		gate_open(gate);
	}
}

/* True once every process started here, and everything make started, is gone. */
static bool all_gone(void)
{
	pid_t gone;

	do
		gone = waitpid(-1, NULL, WNOHANG);
	while (gone > 0);
	return gone < 0 && errno == ECHILD;
}

static void stop_all(const struct make_tree *tree)
{
	signal(SIGTERM, SIG_IGN);
	kill(0, SIGTERM);
	for (int tries = 0; tries < 500; tries++) {
		if (all_gone()) {
			make_tree_remove(tree);
			return;
		}
		sleep_until_ns(now_ns() + 10 * NS_PER_MS);
	}
	/* Five seconds are long enough for any handler: the rest, and this process with it, is killed. */
	make_tree_remove(tree);
	kill(0, SIGKILL);
}

static void usage(void)
{
	die_usage("usage: hogs spinning|bursty|chatty|make N [--pin] [--once] [--at-once] [--seconds S] [--seed N]\n"
		  "  N            processes (chatty: an even number; make: the jobs of -j N), 1 to %d\n"
		  "  --pin        process i may only use CPU i modulo the number of CPUs\n"
		  "  --once       make only: build the tree one time, then end\n"
		  "  --at-once    no process waits until all are there: a fork bomb (what make starts never waits)\n"
		  "  --seconds S  stop by itself after S seconds; without it, when killed\n"
		  "  --seed N     phases of the bursts and the generated tree (default 1)",
		  PROCESSES_MAX);
}

static struct options parse(int argc, char **argv)
{
	static const char *const kinds[] = { "spinning", "bursty", "chatty", "make" };
	struct options options = { .seed = 1 };

	if (argc < 3)
		usage();
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(argv[1], kinds[i]))
			options.kind = kinds[i];
	if (!options.kind)
		die_usage("no load is called '%s': use spinning, bursty, chatty or make", argv[1]);
	options.count = (unsigned)parse_number("the number of processes", argv[2], 1, PROCESSES_MAX);
	if (!strcmp(options.kind, "chatty") && options.count % 2)
		die_usage("chatty processes come in pairs: %u is odd, use %u", options.count, options.count + 1);
	for (int i = 3; i < argc; i++) {
		const bool has_value = i + 1 < argc;

		if (!strcmp(argv[i], "--pin"))
			options.pin = true;
		else if (!strcmp(argv[i], "--at-once"))
			options.at_once = true;
		else if (!strcmp(argv[i], "--once") && !strcmp(options.kind, "make"))
			options.once = true;
		else if (!strcmp(argv[i], "--seconds") && has_value)
			options.seconds = parse_number("--seconds", argv[++i], 1, 100000);
		else if (!strcmp(argv[i], "--seed") && has_value)
			options.seed = parse_number("--seed", argv[++i], 0, UINT64_MAX);
		else
			usage();
	}
	return options;
}

int main(int argc, char **argv)
{
	const struct options options = parse(argc, argv);
	const struct sigaction action = { .sa_handler = on_stop };
	struct make_tree tree = { 0 };

	setpgid(0, 0);
	prctl(PR_SET_CHILD_SUBREAPER, 1); /* what make leaves behind comes back here to be waited for */
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	if (!strcmp(options.kind, "make")) {
		make_tree_create(&tree, options.count, options.once, options.seed);
		if (options.once) {
			const bool built = make_tree_build(&tree, options.count);

			make_tree_remove(&tree);
			return built ? 0 : 1;
		}
		make_tree_build_forever(&tree, options.count);
		say_ready();
	} else {
		start_all(&options);
	}

	const uint64_t end_ns = options.seconds ? now_ns() + options.seconds * NS_PER_S : UINT64_MAX;
	while (!stop && now_ns() < end_ns) {
		const uint64_t left_ns = end_ns - now_ns();
		const struct timespec nap = {
			.tv_sec = (time_t)((left_ns > 3600 * NS_PER_S ? 3600 * NS_PER_S : left_ns) / NS_PER_S),
			.tv_nsec = (long)(left_ns % NS_PER_S),
		};

		nanosleep(&nap, NULL); /* a signal ends it at once */
	}
	stop_all(&tree);
	return 0;
}
