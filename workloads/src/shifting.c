// SPDX-License-Identifier: GPL-2.0-only
/*
 * shifting C_US T_US SECONDS [AFTER_S C_US]: a program with a deadline, as reservations are for. It wakes at every multiple of T from its start,
 * uses C of CPU, and is to be done by the next. After AFTER_S seconds it uses another C. One line of JSON at the end: how many periods there were,
 * how many of them ended late, and the longest from a wake-up's time to being done. C = 0: it never sleeps.
 */
#include "common.h"

#include <inttypes.h>

int main(int argc, char **argv)
{
	uint64_t work_ns, later_ns, period_ns, begin_ns, end_ns, after_ns, due_ns, took_ns, worst_ns = 0, periods = 0, missed = 0;

	if (argc != 4 && argc != 6)
		die_usage("usage: shifting C_US T_US SECONDS [AFTER_S C_US]");
	work_ns = parse_number("C", argv[1], 0, 10000000) * NS_PER_US;
	period_ns = parse_number("T", argv[2], 100, 10000000) * NS_PER_US;
	begin_ns = now_ns() + period_ns;
	end_ns = begin_ns + parse_number("the time", argv[3], 1, 3600) * NS_PER_S;
	after_ns = argc > 4 ? begin_ns + parse_number("the time until it changes", argv[4], 0, 3600) * NS_PER_S : end_ns;
	later_ns = argc > 5 ? parse_number("the later C", argv[5], 1, 10000000) * NS_PER_US : work_ns;
	for (due_ns = begin_ns; due_ns < end_ns; due_ns += period_ns) {
		if (!work_ns) {
			burn_cpu_ns(NS_PER_MS);
			due_ns = now_ns();
			continue;
		}
		sleep_until_ns(due_ns);
		burn_cpu_ns(due_ns < after_ns ? work_ns : later_ns);
		took_ns = now_ns() - due_ns;
		missed += took_ns > period_ns;
		worst_ns = took_ns > worst_ns ? took_ns : worst_ns;
		periods++;
	}
	printf("{\"periods\": %" PRIu64 ", \"missed\": %" PRIu64 ", \"worst_ms\": %.3f, \"cpu_ms\": %.3f}\n", periods, missed,
	       (double)worst_ns / NS_PER_MS, (double)thread_cpu_ns() / NS_PER_MS);
	return 0;
}
