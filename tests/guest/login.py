# SPDX-License-Identifier: GPL-2.0-only
"""Runs /usr/local/bin/way, a shell that a specification calls a way to log in, beside a hundred that spin. Prints how long root's and a user's chain
of fifty programs takes it, how long root's on the idle machine, in s, and how much CPU one of root's that never sleeps has in SECONDS."""

import json
import os
import subprocess
import time
from pathlib import Path

WAY = "/usr/local/bin/way"
CHAIN = "i=0; while [ $i -lt 50 ]; do i=$((i+1)); /bin/true; done"
OTHERS = "100"
SECONDS = 6


def took(*before: str) -> float:
    """Until the chain is through."""
    began = time.monotonic()
    subprocess.run([*before, WAY, "-c", CHAIN], check=True)
    return time.monotonic() - began


def burnt() -> float:
    """CPU of one that goes on and on."""
    program = subprocess.Popen([WAY, "-c", "while :; do :; done"])
    time.sleep(SECONDS)
    used_ns = int(Path(f"/proc/{program.pid}/schedstat").read_text().split()[0])
    program.kill()
    program.wait()
    return used_ns / 1e9


def main() -> None:
    # Whoever measures is above them all, and what it starts is not.
    os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(10))
    seen = {"idle_s": took()}
    load = subprocess.Popen(["hogs", "spinning", OTHERS], stdout=subprocess.PIPE)
    load.stdout.readline()
    seen |= {"root_s": took(), "user_s": took("runuser", "-u", "person", "--"), "burnt_s": burnt()}
    load.kill()
    print(json.dumps(seen))


main()
