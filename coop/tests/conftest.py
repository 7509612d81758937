# SPDX-License-Identifier: MIT
"""Builds libcoop and its test programs once."""

from __future__ import annotations

import subprocess

import pytest
from coop_programs import COOP


@pytest.fixture(scope="session", autouse=True)
def built() -> None:
    """The libraries, the examples and the test programs."""
    subprocess.run(["make", "-s", "-C", COOP, "check-programs"], check=True)
