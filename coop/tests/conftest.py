# SPDX-License-Identifier: MIT
"""Builds libcoop and its test programs once, and runs the case of a program that has the name of the test."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest
from coop_programs import COOP, run_case


@pytest.fixture(scope="session", autouse=True)
def built() -> None:
    """The libraries, the examples and the test programs."""
    subprocess.run(["make", "-s", "-C", COOP, "check-programs"], check=True)


@pytest.fixture
def case(request: pytest.FixtureRequest) -> Callable[[], None]:
    """Runs the case that is called like the test, of the program that its module names."""

    def run() -> None:
        done = run_case(f"test-{request.module.PROGRAM}", request.node.name.removeprefix("test_"))
        if done.returncode == 77:
            pytest.skip(done.stderr.strip())
        assert done.returncode == 0, done.stderr

    return run
