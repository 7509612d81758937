# SPDX-License-Identifier: MIT
"""Builds the programs, plain and sanitized, and makes the films, once."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest
from player_programs import COOP, FILMS, FILMS_S, PLAYER, x_server


@pytest.fixture(scope="session", autouse=True)
def built() -> None:
    """player, streamer, the same with the sanitizers, what stands in for limelight, and the films."""
    missing = [name for name in ("ffmpeg", "Xvfb", "xwd") if not shutil.which(name)]
    if missing:
        assert "LIMELIGHT_NEED_PROGRAMS" not in os.environ, f"missing: {missing}; fix: scripts/setup"
        pytest.skip(f"not installed: {', '.join(missing)}; fix: scripts/setup")
    subprocess.run(["make", "-s", "-C", COOP, "all", "build/standin"], check=True)
    subprocess.run(["make", "-s", "-C", PLAYER, "all", "sanitized"], check=True)
    subprocess.run([PLAYER / "make-films", FILMS, str(FILMS_S)], check=True, timeout=600)


@pytest.fixture(scope="module")
def display() -> Iterator[str]:
    """An X server for the tests of one module."""
    with x_server() as (name, _):
        yield name
