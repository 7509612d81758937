# SPDX-License-Identifier: GPL-2.0-only
"""Runs COUNT spinning processes for SECONDS and prints, as JSON, the longest wait of any of them for a CPU and how many never ran.

waits.py [--pin] COUNT SECONDS [COMMAND...]. With --pin each may use one CPU only. The command is started, as a real-time process, once
the spinning ones are there. Waits are between being put off the CPU and running again, by the kernel's trace points (wakelat); who did
not run at all in the time has no such wait, and is counted.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

words = sys.argv[1:]
pin = [words.pop(0)] if words[0] == "--pin" else []
count, seconds, command = int(words[0]), int(words[1]), words[2:]
# Above those it watches, or each of its own steps would wait for a turn among them: minutes of the guest's time.
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
load = subprocess.Popen(["chrt", "-o", "0", "hogs", "spinning", str(count), *pin], stdout=subprocess.PIPE, text=True)
assert load.stdout.readline().startswith("ready")
children = Path(f"/proc/{load.pid}/task/{load.pid}/children")


def spins(pid):
    """Whether a process wants a CPU."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "R"


# The last have been let go when the first have had turns for a while.
while not all(map(spins, pids := [int(pid) for pid in children.read_text().split()])):
    time.sleep(0.2)
program = subprocess.Popen(command, stdout=subprocess.DEVNULL) if command else None
time.sleep(3)


def turns():
    """How often each process has been given a CPU."""
    return [int(Path(f"/proc/{pid}/schedstat").read_text().split()[2]) for pid in pids]


before = turns()
out = "/tmp/waits.json"
watch = ["wakelat", "--seconds", str(seconds), "--out", out, f"hogs={','.join(map(str, pids))}"]
subprocess.run(watch, check=True, stdout=subprocess.DEVNULL)
never = sum(1 for was, now in zip(before, turns()) if now == was)
group = json.loads(Path(out).read_text())["groups"]["hogs"]
load.terminate()
load.wait()
if program:
    program.terminate()
print(json.dumps({"processes": len(pids), "longest_s": max(group["requeue_ns"]) / 1e9, "never_ran": never, "waits": len(group["requeue_ns"])}))
