// SPDX-License-Identifier: GPL-2.0-only
/*
 * wakelat: for the given processes, how long from wake-up to running, how long they then ran, and why they stopped.
 *
 *   wakelat --seconds S --out FILE [--runs] [--depths] NAME=PID[,PID...]...
 *
 * The samples are taken by the kernel's own trace points, filtered in the kernel to the threads asked for (and those they
 * make), kept in the kernel's buffer, and read after the run: while it measures, this program sleeps. It knows nothing of
 * the scheduler under test.
 * "started" is printed when recording has begun. With --runs, when each run began and ended is written, too, on the monotonic clock;
 * with --depths, for each wake-up whether it could have run at once (trace.h).
 */
#define _GNU_SOURCE
#include "trace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRACEFS "/sys/kernel/tracing"
/* Per CPU; 100,000 events need about 8 MB. */
#define BUFFER_KB_DEFAULT 65536

struct options {
	uint64_t seconds;
	uint64_t buffer_kb;
	const char *out;
	bool runs, depths;
	const char *input; /* read a saved trace instead of recording one */
};

/* Writes `value` into a tracefs file, or dies saying what that file is for. */
static void set(const char *file, const char *value, const char *why)
{
	char path[256];

	snprintf(path, sizeof(path), TRACEFS "/%s", file);
	const int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	if (fd < 0 || write(fd, value, strlen(value)) < 0)
		die_errno("cannot %s (writing %s; needs root and a mounted tracefs)", why, path);
	close(fd);
}

static void switch_off(void)
{
	set("events/sched/enable", "0", "stop the trace points");
	set("set_event_pid", " ", "forget the threads");
	set("options/event-fork", "0", "stop following new threads");
	set("buffer_size_kb", "1408", "give the buffer's memory back");
}

/* Follows every thread of process `pid` and appends their ids to `list`. */
static void follow_process(struct trace *trace, unsigned group, unsigned pid, char **list)
{
	char path[64];
	struct dirent *entry;
	DIR *threads;

	snprintf(path, sizeof(path), "/proc/%u/task", pid);
	threads = opendir(path);
	if (!threads)
		die_errno("no process %u to measure", pid);
	while ((entry = readdir(threads))) {
		char *longer = NULL;

		if (*entry->d_name == '.')
			continue;
		trace_follow(trace, (unsigned)strtoul(entry->d_name, NULL, 10), group);
		if (asprintf(&longer, "%s %s", *list, entry->d_name) < 0)
			die_errno("no memory");
		free(*list);
		*list = longer;
	}
	closedir(threads);
}

/* Takes "NAME=PID[,PID...]". */
static void add_group(struct trace *trace, char *text, char **list)
{
	char *equals = strchr(text, '='), *rest = NULL;

	if (!equals || equals == text || !equals[1])
		die_usage("'%s' names no group: use NAME=PID[,PID...]", text);
	*equals = '\0';
	const unsigned group = trace_add_group(trace, text);
	for (char *pid = strtok_r(equals + 1, ",", &rest); pid; pid = strtok_r(NULL, ",", &rest))
		follow_process(trace, group, (unsigned)parse_number("a process id", pid, 1, TRACE_PID_MAX), list);
}

static void record(const struct options *options, const char *threads)
{
	char size[32];

	snprintf(size, sizeof(size), "%" PRIu64, options->buffer_kb);
	set("tracing_on", "0", "stop tracing");
	set("trace", " ", "empty the trace buffer");
	set("buffer_size_kb", size, "make room for the trace");
	set("trace_clock", "mono", "use the monotonic clock");
	set("options/event-fork", "1", "follow new threads");
	set("set_event_pid", threads, "follow the threads asked for");
	set("events/sched/sched_switch/enable", "1", "see context switches");
	set("events/sched/sched_waking/enable", "1", "see wake-ups");
	set("events/sched/sched_process_fork/enable", "1", "see new threads");
	set("tracing_on", "1", "start tracing");
	puts("started");
	fflush(stdout);
	sleep_until_ns(now_ns() + options->seconds * NS_PER_S);
	set("tracing_on", "0", "stop tracing");
}

static void read_trace(struct trace *trace, const char *path)
{
	FILE *file = fopen(path, "r");
	char *line = NULL;
	size_t room = 0;

	if (!file)
		die_errno("cannot read %s", path);
	while (getline(&line, &room, file) > 0)
		trace_line(trace, line);
	free(line);
	fclose(file);
}

/* Events the kernel had to drop because the buffer was full, over all CPUs. */
static uint64_t count_overruns(void)
{
	uint64_t lost = 0;

	for (unsigned cpu = 0;; cpu++) {
		char path[128], line[128];
		unsigned long long value = 0;
		FILE *file;

		snprintf(path, sizeof(path), TRACEFS "/per_cpu/cpu%u/stats", cpu);
		file = fopen(path, "r");
		if (!file)
			return lost;
		while (fgets(line, sizeof(line), file))
			if (sscanf(line, "overrun: %llu", &value) == 1 || sscanf(line, "dropped events: %llu", &value) == 1)
				lost += value;
		fclose(file);
	}
}

static void usage(void)
{
	die_usage("usage: wakelat --seconds S --out FILE [--buffer-kb K] [--runs] [--depths] NAME=PID[,PID...]...\n"
		  "       wakelat --input TRACE --out FILE NAME=TID...   (a saved text of " TRACEFS "/trace)");
}

static int parse(int argc, char **argv, struct options *options)
{
	int i = 1;

	for (; i + 1 < argc && !strncmp(argv[i], "--", 2); i += 2) {
		bool *flag = !strcmp(argv[i], "--runs") ? &options->runs : !strcmp(argv[i], "--depths") ? &options->depths : NULL;

		if (flag) {
			*flag = true;
			i--; /* it has no value */
			continue;
		}
		if (!strcmp(argv[i], "--seconds"))
			options->seconds = parse_number("--seconds", argv[i + 1], 1, 3600);
		else if (!strcmp(argv[i], "--buffer-kb"))
			options->buffer_kb = parse_number("--buffer-kb", argv[i + 1], 64, 4194304);
		else if (!strcmp(argv[i], "--out"))
			options->out = argv[i + 1];
		else if (!strcmp(argv[i], "--input"))
			options->input = argv[i + 1];
		else
			usage();
	}
	if (i == argc || !options->out || (!options->seconds && !options->input))
		usage();
	return i;
}

/* Groups of a saved trace: its threads need not live any more. */
static void add_saved_group(struct trace *trace, char *text)
{
	char *equals = strchr(text, '='), *rest = NULL;

	if (!equals)
		usage();
	*equals = '\0';
	const unsigned group = trace_add_group(trace, text);
	for (char *tid = strtok_r(equals + 1, ",", &rest); tid; tid = strtok_r(NULL, ",", &rest))
		trace_follow(trace, (unsigned)parse_number("a thread id", tid, 1, TRACE_PID_MAX), group);
}

int main(int argc, char **argv)
{
	struct options options = { .buffer_kb = BUFFER_KB_DEFAULT };
	const int first = parse(argc, argv, &options);
	char *threads = strdup("");
	struct trace trace;
	FILE *out;

	trace_init(&trace, 0, UINT64_MAX);
	trace.keeps_runs = options.runs;
	trace.keeps_depths = options.depths;
	for (int i = first; i < argc; i++) {
		if (options.input)
			add_saved_group(&trace, argv[i]);
		else
			add_group(&trace, argv[i], &threads);
	}
	if (!options.input) {
		become_instrument(false);
		record(&options, threads);
	}
	read_trace(&trace, options.input ? options.input : TRACEFS "/trace");
	if (!options.input) {
		trace.lost += count_overruns();
		switch_off();
	}
	out = fopen(options.out, "w");
	if (!out)
		die_errno("cannot write %s", options.out);
	trace_write(out, &trace);
	if (fclose(out))
		die_errno("cannot write %s", options.out);
	free(threads);
	return 0;
}
