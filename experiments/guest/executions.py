# SPDX-License-Identifier: GPL-2.0-only
"""What it costs to execute a program where many programs have a specification and many tasks are there."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path

import desk
import specs

#: What limelight brings along, if it was installed: masked, so that the number of specifications is the parameter's.
BROUGHT_ALONG = Path("/usr/share/limelight/spec.d")
#: What is executed: small, so that what is the same under all schedulers hides nothing.
PROGRAM = "true"
#: All of them together are as much as may be promised, should they run at once.
C_MS, T_MS = 1, 100
#: Within this time a thousand files are read, found and told to the scheduler.
IN_FORCE_S = 30
#: Of `swcost exec`.
EXECS_PER_SAMPLE = 10
#: So often each is executed first: what is allocated once is.
WARM_UP = 500


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


def _memory() -> dict[str, int]:
    """What the daemon takes now, in kB of its own and of its BPF maps, and its open files."""
    daemon = min(desk.limelight_processes())
    resident = next(line for line in desk.read(f"/proc/{daemon}/status").splitlines() if line.startswith("VmRSS:"))
    infos = [desk.read(file) for file in Path(f"/proc/{daemon}/fdinfo").iterdir()]
    # Only a map has both: of one without preallocation the kernel counts what is in it.
    maps = [info for info in infos if "map_type:" in info]
    bytes_of_maps = sum(int(line.split()[1]) for info in maps for line in info.splitlines() if line.startswith("memlock:"))
    return {"daemon_kb": int(resident.split()[1]), "maps_kb": bytes_of_maps // 1024, "files": len(infos)}


def _execute(program: str, count: int) -> None:
    """Executes it so often."""
    done = subprocess.run(["swcost", "exec", str(count // EXECS_PER_SAMPLE), program], stdout=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise desk.MeasureError("swcost failed: its message is above")


def leak(forks: int) -> tuple[dict, dict]:
    """What is more, in the daemon and its maps, after `forks` programs, of which every second has a specification."""
    if not specs.is_promised():
        return {}, {}
    programs = [str(shutil.which(PROGRAM)), _specify(1)]
    for program in programs:
        _execute(program, WARM_UP)
    time.sleep(desk.SETTLE_S)
    before = _memory()
    for program in programs:
        _execute(program, forks // 2)
    time.sleep(desk.SETTLE_S)
    after = _memory()
    done = subprocess.run(["limelight", "spec", "list", "--json"], stdout=subprocess.PIPE, text=True, check=True)
    found = {name: float(after[name] - before[name]) for name in before}
    return found | {"reservations": float(len(json.loads(done.stdout)["reservations"]))}, {}
