# SPDX-License-Identifier: GPL-2.0-only
"""Tries to reach the page of a cooperative process (argument: its pid) in every way there is from outside of it. Prints, as JSON, for each way why it
was refused; nothing where it was not."""

import ctypes
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

PIDFD_GETFD, BPF = 438, 321
BPF_MAP_GET_FD_BY_ID, BPF_MAP_GET_NEXT_ID = 14, 12
LIBC = ctypes.CDLL(None, use_errno=True)


def syscall(*arguments: int | bytes | ctypes.Array) -> int:
    """What the kernel answers; an error as an exception."""
    answer = LIBC.syscall(*arguments)
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer


def address_of_page(process: Path) -> int:
    """Where the page is mapped; a made-up address where that may not be asked."""
    try:
        lines = (process / "maps").read_text().splitlines()
    except OSError:
        return 0x400000
    return next(int(line.partition("-")[0], 16) for line in lines if "bpf-map" in line)


def open_map() -> None:
    """Any map of the scheduler's, by its number."""
    attribute = ctypes.create_string_buffer(16)
    syscall(BPF, BPF_MAP_GET_NEXT_ID, attribute, 16)
    syscall(BPF, BPF_MAP_GET_FD_BY_ID, ctypes.create_string_buffer(attribute.raw[4:8], 16), 16)


def main() -> None:
    """Tries each."""
    pid = int(sys.argv[1])
    process = Path("/proc", str(pid))
    address = address_of_page(process)

    def read_memory() -> None:
        with (process / "mem").open("rb", buffering=0) as memory:
            memory.seek(address)
            memory.read(8)

    def read_by_copy() -> None:
        local = ctypes.create_string_buffer(8)
        ours, theirs = ((ctypes.c_uint64 * 2)(where, 8) for where in (ctypes.addressof(local), address))
        if LIBC.process_vm_readv(pid, ours, 1, theirs, 1, 0) < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    ways: dict[str, Callable[[], object]] = {
        "memory": read_memory,
        "mapping": lambda: os.listdir(process / "map_files"),
        "descriptor": lambda: os.listdir(process / "fd"),
        "copy of it": lambda: syscall(PIDFD_GETFD, os.pidfd_open(pid), 0, 0),
        "kernel's map": open_map,
        "reading": read_by_copy,
    }
    seen = {}
    for way, attempt in ways.items():
        try:
            attempt()
            seen[way] = ""
        except OSError as error:
            seen[way] = str(error)
    print(json.dumps(seen))


main()
