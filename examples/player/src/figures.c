// SPDX-License-Identifier: MIT
#include "figures.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

static const char *const kind_names[KINDS] = { "I", "P", "B" };
static const char *const fate_names[FATES] = { "shown", "not_sent", "expired", "reference_lost", "late", "damaged", "no_picture" };
static const char *const work_names[WORKS] = { "prepare", "predecode", "receive", "decode", "display" };

static uint64_t sum(const uint64_t *values, int count)
{
	uint64_t all = 0;

	for (int i = 0; i < count; i++)
		all += values[i];
	return all;
}

static void write_frames(FILE *out, const struct figures *figures)
{
	uint64_t due = 0, shown = 0;

	for (int kind = 0; kind < KINDS; kind++) {
		due += sum(figures->frames[kind], FATES);
		shown += figures->frames[kind][SHOWN];
	}
	fprintf(out, "\"frames_due\": %" PRIu64 ", \"frames_shown\": %" PRIu64 ", \"frames\": {", due, shown);
	for (int kind = 0; kind < KINDS; kind++) {
		fprintf(out, "%s\"%s\": {\"due\": %" PRIu64, kind ? ", " : "", kind_names[kind], sum(figures->frames[kind], FATES));
		for (int fate = 0; fate < FATES; fate++)
			fprintf(out, ", \"%s\": %" PRIu64, fate_names[fate], figures->frames[kind][fate]);
		fputc('}', out);
	}
	fputs("}, ", out);
}

static void write_samples(FILE *out, const char *name, const struct samples *samples)
{
	fprintf(out, "\"%s\": [", name);
	for (size_t i = 0; i < samples->count; i++)
		fprintf(out, "%s%" PRIu64, i ? "," : "", samples->values[i]);
	fputs("], ", out);
}

static void write_works(FILE *out, struct figures *figures)
{
	fputs("\"event_cpu_ns\": {", out);
	for (int work = 0; work < WORKS; work++) {
		struct samples *samples = &figures->cpu_ns[work];

		fprintf(out, "%s\"%s\": {\"count\": %zu, \"p50\": %" PRIu64, work ? ", " : "", work_names[work], samples->count,
			samples_quantile(samples, 500));
		fprintf(out, ", \"p99\": %" PRIu64 ", \"max\": %" PRIu64 "}", samples_quantile(samples, 990), samples_quantile(samples, 1000));
	}
	fputs("}, ", out);
}

static void write_string(FILE *out, const char *text)
{
	fputc('"', out);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', out);
		if ((unsigned char)*text < ' ')
			fprintf(out, "\\u%04x", *text);
		else
			fputc(*text, out);
	}
	fputc('"', out);
}

void figures_write(FILE *out, const char *film, struct figures *figures)
{
	static const char *const promises[] = { "none", "demoted", "kept" };
	struct timespec cpu;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	fputs("{\"film\": ", out);
	write_string(out, film);
	fputs(", ", out);
	write_frames(out, figures);
	fprintf(out, "\"promise\": \"%s\", \"kept\": %" PRIu64 ", \"until_kept_ns\": %" PRId64 ", ", promises[figures->promise], figures->kept,
		figures->first_kept_ns ? (int64_t)(figures->first_kept_ns - figures->begin_ns) : -1);
	write_samples(out, "shown_ns", &figures->shown_ns);
	write_samples(out, "release_ns", &figures->release_ns);
	write_samples(out, "tardiness_ns", &figures->tardiness_ns);
	write_samples(out, "on_screen_ns", &figures->on_screen_ns);
	write_works(out, figures);
	fprintf(out, "\"cpu_ns\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"start_ns\": %" PRIu64 "}\n",
		(uint64_t)cpu.tv_sec * NS_PER_S + (uint64_t)cpu.tv_nsec, figures->bytes, figures->start_ns);
}

void figures_free(struct figures *figures)
{
	free(figures->shown_ns.values);
	free(figures->release_ns.values);
	free(figures->tardiness_ns.values);
	free(figures->on_screen_ns.values);
	for (int work = 0; work < WORKS; work++)
		free(figures->cpu_ns[work].values);
}
