# SPDX-License-Identifier: MIT
"""The test programs of libcoop: where they are, and how one case of one is run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

COOP = Path(__file__).resolve().parent.parent
BUILD = COOP / "build"

#: A case waits for a daemon of its own at most 20 s; one that hangs is ended.
PATIENCE_S = 120


def environment() -> dict[str, str]:
    """Without the daemon that may run on this machine: a test that wants one starts its own."""
    return {**os.environ, "COOP_SOCKET": ""}


def run_case(program: str, name: str) -> subprocess.CompletedProcess[str]:
    """One case of a test program; its status is 0 passed, 1 failed, 77 cannot run here."""
    return subprocess.run([BUILD / program, name], capture_output=True, text=True, timeout=PATIENCE_S, env=environment())


def cases_of(program: str) -> list[str]:
    """The names of a program's cases."""
    return subprocess.run([BUILD / program, "--list"], capture_output=True, text=True, check=True).stdout.split()
