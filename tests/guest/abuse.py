# SPDX-License-Identifier: GPL-2.0-only
"""Does to reserved processes whatever can be done to a process, from many sides at once, for SECONDS: abuse.py SECONDS. Prints how often each."""

import ctypes
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

BIN = Path("/usr/local/bin")
LINES = Path("/etc/limelight/spec.d/abuse.tab")
CGROUP = Path("/sys/fs/cgroup/abused")
PTRACE_ATTACH, PTRACE_DETACH = 16, 17
BOMB = "b() { [ $1 -gt 0 ] || return 0; b $(($1-1)) & b $(($1-1)) & (exec true) & wait; }; while :; do b 4; done"
EXECUTES = "exec /usr/local/bin/abused-shell $0 $0"
THREADS = """
import os, threading, time
while True:
    threads = [threading.Thread(target=time.sleep, args=(0.05,)) for _ in range(200)]
    [one.start() for one in threads]
    if not os.fork(): os._exit(0)
    [one.join() for one in threads]
    os.wait()
"""


def write(runtime, flags):
    """Other lines, and have them read."""
    names = ("abused-shell", "abused-python", "abused-adaptive", "abused-shifting")
    LINES.write_text("".join(f"{BIN}/{name}:Iact:{runtime}:50:{flags}:-:-\n" for name in names))
    subprocess.run(["limelight", "spec", "reload"], check=True, stdout=subprocess.DEVNULL)


def trace(libc, pid):
    """Attach to a process and let it go."""
    if libc.ptrace(PTRACE_ATTACH, pid, None, None) == 0:
        os.waitpid(pid, 0x40000000)
        libc.ptrace(PTRACE_DETACH, pid, None, None)


def real_time(pid):
    """Above all others for a moment: for longer would starve them, on kernels without a server for sched_ext tasks. Its children are not."""
    os.sched_setscheduler(pid, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    time.sleep(0.002)
    os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0))


def begin():
    """The processes, each the first of a session."""
    for name, source in (("shell", "/bin/sh"), ("python", sys.executable), ("adaptive", BIN / "adaptive"), ("shifting", BIN / "shifting")):
        shutil.copy(Path(source).resolve(), BIN / f"abused-{name}")
    script = Path("/run/executes")
    script.write_text(EXECUTES)
    commands = [["shell", "-c", BOMB], ["shell", script, script], ["python", "-c", THREADS], ["adaptive", "--seconds=100"],
                ["shifting", "0", "20000", "100"], ["shifting", "2000", "20000", "100"]]
    return [subprocess.Popen([BIN / f"abused-{command[0]}", *command[1:]], start_new_session=True, stdout=subprocess.DEVNULL) for command in commands]


def main():
    LINES.parent.mkdir(parents=True, exist_ok=True)
    CGROUP.mkdir(exist_ok=True)
    write(2, "IR")
    programs = begin()
    libc, chance, counts = ctypes.CDLL(None), random.Random(1), {}
    cpus = sorted(os.sched_getaffinity(0))
    # Or it would get no turns beside them.
    os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(50))
    deeds = {
        "lines": lambda pid: write(chance.choice((1, 2, 3)), chance.choice(("IR", "R", "I"))),
        "asks": lambda pid: subprocess.run(["limelight", "spec", "request", str(pid), "1", "20"], check=False, capture_output=True),
        "real-time": real_time,
        "moves": lambda pid: os.sched_setaffinity(pid, {chance.choice(cpus)}),
        "frees": lambda pid: os.sched_setaffinity(pid, cpus),
        "stops": lambda pid: os.kill(pid, signal.SIGSTOP),
        "goes on": lambda pid: os.kill(pid, signal.SIGCONT),
        "traces": lambda pid: trace(libc, pid),
        "cgroup": lambda pid: (chance.choice((CGROUP, CGROUP.parent)) / "cgroup.procs").write_text(str(pid)),
        "nice": lambda pid: os.setpriority(os.PRIO_PROCESS, pid, chance.randrange(10)),
    }
    end = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < end:
        name = chance.choice(list(deeds))
        try:
            deeds[name](chance.choice(programs).pid)
            counts[name] = counts.get(name, 0) + 1
        except OSError:
            pass
        for program in programs:
            os.kill(program.pid, signal.SIGCONT) if name != "stops" else None
        time.sleep(0.005)
    for program in programs:
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()
    print(json.dumps(counts))


main()
