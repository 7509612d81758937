# SPDX-License-Identifier: GPL-2.0-only
"""Runs spinning processes in cgroups and prints, as JSON, how much CPU each cgroup and each process got, in seconds.

shares.py SECONDS GROUP...: a GROUP is PATH:WEIGHT:NICE,NICE,... with one process per NICE; parents in PATH are made with WEIGHT too
when they are named as a GROUP without processes.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
SETTLE_S = 1.0


def used_s(path):
    """CPU time of a cgroup."""
    return int(next(line.split()[1] for line in (ROOT / path / "cpu.stat").read_text().splitlines() if line.startswith("usage_usec"))) / 1e6


def ran_s(pid):
    """CPU time of a process."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def start(path, nice):
    """One spinning process in a cgroup."""
    def enter():
        (ROOT / path / "cgroup.procs").write_text("0")
        os.nice(nice)

    # A process of its own, not a child of `hogs`: its nice value and its CPU time are its own.
    return subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=enter)


os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(50))
Path("/proc/sys/kernel/sched_autogroup_enabled").write_text("0")
seconds, programs, paths = float(sys.argv[1]), [], []
for word in sys.argv[2:]:
    path, weight, nices = word.split(":")
    (ROOT / path).mkdir(parents=True, exist_ok=True)
    if path.count("/"):
        (ROOT / path).parent.joinpath("cgroup.subtree_control").write_text("+cpu")
    (ROOT / path / "cpu.weight").write_text(weight)
    paths.append(path)
    programs += [start(path, int(nice)) for nice in nices.split(",") if nice]
time.sleep(SETTLE_S)
before = {path: used_s(path) for path in paths}, [ran_s(program.pid) for program in programs]
time.sleep(seconds)
groups = {path: used_s(path) - before[0][path] for path in paths}
processes = [ran_s(program.pid) - was for program, was in zip(programs, before[1])]
for program in programs:
    program.kill()
    program.wait()
print(json.dumps({"groups": groups, "processes": processes}))
