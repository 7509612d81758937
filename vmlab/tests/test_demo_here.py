# SPDX-License-Identifier: GPL-2.0-only
"""`./demo --here`: limelight ends with it, by the real sudo, with a program in limelight's place: this machine's kernel may have no sched_ext."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
#: `begins` is what it does when it is loaded.
LIMELIGHT = """#!/bin/sh
cd "${{0%/*}}"
trap 'echo disabled >state; exit' TERM
{begins}
while :; do sleep 0.05; done
"""
DEMO = """
import os, signal, sys
from pathlib import Path
from vmlab import demo_here
demo_here.STATE = Path("state").absolute()
demo_here.SETTLE_S = 0.1
os.environ["PATH"] = f"{{Path.cwd()}}:{{os.environ['PATH']}}"
with demo_here.in_charge("limelight"):
    assert demo_here.STATE.read_text().strip() == "enabled"
    {then}
print("the kernel's scheduler again")
"""


def demo(words, folder, then="pass", begins="echo enabled >state"):
    """Has the demonstration load the stand-in, and do `then` while it is in charge; what became of it."""
    (folder / "state").write_text("disabled\n")
    limelight = folder / "limelight"
    limelight.write_text(LIMELIGHT.format(begins=begins))
    limelight.chmod(0o755)
    env = {**os.environ, "PYTHONPATH": str(TOP), "PYTHONDONTWRITEBYTECODE": "1", "MPLCONFIGDIR": str(folder)}
    command = [*words, sys.executable, "-c", DEMO.format(then=then)]
    return subprocess.run(command, env=env, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60)


def is_back(folder, limit_s=10.0):
    """Whether the kernel's scheduler is in charge within that time."""
    end = time.monotonic() + limit_s
    while (folder / "state").read_text() != "disabled\n" and time.monotonic() < end:
        time.sleep(0.05)
    return (folder / "state").read_text() == "disabled\n"


@pytest.mark.parametrize(("then", "status"), [
    ("pass", 0), ("signal.raise_signal(signal.SIGINT)", -signal.SIGINT), ("raise ValueError", 1), ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
])
def test_limelight_ends_with_the_demonstration(ordinary, folder, then, status):
    """At its end, by Ctrl-C, by an exception and by kill -9: no ordinary user is left with a scheduler that only root can take off."""
    done = demo(ordinary, folder, then)
    assert done.returncode == status, done.stderr
    assert is_back(folder)


@pytest.mark.parametrize(("then", "begins", "said"), [
    ("pass", "exit 1", "did not take charge"), ("demo_here.STATE.write_text('disabled')", "echo enabled >state; chmod 666 state", "did not stay in charge"),
])
def test_a_limelight_that_is_not_in_charge_is_not_measured(ordinary, folder, then, begins, said):
    """One that does not load, or that the kernel has thrown out meanwhile, is told as such, not shown as a figure."""
    done = demo(ordinary, folder, then, begins)
    assert done.returncode == 1 and said in done.stderr and "reason" in done.stderr
