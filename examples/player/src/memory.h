/* SPDX-License-Identifier: MIT */
#ifndef PLAYER_MEMORY_H
#define PLAYER_MEMORY_H

/* Before the first event: so that neither the disk nor the kernel's memory management makes one late. Nothing of it can fail. */
void memory_prepare(void);

#endif /* PLAYER_MEMORY_H */
