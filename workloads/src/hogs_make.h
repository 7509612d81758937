/* SPDX-License-Identifier: GPL-2.0-only */
/* The parallel make among the background loads: a generated tree of C files and a make that builds it for ever. */
#ifndef LIMELIGHT_WORKLOADS_HOGS_MAKE_H
#define LIMELIGHT_WORKLOADS_HOGS_MAKE_H

#include "common.h"

#include <fcntl.h>

struct make_tree {
	char path[128]; /* empty: none was made */
};

/* Writes the tree into memory (/dev/shm, or /tmp where there is none): enough files that `jobs` always find work. */
void make_tree_create(struct make_tree *tree, unsigned jobs, bool once, uint64_t seed);

/* Runs `make -j jobs` once; false when it failed. */
bool make_tree_build(const struct make_tree *tree, unsigned jobs);

/* Starts a child that runs `make clean; make -j jobs` again and again, in the caller's process group. */
void make_tree_build_forever(const struct make_tree *tree, unsigned jobs);

/* Removes what make_tree_create made. */
void make_tree_remove(const struct make_tree *tree);

#endif
