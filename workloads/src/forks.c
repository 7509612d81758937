// SPDX-License-Identifier: GPL-2.0-only
/*
 * forks COUNT: forks so many times; each child ends at once, and is waited for. Its memory is small (it is linked statically), so that a fork costs
 * a fifth of a shell's.
 */
#include "common.h"

#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	uint64_t count;

	if (argc != 2)
		die_usage("usage: forks COUNT");
	count = parse_number("COUNT", argv[1], 1, 100000000);
	for (uint64_t done = 0; done < count; done++) {
		const pid_t child = fork();

		if (child < 0)
			die_errno("cannot fork");
		if (child == 0)
			_exit(0);
		if (waitpid(child, NULL, 0) != child)
			die_errno("cannot wait for a child");
	}
	return 0;
}
