# SPDX-License-Identifier: GPL-2.0-only
"""Background loads made of programs that are not ours, as they are installed: whoever only knows `hogs` might have tuned to it.

Each is a shell's command line for `count` processes or so at a time. What they do varies from boot to boot more than `hogs` does.
"""

from __future__ import annotations


def _loops(count: int, body: str) -> str:
    return f"for i in $(seq {count}); do (while :; do {body}; done) & done; wait"


def _stress(count: int) -> str:
    kinds = ("fork", "pthread", "futex", "mmap", "switch")
    each = max(1, count // len(kinds))
    return "exec stress-ng --timeout 0 --temp-path /tmp " + " ".join(f"--{kind} {each}" for kind in kinds)


#: By the name of the load.
COMMANDS = {
    # Short lives: nobody stays long enough to be known by what it has used.
    "forks": lambda count: _loops(count, "/bin/true"),
    # A group of hackbench is 40 processes.
    "hackbench": lambda count: f"while :; do hackbench -g {max(1, count // 40)} -l 200; done",
    # Processes and threads made and ended, futexes, page tables changed, messages: what the kernel does with preemption off most of all.
    "stress": _stress,
    "archive": lambda count: _loops(count, "tar cf - /usr/lib/python3 /usr/share/vim | gzip"),
}


def command(kind: str, count: int) -> tuple[str, ...]:
    """How to start the load `kind`; empty where it is none of these. It says "ready" once it begins."""
    if kind not in COMMANDS:
        return ()
    return ("sh", "-c", f"echo ready; exec >/dev/null 2>&1; cd /tmp; {COMMANDS[kind](count)}")
