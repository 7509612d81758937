// SPDX-License-Identifier: MIT
/*
 * coop-run PROGRAM [ARGUMENT...]: starts a program with libcoop-preload.so in front of its C library. What the dynamic loader would
 * pass over in silence (a program without it, one with more rights than its caller, one of another machine) is said before.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define LIBRARY "libcoop-preload.so"

/* As env(1), nohup(1) and timeout(1) have them. */
enum status {
	STATUS_FAILED = 125,
	STATUS_CANNOT_RUN = 126,
	STATUS_NOT_FOUND = 127,
};

static const char usage[] =
	"Usage: coop-run [--] PROGRAM [ARGUMENT...]\n"
	"\n"
	"Runs PROGRAM, and what it starts, as cooperative programs: while one of their threads waits in poll, select or epoll_wait, for a\n"
	"condition until a time, in nanosleep, or in read for a timer, limelight knows until when, and runs it at that time. Where limelight does\n"
	"not run they run as ever. They have no transparent huge pages (COOP_HUGE_PAGES=1: they may). See coop-run(1).\n"
	"\n"
	"  -h, --help     this text\n"
	"  -V, --version  the version\n"
	"\n"
	"Exit status: PROGRAM's; 125 coop-run failed, 126 PROGRAM cannot be run, 127 it is not found.\n";

__attribute__((noreturn, format(printf, 4, 5))) static void fail(enum status status, const char *reason, const char *fix, const char *what, ...)
{
	va_list arguments;

	fputs("coop-run: ", stderr);
	va_start(arguments, what);
	vfprintf(stderr, what, arguments);
	va_end(arguments);
	fprintf(stderr, "\n  reason: %s\n  fix: %s\n", reason, fix);
	exit(status);
}

/* Beside this program in a build; once installed, in the library folder beside its own, wherever both were put. */
static char *find_library(void)
{
	static const char *const places[] = { "", "../" COOP_LIBDIR "/" };
	char own[4096], *found;
	const ssize_t length = readlink("/proc/self/exe", own, sizeof(own) - 1);

	if (length <= 0)
		fail(STATUS_FAILED, strerror(errno), "mount /proc", "cannot tell where coop-run is");
	own[length] = '\0';
	*(strrchr(own, '/') + 1) = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
		if (asprintf(&found, "%s%s" LIBRARY, own, places[i]) >= 0 && !access(found, R_OK))
			return found;
	fail(STATUS_FAILED, "it is neither there nor in ../" COOP_LIBDIR, "install libcoop again (make install)", "cannot find %s" LIBRARY, own);
}

static bool is_program(const char *path)
{
	struct stat status;

	return !stat(path, &status) && S_ISREG(status.st_mode) && !access(path, X_OK);
}

/* Where execvp() will find it. */
static char *find_program(const char *name)
{
	const char *path = getenv("PATH");
	char *rest, *found;

	if (strchr(name, '/'))
		return strdup(name);
	rest = strdup(path ? path : "/bin:/usr/bin");
	for (const char *folder; rest && (folder = strsep(&rest, ":"));)
		if (asprintf(&found, "%s/%s", *folder ? folder : ".", name) >= 0 && is_program(found))
			return found;
	fail(STATUS_NOT_FOUND, "no folder of PATH has it", "check its name, or give its path", "cannot find %s", name);
}

/* The beginning of a file, of which an ELF header tells the machine and where the segments are. False: it is none, or unreadable. */
static bool read_header(const char *path, Elf64_Ehdr *header, Elf64_Phdr *segments, size_t room, size_t *count)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool is_elf;

	*count = 0;
	is_elf = fd >= 0 && pread(fd, header, sizeof(*header), 0) == (ssize_t)sizeof(*header) && !memcmp(header->e_ident, ELFMAG, SELFMAG);
	if (is_elf && header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_phentsize == sizeof(*segments)) {
		const size_t wanted = header->e_phnum < room ? header->e_phnum : room;
		const ssize_t got = pread(fd, segments, wanted * sizeof(*segments), (off_t)header->e_phoff);

		*count = got > 0 ? (size_t)got / sizeof(*segments) : 0;
	}
	if (fd >= 0)
		close(fd);
	return is_elf;
}

static bool has_loader(const Elf64_Phdr *segments, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (segments[i].p_type == PT_INTERP)
			return true;
	return false;
}

static bool gets_more_rights(const char *path)
{
	struct stat status;

	if (stat(path, &status))
		return false;
	return (status.st_mode & S_ISUID && status.st_uid != geteuid()) || (status.st_mode & S_ISGID && status.st_gid != getegid()) ||
	       (geteuid() && getxattr(path, "security.capability", NULL, 0) > 0);
}

/* Ends here where the library would not be loaded into the program. A script's interpreter is not looked at. */
static void check_program(const char *path)
{
	Elf64_Ehdr own, header;
	Elf64_Phdr segments[64];
	size_t count;

	if (access(path, F_OK))
		fail(STATUS_NOT_FOUND, strerror(errno), "check its name", "cannot find %s", path);
	if (!is_program(path))
		fail(STATUS_CANNOT_RUN, "it is no file that this user may execute", "chmod +x, or name another one", "cannot run %s", path);
	if (gets_more_rights(path))
		fail(STATUS_CANNOT_RUN, "it gets rights that its caller has not, and such programs load nothing of their caller's",
		     "run it without coop-run, or as the user whose rights it gets", "cannot make %s cooperative", path);
	(void)read_header("/proc/self/exe", &own, segments, 0, &count);
	if (!read_header(path, &header, segments, sizeof(segments) / sizeof(*segments), &count))
		return;
	if (header.e_ident[EI_CLASS] != own.e_ident[EI_CLASS] || header.e_machine != own.e_machine)
		fail(STATUS_CANNOT_RUN, "it is built for another kind of machine than " LIBRARY, "run it without coop-run",
		     "cannot make %s cooperative", path);
	if (!has_loader(segments, count))
		fail(STATUS_CANNOT_RUN, "it is statically linked, so that nothing can be put in front of its C library",
		     "run it without coop-run, or build it with libcoop (coop(7))", "cannot make %s cooperative", path);
}

static void set_preload(const char *library)
{
	const char *before = getenv("LD_PRELOAD");
	char *all;

	if (strpbrk(library, ": \t\n"))
		fail(STATUS_FAILED, "the dynamic loader takes a space or a colon for the end of a name in LD_PRELOAD", "install it in a folder without them",
		     "cannot use %s", library);
	/* In front of what is there: what others wrap is still called. */
	if (asprintf(&all, "%s%s%s", library, before && *before ? ":" : "", before ? before : "") < 0 || setenv("LD_PRELOAD", all, 1))
		fail(STATUS_FAILED, strerror(errno), "free some memory", "cannot set LD_PRELOAD");
}

/*
 * khugepaged copies what a program has into huge pages, for ms with the lock of its memory: whoever has a page fault or maps something then waits
 * for the end of that, and no scheduler can cut it short. Of 3,000 pictures an X server showed one 3.4 ms late for it (traced). Where it is
 * wanted otherwise it stays as it is, inherited perhaps.
 */
static void do_without_huge_pages(void)
{
	const char *wanted = getenv("COOP_HUGE_PAGES");

	if (!wanted || strcmp(wanted, "1"))
		(void)prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
}

int main(int argc, char **argv)
{
	char *program;
	int first = 1;

	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		fputs(usage, stdout);
		return 0;
	}
	if (argc > 1 && (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V"))) {
		puts("coop-run " COOP_VERSION);
		return 0;
	}
	if (argc > 1 && !strcmp(argv[1], "--"))
		first++;
	else if (argc > 1 && argv[1][0] == '-')
		fail(STATUS_FAILED, "coop-run has --help and --version only", "put -- before a program whose name begins with a dash",
		     "unknown option '%s'", argv[1]);
	if (first >= argc)
		fail(STATUS_FAILED, "no program is named", "coop-run PROGRAM [ARGUMENT...]", "nothing to run");
	program = find_program(argv[first]);
	check_program(program);
	set_preload(find_library());
	do_without_huge_pages();
	execv(program, argv + first);
	if (errno == ENOEXEC)
		/* A script without a first line of its own: the shell's, as execvp() has it. */
		execvp(argv[first], argv + first);
	fail(STATUS_CANNOT_RUN, strerror(errno), "run it without coop-run to see whether it is the program's fault", "cannot run %s", program);
}
