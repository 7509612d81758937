# SPDX-License-Identifier: GPL-2.0-only
"""What a good run never leaves in the guest's kernel log."""

from __future__ import annotations

import re

FAULT = re.compile(
    r"\bBUG:|\bkernel BUG at|Kernel panic|\bWARNING:|\bOops\b|Call Trace:|\bKASAN\b|"
    r"rcu:.*\bstall|self-detected stall|soft lockup|hard LOCKUP|blocked for more than|"
    r"sched_ext:.*\berror\b|sched_ext:.*\bdisabled \((?:runtime error|scx_bpf_error|runnable task stall)|general protection fault|Unable to handle kernel",
)
"""Lines that fail a run. `disabled (unregistered ...)` and `disabled (disabled by sysrq-S)` are orderly ends of a sched_ext scheduler."""

HARMLESS = re.compile(r"WARNING: (?:Spectre|Unprivileged|You are running an unsafe)")
"""Advice the kernel words as a warning while it boots."""


def faults_in(log: str) -> list[str]:
    """The lines of a kernel log that must not be there, in their order."""
    return [line.strip() for line in log.splitlines() if FAULT.search(line) and not HARMLESS.search(line)]
