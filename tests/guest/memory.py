# SPDX-License-Identifier: GPL-2.0-only
"""memory.py SECONDS [EVERY]: has khugepaged look at its memory all the time, and takes and gives back a page of that every 10 ms. Prints the longest that
this took. Of its memory one page in EVERY is there: 64 is enough for khugepaged to copy it together, and 1 is the most work for it."""

import json
import mmap
import select
import sys
import time
from pathlib import Path

KHUGEPAGED = Path("/sys/kernel/mm/transparent_hugepage/khugepaged")
AREA_BYTES = 32 << 20
TOUCHED_BYTES = int(sys.argv[2] if len(sys.argv) > 2 else 64) * mmap.PAGESIZE
AGAIN_S = 2.0
PAUSE_S = 0.01


def give_work(area: mmap.mmap) -> None:
    """All of the area's huge pages are small ones again."""
    area.madvise(mmap.MADV_DONTNEED)
    area.madvise(mmap.MADV_NOHUGEPAGE)
    for at in range(0, AREA_BYTES, TOUCHED_BYTES):
        area[at] = 1
    area.madvise(mmap.MADV_HUGEPAGE)


def main() -> None:
    """Measures for as long as the first word says."""
    for name, value in {"scan_sleep_millisecs": 10, "pages_to_scan": 1 << 20}.items():
        (KHUGEPAGED / name).write_text(str(value))
    area = mmap.mmap(-1, AREA_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    longest, end, again = 0.0, time.monotonic() + float(sys.argv[1]), 0.0
    while time.monotonic() < end:
        if time.monotonic() > again:
            give_work(area)
            again = time.monotonic() + AGAIN_S
        began = time.monotonic()
        page = mmap.mmap(-1, mmap.PAGESIZE)
        page[0] = 1
        page.close()
        longest = max(longest, time.monotonic() - began)
        select.select([], [], [], PAUSE_S)
    print(json.dumps({"longest_s": longest}))


main()
