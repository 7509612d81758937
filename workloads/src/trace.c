// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include "trace.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum phase { PHASE_UNKNOWN, PHASE_WAKING, PHASE_PREEMPTED, PHASE_RUNNING, PHASE_BLOCKED };

struct trace_task {
	uint64_t since_ns; /* when `phase` began */
	uint8_t phase;
	uint8_t group; /* number + 1; 0: not followed */
	uint8_t depth; /* of the wake-up that it waits since */
};

void trace_init(struct trace *trace, uint64_t begin_ns, uint64_t end_ns)
{
	memset(trace, 0, sizeof(*trace));
	trace->begin_ns = begin_ns;
	trace->end_ns = end_ns;
	trace->tasks = calloc(TRACE_PID_MAX + 1, sizeof(*trace->tasks));
	if (!trace->tasks)
		die_errno("no memory for the table of tasks");
}

unsigned trace_add_group(struct trace *trace, const char *name)
{
	if (trace->group_count == TRACE_GROUPS_MAX)
		die_usage("more than %d groups", TRACE_GROUPS_MAX);
	struct trace_group *group = &trace->groups[trace->group_count];

	snprintf(group->name, sizeof(group->name), "%s", name);
	return trace->group_count++;
}

void trace_follow(struct trace *trace, unsigned pid, unsigned group)
{
	if (pid > 0 && pid <= TRACE_PID_MAX)
		trace->tasks[pid].group = (uint8_t)(group + 1);
}

/* The followed task `pid`, or NULL. */
static struct trace_task *followed(struct trace *trace, uint64_t pid)
{
	return pid > 0 && pid <= TRACE_PID_MAX && trace->tasks[pid].group ? &trace->tasks[pid] : NULL;
}

/*
 * The number behind the last `key` in `line`. The last, because a task may choose its name, and a name may hold " pid=";
 * the fields after the name may not. Returns false where there is none.
 */
static bool field(const char *line, const char *key, uint64_t *value)
{
	const char *found = NULL;

	for (const char *at = strstr(line, key); at; at = strstr(at + 1, key))
		found = at;
	if (!found || !isdigit((unsigned char)found[strlen(key)]))
		return false;
	*value = strtoull(found + strlen(key), NULL, 10);
	return true;
}

static bool counts(const struct trace *trace, uint64_t since_ns)
{
	return since_ns >= trace->begin_ns && since_ns < trace->end_ns;
}

static void on_waking(struct trace_task *task, uint64_t when_ns, uint8_t depth)
{
	/* A task that is on a CPU or already waiting for one gains nothing by a second wake-up. */
	if (task->phase == PHASE_RUNNING || task->phase == PHASE_WAKING || task->phase == PHASE_PREEMPTED)
		return;
	task->phase = PHASE_WAKING;
	task->since_ns = when_ns;
	task->depth = depth;
}

static void on_running(struct trace *trace, struct trace_task *task, uint64_t when_ns)
{
	struct trace_group *group = &trace->groups[task->group - 1];

	if (counts(trace, task->since_ns)) {
		if (task->phase == PHASE_WAKING) {
			samples_add(&group->dispatch, when_ns - task->since_ns);
			if (trace->keeps_depths)
				samples_add(&group->depth, task->depth);
		} else if (task->phase == PHASE_PREEMPTED) {
			samples_add(&group->requeue, when_ns - task->since_ns);
		}
	}
	task->phase = PHASE_RUNNING;
	task->since_ns = when_ns;
}

static void on_switched_away(struct trace *trace, struct trace_task *task, uint64_t when_ns, bool voluntary)
{
	struct trace_group *group = &trace->groups[task->group - 1];

	if (task->phase == PHASE_RUNNING && counts(trace, task->since_ns)) {
		samples_add(&group->quantum, when_ns - task->since_ns);
		if (trace->keeps_runs) {
			samples_add(&group->began, task->since_ns);
			samples_add(&group->ended, when_ns);
		}
		if (voluntary)
			group->voluntary++;
		else
			group->forced++;
	}
	task->phase = voluntary ? PHASE_BLOCKED : PHASE_PREEMPTED;
	task->since_ns = when_ns;
}

static void on_switch(struct trace *trace, const char *line, uint64_t when_ns)
{
	uint64_t prev_pid = 0, next_pid = 0;
	const char *state = strstr(line, "prev_state=");
	struct trace_task *task;

	if (!state || !field(line, "prev_pid=", &prev_pid) || !field(line, "next_pid=", &next_pid)) {
		trace->lost++;
		return;
	}
	task = followed(trace, prev_pid);
	if (task)
		on_switched_away(trace, task, when_ns, state[strlen("prev_state=")] != 'R');
	task = followed(trace, next_pid);
	if (task)
		on_running(trace, task, when_ns);
}

/* A thread or process made by a followed one belongs to the same group. */
static void on_fork(struct trace *trace, const char *line)
{
	uint64_t parent_pid = 0, child_pid = 0;
	const struct trace_task *parent;

	if (!field(line, " pid=", &parent_pid) || !field(line, "child_pid=", &child_pid))
		return;
	parent = followed(trace, parent_pid);
	if (parent && child_pid > 0 && child_pid <= TRACE_PID_MAX)
		trace->tasks[child_pid] = (struct trace_task){ .group = parent->group };
}

/* Where "12.345678", in seconds, begins that ends at `colon`. */
static const char *timestamp_start(const char *colon, const char *line)
{
	while (colon > line && (isdigit((unsigned char)colon[-1]) || colon[-1] == '.'))
		colon--;
	return colon;
}

/* That to ns. */
static bool timestamp(const char *colon, const char *line, uint64_t *when_ns)
{
	const char *at = timestamp_start(colon, line);
	char *fraction = NULL;
	const uint64_t seconds = strtoull(at, &fraction, 10);
	if (at == colon || *fraction != '.')
		return false;
	*when_ns = seconds * NS_PER_S + strtoull(fraction + 1, NULL, 10) * NS_PER_US;
	return true;
}

/* From the five letters before the time ("d.h3.": interrupts, resched, which interrupt, preemption, migration). 0: there are none. */
static uint8_t depth(const char *colon, const char *line)
{
	const char *end = timestamp_start(colon, line);

	while (end > line && end[-1] == ' ')
		end--;
	if (end - line < 5)
		return 0;
	const bool serves = strchr("sHZ", end[-3]);
	const int digit = isxdigit((unsigned char)end[-2]) ? (int)strtol((const char[]){ end[-2], 0 }, NULL, 16) : 0;
	return (uint8_t)(digit + (serves ? 0x10 : 0));
}

void trace_line(struct trace *trace, const char *line)
{
	static const char *const events[] = { ": sched_waking: ", ": sched_switch: ", ": sched_process_fork: " };
	uint64_t when_ns = 0, pid = 0;

	if (*line == '#')
		return;
	if (strstr(line, "LOST ")) {
		trace->lost++;
		return;
	}
	for (unsigned kind = 0; kind < 3; kind++) {
		const char *event = strstr(line, events[kind]);

		if (!event || !timestamp(event, line, &when_ns))
			continue;
		trace->lines++;
		if (kind == 0) {
			/* " pid=" behind the name: see field(). */
			struct trace_task *task = field(event, " pid=", &pid) ? followed(trace, pid) : NULL;

			if (task)
				on_waking(task, when_ns, depth(event, line));
		} else if (kind == 1) {
			on_switch(trace, event, when_ns);
		} else {
			on_fork(trace, event);
		}
		return;
	}
}

void trace_write(FILE *out, const struct trace *trace)
{
	fprintf(out, "{\"source\": \"kernel trace points sched_waking, sched_switch\", \"lines\": %" PRIu64
		", \"lost\": %" PRIu64 ", \"groups\": {", trace->lines, trace->lost);
	for (unsigned i = 0; i < trace->group_count; i++) {
		const struct trace_group *group = &trace->groups[i];

		fprintf(out, "%s\"%s\": {", i ? ", " : "", group->name);
		samples_write(out, "dispatch", &group->dispatch);
		fputs(", ", out);
		samples_write(out, "requeue", &group->requeue);
		fputs(", ", out);
		samples_write(out, "quantum", &group->quantum);
		if (trace->keeps_runs) {
			fputs(", ", out);
			samples_write(out, "began", &group->began);
			fputs(", ", out);
			samples_write(out, "ended", &group->ended);
		}
		if (trace->keeps_depths) {
			fputs(", ", out);
			samples_write_in(out, "depth", "", &group->depth);
		}
		fprintf(out, ", \"voluntary\": %" PRIu64 ", \"forced\": %" PRIu64 "}", group->voluntary, group->forced);
	}
	fputs("}}\n", out);
}
