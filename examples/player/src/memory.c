// SPDX-License-Identifier: MIT
/*
 * What a program with timers does that its own memory does not make it late. A page fault is a wait for something that is neither a timer nor a
 * descriptor: for the disk, or for a lock that the kernel's own workers hold for as long as they do not run. No scheduler can cut that short. For
 * this one it is sleep elsewhere (section 3.2 of the paper), after which a timer is not kept.
 *
 * What it is bad at: where the machine is out of memory the kernel may take the code away again. Who may lock some MB of memory has mlock2() for it.
 */
#include <link.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "memory.h"

/* Films' frames are smaller, and glibc takes no more for its threshold. */
#define KEPT_BYTES (32 << 20)

/* Of some hundred libraries that libavcodec brings, those that a film is played by. The program itself has no name here. */
static bool is_used(const char *path)
{
	static const char *const used[] = { "libavcodec.", "libavutil.", "libswscale.", "libxcb", "libc." };
	const char *name = strrchr(path, '/');

	name = name ? name + 1 : path;
	for (size_t i = 0; i < sizeof(used) / sizeof(*used); i++)
		if (!strncmp(name, used[i], strlen(used[i])))
			return true;
	return !*name;
}

/* A kernel before 5.14 does not know how: there it is as without. */
static int read_in(struct dl_phdr_info *object, size_t size, void *data)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	(void)size;
	(void)data;
	if (!is_used(object->dlpi_name))
		return 0;
	for (int i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &object->dlpi_phdr[i];
		const uintptr_t first = (object->dlpi_addr + part->p_vaddr) & ~(page - 1);

		if (part->p_type == PT_LOAD)
			(void)madvise((void *)first, object->dlpi_addr + part->p_vaddr + part->p_filesz - first, MADV_POPULATE_READ);
	}
	return 0;
}

void memory_without_huge_pages(void)
{
	(void)prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
}

void memory_prepare(void)
{
	/*
	 * Frames come and go all the time. What is given back to the kernel has to be had from there again, page by page, and for each the kernel
	 * takes the lock of the process's memory.
	 */
	(void)mallopt(M_MMAP_THRESHOLD, KEPT_BYTES);
	(void)mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
	memory_without_huge_pages();
	/* Code needed once in some seconds is on the disk until then: for a page of it all players of a machine were late, by up to 78 ms. */
	(void)dl_iterate_phdr(read_in, NULL);
}
