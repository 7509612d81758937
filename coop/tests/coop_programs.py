# SPDX-License-Identifier: MIT
"""The test programs of libcoop: where they are, which cases they have, and how one case is run."""

from __future__ import annotations

import ast
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

COOP = Path(__file__).resolve().parent.parent
BUILD = COOP / "build"

#: programs/NAME_cases.c.
PROGRAMS = sorted(path.name.removesuffix("_cases.c") for path in (COOP / "tests/programs").glob("*_cases.c"))

#: A case waits for a daemon of its own at most 20 s; one that hangs is ended.
PATIENCE_S = 120


def environment(**extra: str | Path) -> dict[str, str]:
    """Without the daemon that may run on this machine: a test that wants one starts its own."""
    return {**os.environ, "COOP_SOCKET": "", **{name: str(value) for name, value in extra.items()}}


class Said(NamedTuple):
    """What one thread said when it gave up the CPU (programs/standin.c)."""

    pid: int
    tid: int
    name: str
    state: str
    #: In ns of CLOCK_MONOTONIC; None: it has none.
    release_ns: int | None
    seen_ns: int


class Standin:
    """Stands in for limelight beside real programs."""

    def __init__(self) -> None:
        self.process = subprocess.Popen([BUILD / "standin"], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout
        self.socket = self.process.stdout.readline().split()[1]

    def stop(self) -> list[Said]:
        """Ends it; everything that was said."""
        self.process.terminate()
        lines = [line.split() for line in self.process.communicate()[0].splitlines()]
        return [
            Said(int(pid), int(tid), name, state, None if release == "never" else int(release), int(seen))
            for pid, tid, name, state, _, release, seen in lines
        ]


@contextmanager
def standin() -> Iterator[Standin]:
    """One that is gone afterwards, and its socket with it."""
    one = Standin()
    try:
        yield one
    finally:
        one.process.kill()
        one.process.wait()
        Path(one.socket).unlink(missing_ok=True)


def run_case(program: str, name: str, **extra: str | Path) -> subprocess.CompletedProcess[str]:
    """One case of a test program; its status is 0 passed, 1 failed, 77 cannot run here."""
    return subprocess.run([BUILD / program, name], capture_output=True, text=True, timeout=PATIENCE_S, env=environment(**extra))


def cases_of(program: str) -> dict[str, str]:
    """The names of a program's cases and what they say of themselves, from its source: tests are collected before it is built."""
    source = (COOP / f"tests/programs/{program}_cases.c").read_text()
    found = re.findall(r'^CASE\((\w+),\s*((?:"(?:[^"\\]|\\.)*"\s*)+)\)', source, re.MULTILINE)
    return {name: ast.literal_eval(f"({text})") for name, text in found}
