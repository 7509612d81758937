# SPDX-License-Identifier: GPL-2.0-only
"""`./demo --here`: a film beside ten bursty processes per CPU on this machine's own desktop, without limelight and with it.

It changes nothing that it does not take back: the film, the load and the scheduler end with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from vmlab import samples
from vmlab.errors import LabError

TOP = Path(__file__).resolve().parent.parent
STATE = Path("/sys/kernel/sched_ext/state")
PER_CPU = 10
SECONDS = 15
#: Loading is a matter of a second on a real machine, of ten in an emulated one.
LOAD_S = 60
#: A film without a file: the player makes its own pictures, 60 a second.
FILM = ("mpv", "--no-config", "--no-audio", "--no-terminal", "--geometry=640x360+40+40", "--title=limelight demo", "av://lavfi:testsrc2=size=640x360:rate=60")
ANIMATION = ("xclient", "--title", "limelight demo", "--period-us", "16667", "--period-work-us", "3000")
AS_ROOT = () if os.geteuid() == 0 else ("sudo",)


@contextlib.contextmanager
def running(*command: str) -> Iterator[subprocess.Popen]:
    """A program for the length of the block, in a group of its own, which ends with it."""
    program = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, process_group=0)
    try:
        yield program
    finally:
        # sudo passes SIGTERM on to what it runs.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGTERM)
        program.wait(30)


def waits(pid: int) -> dict[str, float]:
    """Dispatch latency of a process and all its threads for SECONDS, by the kernel's trace points: p50, p99, max in ms."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "waits.json"
        command = [*AS_ROOT, shutil.which("wakelat") or "wakelat", "--seconds", str(SECONDS), "--out", str(out), f"player={pid}"]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
        if done.returncode != 0:
            raise LabError("cannot measure", "wakelat failed; its message is above", "it needs root and tracefs at /sys/kernel/tracing")
        values = json.loads(out.read_text())["groups"]["player"]["dispatch_ns"]
    return samples.Series.of([value / 1e6 for value in values], "ms", "trace points").figures()


def wait_until_in_charge(limelight: subprocess.Popen) -> None:
    """Until limelight is loaded and has had a moment to see who is there."""
    end = time.monotonic() + LOAD_S
    while STATE.read_text().strip() != "enabled":
        if limelight.poll() is not None or time.monotonic() > end:
            raise LabError("limelight did not take charge", "its message is above", "limelight doctor tells what this machine lacks")
        time.sleep(0.1)
    time.sleep(3)


def show() -> None:
    """Both halves of the demonstration, and the table."""
    if STATE.read_text().strip() != "disabled":
        raise LabError("cannot compare", "a sched_ext scheduler is in charge already", "stop it (systemctl stop limelight scx), and run ./demo --here again")
    if AS_ROOT:
        # The password is asked for now, not in the middle of a measurement.
        subprocess.run(["sudo", "-v"], check=True)
    film = FILM if shutil.which("mpv") else ANIMATION
    load = ("hogs", "bursty", str(PER_CPU * (os.cpu_count() or 1)))
    figures = {}
    with running(*film) as player, running(*load):
        time.sleep(3)
        print(f"demo: {load[2]} bursty processes and a film run. Type, scroll, move a window: this is the kernel's scheduler, for {SECONDS} s ...", flush=True)
        figures["the kernel's scheduler"] = waits(player.pid)
        with running(*AS_ROOT, shutil.which("limelight") or "limelight", "run") as limelight:
            wait_until_in_charge(limelight)
            print(f"demo: the same under limelight, for {SECONDS} s ...", flush=True)
            figures["limelight"] = waits(player.pid)
            subprocess.run(["limelight", "status"], check=False)
    print(f"\ndispatch latency of {film[0]} beside {load[2]} bursty processes, ms:")
    for name, found in figures.items():
        print(f"  {name:24} p50 {found['p50']:8.3f}   p99 {found['p99']:8.3f}   max {found['max']:8.3f}")
    print("\nlimelight has ended; the kernel's own scheduler runs the CPUs again.")


def main() -> int:
    """The demonstration on this machine; the status says whether it could be given."""
    os.environ["PATH"] = f"{TOP}/target/release:{TOP}/workloads/build:{os.environ['PATH']}"
    try:
        show()
    except LabError as error:
        print(f"demo: {error}", file=sys.stderr)
        return error.status
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
