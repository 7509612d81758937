# SPDX-License-Identifier: GPL-2.0-only
"""Prints, as JSON, how much of a CPU each of some programs, its children included, had in SECONDS, in per cent. ran.py SECONDS NAME=PID..."""

import json
import os
import sys
import time
from pathlib import Path


def ran_ns(pid: int) -> int:
    """CPU time of a process and those it has started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) + sum(ran_ns(int(child)) for child in children)


# Above those it watches: it looks when it should.
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
seconds, programs = float(sys.argv[1]), {name: int(pid) for name, pid in (word.split("=") for word in sys.argv[2:])}
began, before = time.monotonic_ns(), {name: ran_ns(pid) for name, pid in programs.items()}
time.sleep(seconds)
took = time.monotonic_ns() - began
print(json.dumps({name: 100 * (ran_ns(pid) - before[name]) / took for name, pid in programs.items()}))
