# SPDX-License-Identifier: GPL-2.0-only
"""What it costs to execute a program where many programs have a specification and many tasks are there."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import desk
import specs

#: What limelight brings along, if it was installed: masked, so that the number of specifications is the parameter's.
BROUGHT_ALONG = Path("/usr/share/limelight/spec.d")
#: What is executed: it ends at once, so that what is the same under all schedulers, and differs from one boot to the next, hides nothing.
PROGRAM = "nothing"
#: All of them together are as much as may be promised, should they run at once.
C_MS, T_MS = 1, 100
#: Within this time a thousand files are read, found and told to the scheduler.
IN_FORCE_S = 30


def _in_force() -> int:
    """How many specifications the daemon says there are."""
    done = subprocess.run(["limelight", "spec", "list", "--json"], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)["specifications"]


def _specify(count: int) -> str:
    """Has so many specifications in force, and no others; returns a program that has one of them, from their middle."""
    for file in BROUGHT_ALONG.glob("*"):
        mask = specs.FILE.parent / file.name
        if not mask.is_symlink():
            specs.FILE.parent.mkdir(parents=True, exist_ok=True)
            mask.symlink_to("/dev/null")
    programs = [specs.copy_of(PROGRAM, f"program-{number}") for number in range(count)]
    specs.write(specs.Spec(program, C_MS, T_MS, "R") for program in programs)
    desk.wait_until(lambda: _in_force() == count, f"{count} specifications are in force", IN_FORCE_S)
    return programs[count // 2] if programs else specs.copy_of(PROGRAM, "plain")


def measure(program: str, count: int, tasks: int, samples: int) -> tuple[dict, dict]:
    """A fork, an execution and an end with `count` specifications in force and `tasks` processes asleep: us, the median of the samples."""
    if program not in ("plain", "specified"):
        raise desk.MeasureError(f"program is '{program}': use plain or specified")
    # A copy beside the others: a file of another file system takes another time.
    command = specs.copy_of(PROGRAM, "plain")
    if specs.is_promised():
        specified = _specify(count)
        command = specified if program == "specified" else command
    crowd = desk.Group("crowd")
    if tasks:
        crowd.start("swcost", "crowd", str(tasks), wait_for="ready")
    time.sleep(desk.SETTLE_S)
    done = subprocess.run(["swcost", "exec", str(samples), command], stdout=subprocess.PIPE, text=True, check=False)
    (crowd.path / "cgroup.kill").write_text("1")
    crowd.stop()
    if done.returncode != 0:
        raise desk.MeasureError("swcost failed: its message is above")
    seen = json.loads(done.stdout)
    ordered = sorted(seen["cost_ns"])
    return {"exec_us": ordered[len(ordered) // 2] / 1000}, {"exec": desk.series(seen["cost_ns"], seen["source"], "us")}
