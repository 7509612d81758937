# SPDX-License-Identifier: GPL-2.0-only
"""For every Python test here: a test has a name and a sentence, and the sentence is shown while it runs."""

from __future__ import annotations

import pytest


def sentence(item: pytest.Item) -> str:
    """The first sentence of a test's docstring, on one line."""
    text = " ".join((getattr(item.obj, "__doc__", None) or "").split())
    return text.split(". ")[0]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuses tests that do not say what they show, as the kernel's sched_ext tests do."""
    silent = [item.nodeid for item in items if not sentence(item)]
    if silent:
        raise pytest.UsageError(f"no sentence on: {', '.join(silent)}; reason: a test says what it shows; fix: give it a docstring")


def pytest_runtest_logstart(nodeid: str, location: tuple) -> None:
    """Starts each test on a line of its own: some take a while, and the one that hangs should be seen."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Shows the sentence under the test's name."""
    reporter = item.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and item.config.get_verbosity() > 0:
        reporter.write_line(f"\n    {sentence(item)}")
