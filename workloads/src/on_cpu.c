// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include "on_cpu.h"

#include "common.h"

#include <linux/perf_event.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* 2,048 times on a CPU: those of one period, and of many that are passed over. */
#define DATA_PAGES 16

/* The only record asked for, with what `sample_type` appends to it. */
struct switch_record {
	struct perf_event_header header;
	uint64_t time_ns;
};

static struct perf_event_mmap_page *ring;
/* Since when the thread is on a CPU, as far as the records were read; 0 where it is not. */
static uint64_t since_ns;

void on_cpu_record(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE, .size = sizeof(attr), .config = PERF_COUNT_SW_DUMMY, .sample_type = PERF_SAMPLE_TIME,
		.context_switch = 1, .sample_id_all = 1, .use_clockid = 1, .clockid = CLOCK_MONOTONIC, .exclude_kernel = 1, .exclude_hv = 1,
	};
	const long page = sysconf(_SC_PAGESIZE);
	const int event = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	if (event < 0)
		die_errno("cannot have its switches recorded (perf_event_open: needs root, or kernel.perf_event_paranoid of 1)");
	ring = mmap(NULL, (1 + DATA_PAGES) * page, PROT_READ | PROT_WRITE, MAP_SHARED, event, 0);
	if (ring == MAP_FAILED)
		die_errno("cannot map the records of its switches");
	since_ns = now_ns();
}

void on_cpu_begin(struct on_cpu *periods, uint64_t begins_ns, uint64_t period_ns)
{
	*periods = (struct on_cpu){ .begins_ns = begins_ns, .period_ns = period_ns };
}

/* It ran from then until then: what of that lies in one of the two periods is counted there. */
static void add(struct on_cpu *periods, uint64_t from_ns, uint64_t until_ns)
{
	for (int i = 0; i < 2; i++) {
		const uint64_t begins_ns = periods->begins_ns + i * periods->period_ns, ends_ns = begins_ns + periods->period_ns;
		const uint64_t from = from_ns > begins_ns ? from_ns : begins_ns, until = until_ns < ends_ns ? until_ns : ends_ns;

		if (until > from)
			periods->ran_ns[i] += until - from;
	}
}

/* The record at that place of the ring, which may go round its end. */
static void read_at(uint64_t at, void *into, size_t size)
{
	const char *data = (const char *)ring + ring->data_offset;

	for (size_t i = 0; i < size; i++)
		((char *)into)[i] = data[(at + i) % ring->data_size];
}

uint64_t on_cpu_ran_ns(struct on_cpu *periods)
{
	/* Before the records: what happens in between is counted by the next look, or the thread would seem to have run while it was preempted. */
	const uint64_t now = now_ns(), head = __atomic_load_n(&ring->data_head, __ATOMIC_ACQUIRE);
	uint64_t at = ring->data_tail;
	/* That some were lost is written when there is room again. */
	const bool is_full = head - at > ring->data_size - 2 * sizeof(struct switch_record);
	struct switch_record record;

	while (at < head) {
		read_at(at, &record, sizeof(record));
		at += record.header.size;
		if (record.header.type == PERF_RECORD_LOST)
			since_ns = 0;
		if (record.header.type != PERF_RECORD_SWITCH)
			continue;
		if (!(record.header.misc & PERF_RECORD_MISC_SWITCH_OUT)) {
			since_ns = record.time_ns;
		} else if (since_ns) {
			add(periods, since_ns, record.time_ns);
			since_ns = 0;
		}
	}
	__atomic_store_n(&ring->data_tail, at, __ATOMIC_RELEASE);
	if (since_ns && since_ns < now && !is_full)
		add(periods, since_ns, now);
	if (since_ns < now)
		since_ns = now;
	return periods->ran_ns[0];
}

void on_cpu_next(struct on_cpu *periods, uint64_t begins_ns)
{
	const bool follows = begins_ns == periods->begins_ns + periods->period_ns;

	periods->ran_ns[0] = follows ? periods->ran_ns[1] : 0;
	periods->ran_ns[1] = 0;
	periods->begins_ns = begins_ns;
}
