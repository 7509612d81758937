# SPDX-License-Identifier: GPL-2.0-only
"""Runs cooperative programs beside a load: adaptive.py KIND COUNT PROGRAM... where each PROGRAM is one `adaptive`'s options in one word,
separated by commas; before them who runs it, in which cgroup, on which CPU and how nice, where that matters: user:person,cgroup:NAME,cpu:2,nice:5; and
how nice it becomes later, so many seconds after all begin to count: renice:5@2; and a copy of `adaptive`: program:PATH. Prints what each of them saw."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

#: Until the load's processes are all there.
SETTLE_S = 1.0
#: And the programs, and they have their pages.
BEGIN_NS = 4_000_000_000
#: How often it is looked where each of them is, on several CPUs.
LOOK_S = 0.1
#: What /proc/PID/stat has after the name that makes it hard to split: the CPU is the 39th field, and the name is the second.
CPU_AFTER_NAME = 36


def figures(text: str) -> dict:
    """What one program printed, its samples as percentiles in ms."""
    seen = json.loads(text)
    late = sorted(seen["late_ns"]) or [0]
    seen = {name: value for name, value in seen.items() if not isinstance(value, list)}
    seen |= {name: late[min(len(late) - 1, int(len(late) * part))] / 1e6 for name, part in (("p50", 0.5), ("p99", 0.99), ("worst", 1.0))}
    return seen


def renice(program: subprocess.Popen, how: str, begin_ns: int) -> None:
    """Has a program become as nice as `how` says, when it says so."""
    nice, _, at_s = how.partition("@")
    wait_s = (begin_ns - time.monotonic_ns()) / 1e9 + float(at_s)
    threading.Timer(wait_s, lambda: os.setpriority(os.PRIO_PROCESS, program.pid, int(nice))).start()


def start(begin_ns: int, words: list[str]) -> subprocess.Popen:
    """One program, as what its words begin with say."""
    given = {name: value for name, _, value in (word.partition(":") for word in words if not word.startswith("--"))}
    cgroup = Path("/sys/fs/cgroup", given.get("cgroup", ""))

    def enter() -> None:
        if "cgroup" in given:
            (cgroup / "cgroup.procs").write_text("0")

    if "cgroup" in given:
        cgroup.mkdir(exist_ok=True)
    options = [word for word in words if word.startswith("--")]
    before = ["taskset", "-c", given["cpu"]] if "cpu" in given else []
    before += ["nice", "-n", given["nice"]] if "nice" in given else []
    before += ["runuser", "-u", given["user"], "--"] if "user" in given else []
    command = [*before, given.get("program", "adaptive"), f"--begin-ns={begin_ns}", *options]
    program = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=enter)
    if "renice" in given:
        renice(program, given["renice"], begin_ns)
    return program


def cpu_of(program: subprocess.Popen) -> int:
    """Where its thread runs or waits, or was last."""
    return int(Path(f"/proc/{program.pid}/stat").read_text().rpartition(") ")[2].split()[CPU_AFTER_NAME])


def watch(begin_ns: int, running: list[subprocess.Popen], seen: list[set[int]]) -> None:
    """Notes on which CPUs each of them is, from when they count until one ends."""
    time.sleep(max(0.0, (begin_ns - time.monotonic_ns()) / 1e9))
    while all(program.poll() is None for program in running):
        for program, cpus in zip(running, seen):
            cpus.add(cpu_of(program))
        time.sleep(LOOK_S)


def main() -> None:
    kind, count, *programs = sys.argv[1:]
    load = subprocess.Popen(["hogs", kind, count], stdout=subprocess.DEVNULL) if int(count) else None
    time.sleep(SETTLE_S)
    begin = time.monotonic_ns() + BEGIN_NS
    running = [start(begin, program.split(",")) for program in programs]
    cpus: list[set[int]] = [set() for _ in running]
    if (os.cpu_count() or 1) > 1:
        threading.Thread(target=watch, args=(begin, running, cpus), daemon=True).start()
    seen = [figures(program.communicate()[0]) | {"cpus": len(on)} for program, on in zip(running, cpus)]
    if load:
        load.kill()
    print(json.dumps(seen))


main()
