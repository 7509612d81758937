# SPDX-License-Identifier: GPL-2.0-only
"""Has two processes spin that only the first CPU can run, and one of nice 19 on the other, whose virtual time passes 68 times as fast; then
come a third on the first CPU, which spins, too, and a fourth, which sleeps for 40 to 60 ms and works for one. Prints, as JSON, over SECONDS:
what share of the first CPU each of the three that spin got, the third last, the longest wait of any of them, and how late the fourth was, at worst and mostly.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

seconds = int(sys.argv[1])
#: By then the two are behind by three minutes of the other's virtual time.
FALL_BEHIND_S = 3
SPIN = "while True: pass"
SLEEP = f"""
import json, random, time
# Pauses of one length, a multiple of a slice's, would find the same point of a slice each time.
pauses = random.Random(1)
late, end = [], time.monotonic() + {seconds}
while time.monotonic() < end:
    pause = pauses.uniform(0.04, 0.06)
    due = time.monotonic() + pause
    time.sleep(pause)
    late.append(time.monotonic() - due)
    work = time.thread_time() + 0.001
    while time.thread_time() < work: pass
print(json.dumps(late))
"""


def start(code, cpu, nice=0, **options):
    """A process on one CPU only."""
    def enter():
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        os.sched_setaffinity(0, {cpu})
        os.nice(nice)

    return subprocess.Popen([sys.executable, "-c", code], preexec_fn=enter, text=True, **options)


def ran_s(program):
    """CPU time of a process."""
    return int(Path(f"/proc/{program.pid}/schedstat").read_text().split()[0]) / 1e9


# Above those it watches.
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
programs = [start(SPIN, 0), start(SPIN, 0), start(SPIN, 1, 19)]
time.sleep(FALL_BEHIND_S)
third = start(SPIN, 0)
programs.append(third)
spinning = [programs[0], programs[1], third]
fourth = start(SLEEP, 0, stdout=subprocess.PIPE)
began, before = time.monotonic(), [ran_s(program) for program in spinning]
out = "/tmp/pinned.json"
watch = ["wakelat", "--seconds", str(seconds), "--out", out, f"spin={','.join(str(program.pid) for program in spinning)}"]
subprocess.run(watch, check=True, stdout=subprocess.DEVNULL)
elapsed = time.monotonic() - began
shares = [(ran_s(program) - was) / elapsed for program, was in zip(spinning, before)]
late = sorted(json.loads(fourth.communicate()[0]))
for program in programs:
    program.kill()
waits = json.loads(Path(out).read_text())["groups"]["spin"]["requeue_ns"]
print(json.dumps({"shares": shares, "longest_s": max(waits) / 1e9, "late_max_s": late[-1], "late_p50_s": late[len(late) // 2]}))
