# SPDX-License-Identifier: GPL-2.0-only
"""mover.py NAME COUNT TIMES: changes, so often, where the COUNT processes of that name may run, one after the other: everywhere but on one CPU, each in
turn."""

import os
import subprocess
import sys
import time

name, count, times = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
pids = []
while len(pids) < count:
    pids = [int(pid) for pid in subprocess.run(["pgrep", "-x", name], capture_output=True, text=True).stdout.split()]
    time.sleep(0.5)
everywhere = os.sched_getaffinity(0)
for turn in range(times):
    for pid in pids:
        os.sched_setaffinity(pid, everywhere - {turn % len(everywhere)})
    time.sleep(0.005)
for pid in pids:
    os.sched_setaffinity(pid, everywhere)
