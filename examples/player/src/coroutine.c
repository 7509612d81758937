// SPDX-License-Identifier: MIT
/*
 * By ucontext(3), which costs two system calls a switch, to keep the mask of signals: less than 1 us of a piece of some 100 us. A library of
 * coroutines with a switch of its own would do without.
 */
#include "coroutine.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "common.h"

/* What main threads have. Only what is touched takes memory. */
#define STACK_BYTES (8u << 20)

/* The address sanitizer has to be told which stack is in use. */
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#define LEAVE_STACK(keep, to, bytes) __sanitizer_start_switch_fiber(keep, to, bytes)
#define ENTER_STACK(kept, from, bytes) __sanitizer_finish_switch_fiber(kept, from, bytes)
#else
#define LEAVE_STACK(keep, to, bytes) ((void)(keep), (void)(to), (void)(bytes))
#define ENTER_STACK(kept, from, bytes) ((void)(kept), (void)(from), (void)(bytes))
#endif

struct coroutine {
	ucontext_t own, caller;
	void (*function)(void *);
	void *user;
	void *stack;			/* its lowest page is a wall */
	size_t page;
	void *own_fake, *caller_fake;	/* the sanitizer's */
	const void *caller_stack;
	size_t caller_bytes;
};

/* makecontext() passes integers. */
static void begin(unsigned int high, unsigned int low)
{
	struct coroutine *coroutine = (struct coroutine *)((uintptr_t)high << 32 | low);

	ENTER_STACK(coroutine->own_fake, &coroutine->caller_stack, &coroutine->caller_bytes);
	coroutine->function(coroutine->user);
	abort();
}

struct coroutine *coroutine_new(void (*function)(void *), void *user)
{
	struct coroutine *coroutine = allocate(sizeof(*coroutine));
	const uintptr_t address = (uintptr_t)coroutine;

	coroutine->function = function;
	coroutine->user = user;
	coroutine->page = (size_t)sysconf(_SC_PAGESIZE);
	coroutine->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	if (coroutine->stack == MAP_FAILED || mprotect(coroutine->stack, coroutine->page, PROT_NONE) || getcontext(&coroutine->own))
		die(STATUS_FAILED, strerror(errno), "free some memory", "cannot make a stack");
	coroutine->own.uc_stack.ss_sp = (uint8_t *)coroutine->stack + coroutine->page;
	coroutine->own.uc_stack.ss_size = STACK_BYTES - coroutine->page;
	coroutine->own.uc_link = NULL;
	makecontext(&coroutine->own, (void (*)(void))begin, 2, (unsigned int)((uint64_t)address >> 32), (unsigned int)address);
	return coroutine;
}

void coroutine_free(struct coroutine *coroutine)
{
	munmap(coroutine->stack, STACK_BYTES);
	free(coroutine);
}

void coroutine_run(struct coroutine *coroutine)
{
	LEAVE_STACK(&coroutine->caller_fake, coroutine->own.uc_stack.ss_sp, coroutine->own.uc_stack.ss_size);
	swapcontext(&coroutine->caller, &coroutine->own);
	ENTER_STACK(coroutine->caller_fake, NULL, NULL);
}

void coroutine_pause(struct coroutine *coroutine)
{
	LEAVE_STACK(&coroutine->own_fake, coroutine->caller_stack, coroutine->caller_bytes);
	swapcontext(&coroutine->own, &coroutine->caller);
	ENTER_STACK(coroutine->own_fake, &coroutine->caller_stack, &coroutine->caller_bytes);
}
