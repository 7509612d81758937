# SPDX-License-Identifier: GPL-2.0-only
"""Machines for the tests of the whole: every test gets a fresh one, in virtual time, so that bounds in seconds hold on any host.

A test module names its machines in MACHINES, a list of vmlab.machine.Options; each of its tests runs in each of them. A test that needs
others has its own list as the attribute `machines` (the decorator `on`). Those of ELSEWHERE, or of `elsewhere`, come with --everywhere only: a
machine of its own costs minutes to boot, one with four CPUs and the long-term kernel eight, and most tests say the same there. Tests marked
`everywhere`, and values of a parameter that are `rare`, come with it too: they take minutes, or guard a corner of what others prove as a whole.
What takes an hour and more is marked `long`, with the reason, and runs with --long only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.guests import Guest
from vmlab import machine
from vmlab.errors import LabError


def _name(options: machine.Options) -> str:
    parts = [options.kernel, options.processors]
    parts += ["desktop" if options.display == "xvfb" else options.display] if options.desktop else []
    parts += [options.sched] if options.sched not in ("none", "limelight") else []
    parts += [options.init] if options.init != "lab" else []
    return "-".join(parts)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Tests that cannot fail are worth nothing: this makes those of limelight's doing fail."""
    parser.addoption("--idle-daemon", action="store_true", help="start no limelight: to see that the tests can fail")
    parser.addoption("--everywhere", action="store_true", help="run every test, each in all of its machines, also what takes minutes")
    parser.addoption("--long", action="store_true", help="run the tests that take an hour and more, too")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs each test in each of its machines."""
    if "guest" in metafunc.fixturenames:
        marked = metafunc.function
        own = hasattr(marked, "machines")
        machines = list(marked.machines if own else metafunc.module.MACHINES)
        elsewhere = marked.elsewhere if own else getattr(metafunc.module, "ELSEWHERE", [])
        machines += [pytest.param(options, marks=pytest.mark.everywhere) for options in elsewhere]
        metafunc.parametrize("guest", machines, ids=_name, indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skips what needs --everywhere or --long, without it."""
    for item in items:
        long = item.get_closest_marker("long")
        if long and not config.getoption("--long"):
            item.add_marker(pytest.mark.skip(reason=f"{long.args[0]}: scripts/python -m pytest tests --long"))
        if item.get_closest_marker("everywhere") and not config.getoption("--everywhere"):
            item.add_marker(pytest.mark.skip(reason="takes minutes, or guards a corner: ./test --everywhere system"))


@pytest.fixture
def guest(request: pytest.FixtureRequest) -> Iterator[Guest]:
    """A fresh machine. At the end its kernel log must be clean."""
    try:
        idle = request.config.getoption("--idle-daemon")
        options = replace(request.param, sched="none") if idle and request.param.sched == "limelight" else request.param
        with machine.boot(options) as booted:
            yield Guest(booted, idle_daemon=idle)
    except LabError as error:
        # The whole text: what, why, and the fix.
        pytest.fail(f"the laboratory: {error}", pytrace=False)
