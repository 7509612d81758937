# SPDX-License-Identifier: GPL-2.0-only
"""paged.py MB: takes so much memory, stops itself until somebody has it go on, and then uses all the CPU it can get until SIGUSR1. Then it has the kernel page
out that memory, and sleeps: as a program does that is out of use for a while."""

import mmap
import os
import signal
import sys

#: Of <asm-generic/mman-common.h>; Python has no name for it.
MADV_PAGEOUT = 21
CHUNK = b"\x01" * (1 << 20)


def main() -> None:
    """Until it is ended."""
    told = []
    signal.signal(signal.SIGUSR1, lambda *_: told.append(True))
    area = mmap.mmap(-1, int(sys.argv[1]) << 20, flags=mmap.MAP_ANONYMOUS | mmap.MAP_PRIVATE)
    # By huge pages it were hundreds of times larger pieces, and whether these are to be had is another matter.
    area.madvise(mmap.MADV_NOHUGEPAGE)
    for _ in range(len(area) // len(CHUNK)):
        area.write(CHUNK)
    os.kill(os.getpid(), signal.SIGSTOP)
    while not told:
        pass
    area.madvise(MADV_PAGEOUT)
    while True:
        signal.pause()


main()
