# SPDX-License-Identifier: GPL-2.0-only
"""Runs cooperative programs beside a load: adaptive.py KIND COUNT PROGRAM... where each PROGRAM is one `adaptive`'s options in one word,
separated by commas; before them who runs it, in which cgroup, on which CPU and how nice, where that matters: user:person,cgroup:NAME,cpu:2,nice:5.
Prints what each of them saw."""

import json
import subprocess
import sys
import time
from pathlib import Path

#: Until the load's processes are all there.
SETTLE_S = 1.0
#: And the programs, and they have their pages.
BEGIN_NS = 4_000_000_000


def figures(text: str) -> dict:
    """What one program printed, its samples as percentiles in ms."""
    seen = json.loads(text)
    late = sorted(seen["late_ns"]) or [0]
    seen = {name: value for name, value in seen.items() if not isinstance(value, list)}
    seen |= {name: late[min(len(late) - 1, int(len(late) * part))] / 1e6 for name, part in (("p50", 0.5), ("p99", 0.99), ("worst", 1.0))}
    return seen


def start(begin: str, words: list[str]) -> subprocess.Popen:
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
    return subprocess.Popen([*before, "adaptive", begin, *options], stdout=subprocess.PIPE, text=True, preexec_fn=enter)


def main() -> None:
    kind, count, *programs = sys.argv[1:]
    load = subprocess.Popen(["hogs", kind, count], stdout=subprocess.DEVNULL) if int(count) else None
    time.sleep(SETTLE_S)
    begin = f"--begin-ns={time.monotonic_ns() + BEGIN_NS}"
    running = [start(begin, program.split(",")) for program in programs]
    seen = [figures(program.communicate()[0]) for program in running]
    if load:
        load.kill()
    print(json.dumps(seen))


main()
