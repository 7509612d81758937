# SPDX-License-Identifier: GPL-2.0-only
"""Runs a command for somebody who may not signal it: leash.py [--patient] COMMAND...

What sudo runs is root's, so who asked for it may not signal it, and sudo itself only where its version keeps the user's number (Debian's does); and
whoever is killed with -9 ends nothing any more. So this runs between sudo and the command, with a pipe for its standard input of which only the one
who asked holds the other end. The kernel closes that however they end; then the command and what it has started get SIGTERM, and PATIENCE_S later
SIGKILL.

A --patient one is never ended: a command that takes back what it changed only at its end, which comes by itself.

What it is bad at: where root kills this program itself with -9 the command gets SIGTERM, but what that has started does not.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys

#: More than limelight takes to give the CPUs back, less than a person waits.
PATIENCE_S = 20.0
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def wait(child: subprocess.Popen, *ends: int) -> bool:
    """Until the child has ended, or one of these descriptors has something; whether it has ended."""
    with os.fdopen(os.pidfd_open(child.pid)) as process:
        return process in select.select([process, *ends], [], [])[0]


def end(child: subprocess.Popen) -> None:
    """Ends the command's process group: by asking, then without."""
    for number, patience_s in ((signal.SIGTERM, PATIENCE_S), (signal.SIGKILL, None)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(patience_s)


def main(words: list[str]) -> int:
    """The command's status; 128 and the signal's number where one ended it."""
    is_patient = words[0] == "--patient"
    asked, ask = os.pipe()
    os.set_blocking(ask, False)
    signal.set_wakeup_fd(ask)
    for number in ENDING:
        signal.signal(number, lambda *_: None)
    # A session of its own: a Ctrl-C in the terminal is for those who wait there.
    command = ["setpriv", *([] if is_patient else ["--pdeathsig", "TERM"]), "--", *words[is_patient:]]
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    if is_patient:
        child.wait()
    elif not wait(child, sys.stdin.fileno(), asked):
        end(child)
    child.wait()
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
