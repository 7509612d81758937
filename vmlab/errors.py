# SPDX-License-Identifier: GPL-2.0-only
"""The ways the laboratory itself can fail, each with what happened, why, and what to do."""

from __future__ import annotations

EX_USAGE = 64
"""Exit status: the command line is wrong."""
EX_UNAVAILABLE = 69
"""Exit status: the laboratory failed; nothing is said about the program under test."""
EX_KERNEL_FAULT = 70
"""Exit status: the guest's kernel complained during the run."""


class LabError(Exception):
    """The laboratory failed. Carries three sentences and the exit status."""

    status = EX_UNAVAILABLE

    def __init__(self, what: str, why: str, fix: str) -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.what}\n  reason: {self.why}\n  fix: {self.fix}"


class UsageError(LabError):
    """The caller asked for something that does not exist."""

    status = EX_USAGE


class KernelFault(LabError):
    """The guest's kernel log holds lines that no good run leaves there."""

    status = EX_KERNEL_FAULT

    def __init__(self, lines: list[str]) -> None:
        super().__init__(
            f"the guest's kernel complained {len(lines)} time(s)",
            "\n    ".join(["its log says:", *lines[:40]]),
            "the scheduler under test is the first suspect; ./lab shell with the same options shows the whole log (dmesg)",
        )
        self.lines = lines
