# SPDX-License-Identifier: GPL-2.0-only
"""grace.py COUNT: moves itself from one cgroup to another so often. Prints how long each move took, in s, and how often it slept for that: for a grace
period of RCU, unless the one before has not been left yet (cgroup_attach_lock(), rcu_sync_enter())."""

import os
import resource
import sys
import time
from pathlib import Path

REST_S = 0.05
GROUPS = [Path("/sys/fs/cgroup/grace-a"), Path("/sys/fs/cgroup/grace-b")]


def sleeps() -> int:
    """How often this program has slept so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw


def main() -> None:
    """Does that."""
    for group in GROUPS:
        group.mkdir(exist_ok=True)
    for number in range(int(sys.argv[1])):
        began, slept = time.monotonic(), sleeps()
        (GROUPS[number % len(GROUPS)] / "cgroup.procs").write_text(str(os.getpid()))
        print(time.monotonic() - began, sleeps() - slept)
        time.sleep(REST_S)


main()
