# SPDX-License-Identifier: GPL-2.0-only
"""Two programs that want one lock of the kernel, a file's (i_rwsem).

lock.py hold FILE         holds it nearly all the time: rewrites 16 MB of FILE at a time. Prints how long the first few take, in s, then goes on.
lock.py want FILE OUT     for each line typed writes one byte into FILE, and adds to OUT how long that took, in s.
"""

import os
import sys
import time

HELD_BYTES = 16 << 20
FIRST = 5


def write(file: int, data: bytes) -> float:
    """Writes at the beginning of the file; returns how long that took."""
    began = time.monotonic()
    os.pwrite(file, data, 0)
    return time.monotonic() - began


def main() -> None:
    """Does what the first word says."""
    action, path = sys.argv[1:3]
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    if action == "hold":
        data = bytes(HELD_BYTES)
        write(file, data)
        print(max(write(file, data) for _ in range(FIRST)), flush=True)
        while True:
            write(file, data)
    with open(sys.argv[3], "w") as out:
        for _ in sys.stdin:
            print(write(file, b"x"), file=out, flush=True)


main()
