/* SPDX-License-Identifier: MIT */
#ifndef PLAYER_MEMORY_H
#define PLAYER_MEMORY_H

/*
 * khugepaged holds the lock of a process's memory for ms, while it copies that into a huge page. And a library's pages it takes away from all who
 * have them mapped, likely for tens of ms on a busy machine: so it must not work for any program of these.
 */
void memory_without_huge_pages(void);

/* Before the first event: so that neither the disk nor the kernel's memory management makes one late. Nothing of it can fail. */
void memory_prepare(void);

#endif /* PLAYER_MEMORY_H */
