// SPDX-License-Identifier: MIT
/* As unmodified_cases.c: what the preload must not change for programs at the edge of what the kernel allows them, by memory or by a sandbox. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "testing.h"

CASE(a_count_larger_than_the_set_is_one,
     "select() of as many descriptors as the process may have, with an fd_set of the usual size at the end of its memory and a timerfd: it returns 0"
     " after its timeout, because the kernel looks no further than descriptors are open.")
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	struct timeval timeout = { .tv_usec = 1000 };

	CHECK(memory != MAP_FAILED && timer >= 0);
	settle_in();
	CHECK_EQ(munmap(memory + page, page), 0);
	CHECK_EQ(select(16 * FD_SETSIZE, (fd_set *)(memory + page - sizeof(fd_set)), NULL, NULL, &timeout), 0);
}

static volatile sig_atomic_t traps;

static void refuse(int number, siginfo_t *info, void *context)
{
	ucontext_t *at = context;

	(void)number;
	(void)info;
	traps++;
#if defined(__x86_64__)
	at->uc_mcontext.gregs[REG_RAX] = -EACCES;
#elif defined(__aarch64__)
	at->uc_mcontext.regs[0] = (unsigned long long)-EACCES;
#endif
}

static void live_in_a_sandbox(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { .len = ARRAY_SIZE(filter), .filter = filter };
	const struct sigaction action = { .sa_sigaction = refuse, .sa_flags = SA_SIGINFO };

	CHECK_EQ(sigaction(SIGSYS, &action, NULL), 0);
	CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	CHECK_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
	settle_in();
	CHECK_EQ(socket(AF_UNIX, SOCK_STREAM, 0), -1);
	CHECK_EQ(errno, EACCES);
	CHECK(traps >= 1);
}

CASE(a_sandbox_may_refuse_by_a_signal,
     "Where seccomp has socket() trap, and a handler of SIGSYS says EACCES, as browsers' sandboxes do, a child sleeps on as before: it is not killed,"
     " whoever calls that.")
{
	int status = -1;
	pid_t child;

	settle_in();
	child = fork();
	if (!child) {
		live_in_a_sandbox();
		_exit(0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
}
