# SPDX-License-Identifier: GPL-2.0-only
"""Runs programs beside a load: periods.py LOAD [--at S COMMAND]... PROGRAM... where LOAD is KIND=COUNT,... or -, and each PROGRAM one command
line, whose output is one line of JSON. Each --at has COMMAND, a shell's, run S seconds after they began. Prints what each of them saw, and
`limelight spec list --json` about once a second, with the time since then and the CPU time of each program.
"""

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

#: Until the load's processes are all there.
SETTLE_S = 1.0


def held():
    """The reservations and the load of the CPUs now."""
    # Not as this one, in a real-time class: it would hold a CPU for as long as it takes to start, and so who is entitled to that.
    command = ["chrt", "-o", "0", "nice", "-n", "-20", "limelight", "spec", "list", "--json"]
    # What it has to say, where it fails, is for who reads the test.
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def ran_s(pid):
    """CPU time of a program; None when it has ended."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except OSError:
        return None


def begin(line):
    """Start one program at the place among others that any program has."""
    return subprocess.Popen(["chrt", "-o", "0", *shlex.split(line)], stdout=subprocess.PIPE, text=True)


def main():
    load, *words = sys.argv[1:]
    at = []
    while words[0] == "--at":
        at.append((float(words[1]), words[2]))
        words = words[3:]
    # Above those it watches: it tells how they are once a second.
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    kinds = [kind.split("=") for kind in load.split(",") if kind != "-"]
    loads = [subprocess.Popen(["chrt", "-o", "0", "hogs", kind, count], stdout=subprocess.DEVNULL) for kind, count in kinds]
    time.sleep(SETTLE_S if loads else 0)
    started = time.monotonic()
    programs, seconds = [begin(line) for line in words], []
    while any(program.poll() is None for program in programs):
        time.sleep(0.25)
        since = time.monotonic() - started
        while at and at[0][0] <= since:
            subprocess.run(at.pop(0)[1], shell=True, check=True, stdout=subprocess.DEVNULL)
        # The daemon may have been without CPU for longer.
        if not seconds or int(since) > int(seconds[-1]["at_s"]):
            seconds.append({"at_s": since, "ran_s": [ran_s(program.pid) for program in programs], **held()})
    for one in loads:
        one.terminate()
    print(json.dumps({"programs": [json.loads(program.stdout.read() or "{}") for program in programs], "seconds": seconds}))


main()
