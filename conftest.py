# SPDX-License-Identifier: GPL-2.0-only
"""For every Python test here: a test has a name and a sentence, and the sentence is shown while it runs."""

from __future__ import annotations

import pytest


def sentence(item: pytest.Item) -> str:
    """The first sentence of a test's docstring, on one line."""
    text = " ".join((getattr(item.obj, "__doc__", None) or "").split())
    return text.split(". ")[0]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuses tests that do not say what they show, as the kernel's sched_ext tests do."""
    silent = [item.nodeid for item in items if not sentence(item)]
    if silent:
        raise pytest.UsageError(f"no sentence on: {', '.join(silent)}; reason: a test says what it shows; fix: give it a docstring")
    # Where tests run side by side this process shows nothing by itself.
    if config.get_verbosity() > 0 and config.pluginmanager.has_plugin("terminalreporter"):
        config.pluginmanager.register(Sentences(config, {item.nodeid: sentence(item) for item in items}))


class Sentences:
    """Shows each test's sentence before its name: some tests take a while."""

    def __init__(self, config: pytest.Config, by_test: dict[str, str]) -> None:
        self.reporter = config.pluginmanager.get_plugin("terminalreporter")
        self.by_test = by_test

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Comes outside the capture of the test's own output."""
        self.reporter.write_line(self.by_test.get(nodeid, ""))
