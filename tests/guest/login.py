# SPDX-License-Identifier: GPL-2.0-only
"""Runs /usr/local/bin/way, a shell that a specification calls a way to log in, beside a hundred that spin, or beside the command that is given, which
holds a reservation. Prints how long root's and a user's chain of fifty programs takes it, how long root's on the idle machine, in s, and how much CPU
one of root's that never sleeps has in SECONDS; and of the command's, how much it has in that time. With "again", a number of seconds and one of
processes before the command: only how much of the CPU that has while logins that never sleep come one after another, each for a second, and how much
have so many that spin and are promised nothing, all together; of each second."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

WAY = "/usr/local/bin/way"
CHAIN = "i=0; while [ $i -lt 50 ]; do i=$((i+1)); /bin/true; done"
OTHERS = "100"
SECONDS = 6
#: Until the command's reservation is in force, and what it used before it had it is no surge any more.
SETTLED_S = 6


def took(*before: str) -> float:
    """Until the chain is through."""
    began = time.monotonic()
    subprocess.run([*before, WAY, "-c", CHAIN], check=True)
    return time.monotonic() - began


def cpu_s(process: subprocess.Popen) -> float:
    """What it has had."""
    return int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[0]) / 1e9


def burnt(load: subprocess.Popen) -> dict[str, float]:
    """CPU of one that goes on and on, and of the load meanwhile."""
    before_s = cpu_s(load)
    program = subprocess.Popen([WAY, "-c", "while :; do :; done"])
    time.sleep(SECONDS)
    seen = {"burnt_s": cpu_s(program), "load_s": cpu_s(load) - before_s}
    program.kill()
    program.wait()
    return seen


def again(load: subprocess.Popen, seconds: int, count: int) -> dict[str, list[float]]:
    """The part of the CPU that the load has in each second, and that others have which are of class OTHER."""
    had, other = [], []
    others = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(count)]
    for _ in range(seconds):
        program = subprocess.Popen([WAY, "-c", "while :; do :; done"])
        # When the login is there: until then it is behind the others.
        began, before_s, of_others_s = time.monotonic(), cpu_s(load), sum(map(cpu_s, others))
        time.sleep(1)
        took_s = time.monotonic() - began
        had.append((cpu_s(load) - before_s) / took_s)
        other.append((sum(map(cpu_s, others)) - of_others_s) / took_s)
        program.kill()
        program.wait()
    for one in others:
        one.kill()
    return {"had": had, "other": other}


def start(command: list[str]) -> subprocess.Popen:
    """What there is beside it."""
    if command:
        load = subprocess.Popen(command)
        time.sleep(SETTLED_S)
    else:
        load = subprocess.Popen(["hogs", "spinning", OTHERS], stdout=subprocess.PIPE)
        load.stdout.readline()
    return load


def main() -> None:
    # Whoever measures is above them all, and what it starts is not.
    os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(10))
    if sys.argv[1:2] == ["again"]:
        load = start(sys.argv[4:])
        print(json.dumps(again(load, int(sys.argv[2]), int(sys.argv[3]))))
        load.kill()
        return
    # Once for what comes from the disk.
    took()
    seen = {"idle_s": took()}
    load = start(sys.argv[1:])
    seen |= {"root_s": took(), "user_s": took("runuser", "-u", "person", "--")} | burnt(load)
    load.kill()
    print(json.dumps(seen))


main()
