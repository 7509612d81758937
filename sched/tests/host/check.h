/* SPDX-License-Identifier: GPL-2.0-only */
/* What the programs of host tests have in common: a check that is told where it does not hold, and counted. */
#ifndef LIMELIGHT_HOST_CHECK_H
#define LIMELIGHT_HOST_CHECK_H

#include <stdio.h>

static int failures;

#define CHECK(condition, ...)                                                              \
	do {                                                                               \
		if (!(condition)) {                                                        \
			failures++;                                                        \
			printf("%s:%d: %s: ", __FILE__, __LINE__, #condition);             \
			printf(__VA_ARGS__);                                               \
			putchar('\n');                                                     \
		}                                                                          \
	} while (0)

#endif /* LIMELIGHT_HOST_CHECK_H */
