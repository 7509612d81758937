# SPDX-License-Identifier: GPL-2.0-only
"""hopper.py SECONDS: on each CPU three processes that spin and may run there only, and one that goes from CPU to CPU after every millisecond that it has
run. Prints, as JSON, what that one got of a CPU, in thousandths."""

import json
import os
import subprocess
import sys
import time

seconds = int(sys.argv[1])
cpus = sorted(os.sched_getaffinity(0))
load = subprocess.Popen(["hogs", "spinning", str(3 * len(cpus)), "--pin"], stdout=subprocess.PIPE, text=True)
assert load.stdout.readline().startswith("ready")
begin, hops = time.monotonic(), 0
began_ns = next_ns = time.thread_time_ns()
while time.monotonic() - begin < seconds:
    if time.thread_time_ns() >= next_ns:
        hops += 1
        os.sched_setaffinity(0, {cpus[hops % len(cpus)]})
        next_ns = time.thread_time_ns() + 1_000_000
got_ns = time.thread_time_ns() - began_ns
load.terminate()
print(json.dumps({"got_pm": round(got_ns / (time.monotonic() - begin) / 1e6), "hops": hops}))
