# SPDX-License-Identifier: GPL-2.0-only
"""Makes huge pages of its memory, as khugepaged does with everybody's, again and again: a reader of RCU for as long as each takes. Prints when it has
made the first."""

import mmap

HUGE = 2 << 20
#: Of <linux/mman.h>; the mmap module does not name it.
MADV_COLLAPSE = 25


def main() -> None:
    """Does that."""
    is_first = True
    while True:
        with mmap.mmap(-1, 4 * HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
            memory.madvise(mmap.MADV_NOHUGEPAGE)
            for at in range(0, len(memory), mmap.PAGESIZE):
                memory[at] = 1
            memory.madvise(mmap.MADV_HUGEPAGE)
            memory.madvise(MADV_COLLAPSE)
        if is_first:
            print("made", flush=True)
            is_first = False


main()
