// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include "hogs_make.h"

#include <ftw.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* A file of this many functions keeps cc1 busy for about 0.8 s at the laboratory's 500 MIPS: a small C file's time. */
#define FUNCTIONS_PER_FILE 4
/* A tree that is built over and over is large, so that the wait for the last file is rare; one that is built once need not be. */
#define FILES_MIN 64
#define FILES_PER_JOB_ONCE 4

static FILE *open_in(const struct make_tree *tree, const char *name)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", tree->path, name);
	file = fopen(path, "w");
	if (!file)
		die_errno("cannot write %s", path);
	return file;
}

static void close_or_die(FILE *file, const struct make_tree *tree)
{
	if (fclose(file))
		die_errno("cannot write into %s (is it full?)", tree->path);
}

static void write_source(const struct make_tree *tree, unsigned index, struct random_state *random)
{
	char name[32];
	FILE *file;

	snprintf(name, sizeof(name), "f%u.c", index);
	file = open_in(tree, name);
	for (unsigned f = 0; f < FUNCTIONS_PER_FILE; f++) {
		fprintf(file, "unsigned f%u_%u(unsigned a, unsigned b)\n{\n\tunsigned t[16] = { a, b };\n", index, f);
		fprintf(file, "\tfor (unsigned i = 0; i < %" PRIu64 "; i++) {\n", random_between(random, 10, 1000));
		for (unsigned line = 0; line < 8; line++)
			fprintf(file, "\t\tt[(i + %" PRIu64 ") %% 16] += t[%u] * %" PRIu64 "u ^ (a >> %" PRIu64 ");\n",
				random_between(random, 0, 15), line, random_between(random, 1, 99999),
				random_between(random, 1, 15));
		fprintf(file, "\t\tif (t[3] > b) b += t[%" PRIu64 "]; else a ^= b;\n\t}\n", random_between(random, 0, 15));
		fprintf(file, "\treturn t[a %% 16] + b;\n}\n");
	}
	close_or_die(file, tree);
}

void make_tree_create(struct make_tree *tree, unsigned jobs, bool once, uint64_t seed)
{
	const unsigned many = jobs * 2 > FILES_MIN ? jobs * 2 : FILES_MIN;
	const unsigned files = once ? jobs * FILES_PER_JOB_ONCE : many;
	struct random_state random;
	FILE *makefile;

	if (system("command -v make gcc >/dev/null") != 0)
		die_usage("the make load needs make and gcc: install them, or use another load");
	snprintf(tree->path, sizeof(tree->path), "%s/hogs-make.XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
	if (!mkdtemp(tree->path))
		die_errno("cannot make a folder %s", tree->path);
	random_seed(&random, seed);
	for (unsigned i = 0; i < files; i++)
		write_source(tree, i, &random);
	makefile = open_in(tree, "Makefile");
	fprintf(makefile, "OBJECTS :=");
	for (unsigned i = 0; i < files; i++)
		fprintf(makefile, " f%u.o", i);
	fprintf(makefile, "\nall: $(OBJECTS)\n%%.o: %%.c\n\tgcc -O2 -pipe -c -o $@ $<\nclean:\n\trm -f *.o\n");
	close_or_die(makefile, tree);
}

static int run_and_wait(char *const command[])
{
	const pid_t child = fork();
	int status = -1;

	if (child < 0)
		return -1;
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		execvp(command[0], command);
		_exit(127);
	}
	return waitpid(child, &status, 0) < 0 ? -1 : status;
}

bool make_tree_build(const struct make_tree *tree, unsigned jobs)
{
	char jobs_option[16];

	snprintf(jobs_option, sizeof(jobs_option), "-j%u", jobs);
	char *const build[] = { "make", "-s", "-C", (char *)tree->path, jobs_option, NULL };
	return run_and_wait(build) == 0;
}

void make_tree_build_forever(const struct make_tree *tree, unsigned jobs)
{
	const pid_t parent = getpid();
	const pid_t child = fork();

	if (child < 0)
		die_errno("cannot start make");
	if (child)
		return;
	signal(SIGTERM, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(1);
	char *const clean[] = { "make", "-s", "-C", (char *)tree->path, "clean", NULL };
	while (make_tree_build(tree, jobs) && run_and_wait(clean) == 0)
		;
	fprintf(stderr, "hogs: make failed in %s: its own message is above\n", tree->path);
	_exit(1);
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *where)
{
	(void)info, (void)kind, (void)where;
	return remove(path);
}

void make_tree_remove(const struct make_tree *tree)
{
	if (tree->path[0] && nftw(tree->path, remove_entry, 16, FTW_DEPTH | FTW_PHYS))
		fprintf(stderr, "hogs: could not remove all of %s\n", tree->path);
}
