# SPDX-License-Identifier: GPL-2.0-only
"""Does something to the scheduler (a shell command) and prints how long after it the kernel's own is back, as JSON."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

STATE = Path("/sys/kernel/sched_ext/state")
blow, limit_s = sys.argv[1], float(sys.argv[2])
# Above everything that waits: what is measured is the kernel's way back, not this script's.
os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(50))
before = STATE.read_text().strip()
began = time.monotonic()
subprocess.run(["bash", "-c", blow], check=True)
while STATE.read_text().strip() != "disabled" and time.monotonic() - began < limit_s:
    time.sleep(0.001)
print(json.dumps({"before": before, "after": STATE.read_text().strip(), "back_s": time.monotonic() - began}))
