# SPDX-License-Identifier: GPL-2.0-only
"""Runs spinning processes in cgroups and prints, as JSON, how much CPU each cgroup and each process got, in seconds.

shares.py SECONDS [--stir|--renice|--spread] GROUP...: a GROUP is PATH:WEIGHT:NICE[@CPU],... with one process per NICE, on that CPU only;
parents in PATH are made with WEIGHT too when they are named as a GROUP without processes. What is done before it is measured: --stir changes
the processes of the first GROUP in every way, --renice makes them nicer and back while they run, --spread lets everything run everywhere.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
SETTLE_S = 1.0
#: One task more than there are would be seen: ten times is enough. The pause lets some of the changed run.
STIRS = 10
STIR_S = 0.01


def used_s(path):
    """CPU time of a cgroup."""
    return int(next(line.split()[1] for line in (ROOT / path / "cpu.stat").read_text().splitlines() if line.startswith("usage_usec"))) / 1e6


def ran_s(pid):
    """CPU time of a process."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def start(path, nice, cpu=None):
    """One spinning process in a cgroup."""
    def enter():
        (ROOT / path / "cgroup.procs").write_text("0")
        os.nice(nice)
        if cpu is not None:
            os.sched_setaffinity(0, {cpu})

    # A process of its own, not a child of `hogs`: its nice value and its CPU time are its own.
    return subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=enter)


def stir(programs, home, elsewhere):
    """Change what runs and what waits in every way that takes it out of its queue, and back; then some end as real-time processes."""
    for _ in range(STIRS):
        for program in programs:
            niceness = os.getpriority(os.PRIO_PROCESS, program.pid)
            os.setpriority(os.PRIO_PROCESS, program.pid, niceness + 5)
            os.sched_setscheduler(program.pid, os.SCHED_FIFO, os.sched_param(1))
            os.sched_setscheduler(program.pid, os.SCHED_OTHER, os.sched_param(0))
            os.sched_setaffinity(program.pid, {0})
            (ROOT / elsewhere / "cgroup.procs").write_text(str(program.pid))
            time.sleep(STIR_S)
            os.setpriority(os.PRIO_PROCESS, program.pid, niceness)
            os.sched_setaffinity(program.pid, range(os.cpu_count()))
            (ROOT / home / "cgroup.procs").write_text(str(program.pid))
    for _ in range(STIRS):
        short = start(home, 0)
        time.sleep(STIR_S)
        os.sched_setscheduler(short.pid, os.SCHED_FIFO, os.sched_param(1))
        short.kill()
        short.wait()


def renice(programs):
    """Make each nicer and back, time and again: of those that run while it happens the last is taken off and put back by the kernel."""
    for _ in range(STIRS):
        for program in programs:
            os.setpriority(os.PRIO_PROCESS, program.pid, 5)
            os.setpriority(os.PRIO_PROCESS, program.pid, 0)
            time.sleep(STIR_S)


os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(50))
Path("/proc/sys/kernel/sched_autogroup_enabled").write_text("0")
# khugepaged is of nice 19: whose memory it is at waits for it in a page fault, as under any scheduler of weights, and that is not what is measured.
Path("/sys/kernel/mm/transparent_hugepage/enabled").write_text("never")
words = [word for word in sys.argv[2:] if not word.startswith("--")]
seconds, programs, paths = float(sys.argv[1]), [], []
for word in words:
    path, weight, nices = word.split(":")
    (ROOT / path).mkdir(parents=True, exist_ok=True)
    if path.count("/"):
        (ROOT / path).parent.joinpath("cgroup.subtree_control").write_text("+cpu")
    (ROOT / path / "cpu.weight").write_text(weight)
    paths.append(path)
    for one in filter(None, nices.split(",")):
        nice, _, cpu = one.partition("@")
        programs.append(start(path, int(nice), int(cpu) if cpu else None))
first = programs[: words[0].count(",") + 1]
if "--stir" in sys.argv:
    stir(first, paths[0], paths[1])
if "--renice" in sys.argv:
    renice(first)
for program in programs if "--spread" in sys.argv else ():
    os.sched_setaffinity(program.pid, range(os.cpu_count()))
time.sleep(SETTLE_S)
before = {path: used_s(path) for path in paths}, [ran_s(program.pid) for program in programs]
time.sleep(seconds)
groups = {path: used_s(path) - before[0][path] for path in paths}
processes = [ran_s(program.pid) - was for program, was in zip(programs, before[1])]
for program in programs:
    program.kill()
    program.wait()
print(json.dumps({"groups": groups, "processes": processes}))
