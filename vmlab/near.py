# SPDX-License-Identifier: GPL-2.0-only
"""Files that a guest reads, kept in this machine's page cache while it runs.

An idle guest's clock runs on while its disk is read, to the next timer and the next again: seconds for one read of a slow disk. And a machine that
saves memory may drop what was read in a moment ago (DAMON's schemes do; of an image of 1.4 GB 6 MB were left while a guest ran from it).
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

#: Of each file no more than this part of the memory that is free is locked: a guest wants some, too.
MOST_OF_FREE = 0.25
_FAILED = ctypes.c_void_p(-1).value


class Near:
    """A file in the page cache: locked there until `close`, where that is allowed (root, RLIMIT_MEMLOCK) and there is room; else only read in."""

    def __init__(self, path: Path) -> None:
        self._address = self._size = 0
        # What is wrong with a file that cannot be read QEMU will say.
        with suppress(OSError), path.open("rb") as file:
            parts = list(_data(file))
            _read_in(file, parts)
            if sum(end - start for start, end in parts) <= MOST_OF_FREE * _free():
                self._lock(file, parts)

    @property
    def is_locked(self) -> bool:
        """Whether it stays there."""
        return self._address != 0

    def _lock(self, file: IO[bytes], parts: list[tuple[int, int]]) -> None:
        size = os.fstat(file.fileno()).st_size
        address = _libc().mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
        if address in (None, _FAILED):
            return
        self._address, self._size = address, size
        if any(_libc().mlock(address + start, end - start) for start, end in parts):
            self.close()

    def close(self) -> None:
        """Lets it go."""
        if self._address:
            _libc().munmap(self._address, self._size)
        self._address = 0


def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    libc.mlock.argtypes = libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    return libc


def _data(file: IO[bytes]) -> Iterator[tuple[int, int]]:
    """Where the file has data, from and to: an image has holes of half its size."""
    end = 0
    # ENXIO after the last.
    with suppress(OSError):
        while True:
            start = os.lseek(file.fileno(), end, os.SEEK_DATA)
            end = os.lseek(file.fileno(), start, os.SEEK_HOLE)
            yield start - start % mmap.PAGESIZE, end


def _read_in(file: IO[bytes], parts: list[tuple[int, int]]) -> None:
    """What is there already costs next to nothing: 25 ms a gigabyte and a half."""
    with open(os.devnull, "wb") as nowhere:
        for start, end in parts:
            sent = 1
            while sent and start < end:
                sent = os.sendfile(nowhere.fileno(), file.fileno(), start, end - start)
                start += sent


def _free() -> int:
    """Bytes of memory that programs can have."""
    with open("/proc/meminfo", encoding="ascii") as lines:
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")), 0)
