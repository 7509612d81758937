# SPDX-License-Identifier: GPL-2.0-only
"""Has one program sleep for seconds beside COUNT that spin, and then want all the CPU: slept.py COUNT [--plain]. It is a cooperative one, or with --plain
an ordinary one; of several CPUs each has COUNT that stay there, and it stays on one, too. Prints how much CPU it had before, while it slept, in the
first tenth of a second after that, and in the first second, all in s."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

#: Until the load's processes are all there.
SETTLE_S = 1.0
#: The program first has half a second of CPU to use, of which a few seconds are left, and again when its timer is due.
WAKES_S, PERIOD_S, WORK_S = 9.0, 10, 0.5
#: How long before it wakes it is looked whether it sleeps; and how long after.
BEFORE_S, SOON_S, LATER_S = 5.0, 0.1, 1.0


def main():
    count, *how = sys.argv[1:]
    # Above those it watches.
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    cpus = os.cpu_count() or 1
    pinned = ["--pin"] if cpus > 1 else []
    load = subprocess.Popen(["chrt", "-o", "0", "hogs", "spinning", str(int(count) * cpus), *pinned], stdout=subprocess.DEVNULL)
    time.sleep(SETTLE_S)
    begin_ns = time.monotonic_ns()
    work = [f"--frame-us={int(WORK_S * 1e6)}", "--ahead=1", "--event-us=100", "--timer-us=100"]
    when = [f"--begin-ns={begin_ns}", f"--phase-us={int(WAKES_S * 1e6)}", f"--period-us={PERIOD_S * 1_000_000}", f"--seconds={int(WAKES_S + 2)}"]
    stays = ["taskset", "-c", str(cpus - 1)]
    program = subprocess.Popen([*stays, "chrt", "-o", "0", "adaptive", *how, *work, *when], stdout=subprocess.DEVNULL)

    def ran_s(at_s):
        """CPU time that it has had so long after it woke, or is to wake."""
        time.sleep(max(0.0, begin_ns / 1e9 + WAKES_S + at_s - time.monotonic()))
        return int(Path(f"/proc/{program.pid}/schedstat").read_text().split()[0]) / 1e9

    asleep, before, soon, later = map(ran_s, (-BEFORE_S, -0.001, SOON_S, LATER_S))
    program.kill()
    load.terminate()
    print(json.dumps({"used_before_s": before, "ran_asleep_s": before - asleep, "soon_s": soon - before, "later_s": later - before}))


main()
