# SPDX-License-Identifier: GPL-2.0-only
"""memory.py SECONDS [EVERY] [shared]: has khugepaged look at its memory all the time, and takes and gives back a page of that every 10 ms. Prints the
longest that this took. Of its memory one page in EVERY is there: 64 is enough for khugepaged to copy it together, and 1 is the most work for it. Memory
that is shared is a file's, whose pages have locks of their own."""

import json
import mmap
import random
import select
import sys
import time
from pathlib import Path

HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage")
AREA_BYTES = 32 << 20
TOUCHED_BYTES = int(sys.argv[2] if len(sys.argv) > 2 else 64) * mmap.PAGESIZE
AGAIN_S = 2.0
PAUSE_S = 0.01
IS_SHARED = "shared" in sys.argv
PICKED = random.Random(1)


def give_work(area: mmap.mmap) -> None:
    """All of the area's huge pages are small ones again."""
    area.madvise(mmap.MADV_REMOVE if IS_SHARED else mmap.MADV_DONTNEED)
    area.madvise(mmap.MADV_NOHUGEPAGE)
    for at in range(0, AREA_BYTES, TOUCHED_BYTES):
        area[at] = 1
    area.madvise(mmap.MADV_HUGEPAGE)


def take_page(area: mmap.mmap) -> None:
    """Takes a page, and gives it back."""
    if IS_SHARED:
        at = PICKED.randrange(0, AREA_BYTES, TOUCHED_BYTES)
        area.madvise(mmap.MADV_DONTNEED, at, mmap.PAGESIZE)
        area[at] = 1
        return
    page = mmap.mmap(-1, mmap.PAGESIZE)
    page[0] = 1
    page.close()


def main() -> None:
    """Measures for as long as the first word says."""
    settings = {"shmem_enabled": "advise", "khugepaged/scan_sleep_millisecs": 10, "khugepaged/pages_to_scan": 1 << 20}
    for name, value in settings.items():
        (HUGE_PAGES / name).write_text(str(value))
    area = mmap.mmap(-1, AREA_BYTES, flags=mmap.MAP_ANONYMOUS | (mmap.MAP_SHARED if IS_SHARED else mmap.MAP_PRIVATE))
    longest, end, again = 0.0, time.monotonic() + float(sys.argv[1]), 0.0
    while time.monotonic() < end:
        if time.monotonic() > again:
            give_work(area)
            again = time.monotonic() + AGAIN_S
        began = time.monotonic()
        take_page(area)
        longest = max(longest, time.monotonic() - began)
        select.select([], [], [], PAUSE_S)
    print(json.dumps({"longest_s": longest}))


main()
