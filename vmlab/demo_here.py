# SPDX-License-Identifier: GPL-2.0-only
"""`./demo --here`: a film beside ten bursty processes per CPU on this machine's own desktop, without limelight and with it.

It changes nothing that it does not take back, however it ends: film and load end with it, and so does limelight (leash.py).
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

from vmlab import asroot, samples
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
#: Until limelight has seen who is there: three rating periods.
SETTLE_S = 3.0


@contextlib.contextmanager
def running(*command: str) -> Iterator[subprocess.Popen]:
    """A program for the length of the block, in a group of its own, which ends with it; and with this one, however that ends."""
    program = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", "--", *command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, process_group=0)
    try:
        yield program
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGTERM)
        program.wait(30)


def waits(pid: int) -> dict[str, float]:
    """Dispatch latency of a process and all its threads for SECONDS, by the kernel's trace points: p50, p99, max in ms."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "waits.json"
        command = (shutil.which("wakelat") or "wakelat", "--seconds", str(SECONDS), "--out", out, f"player={pid}")
        # Patient: it is at its end that it takes back what it has set in the kernel.
        with asroot.running(*command, patient=True) as recorder:
            status = recorder.wait()
        if status != 0:
            raise LabError("cannot measure", "wakelat failed; its message is above", "it needs root and tracefs at /sys/kernel/tracing")
        values = json.loads(out.read_text())["groups"]["player"]["dispatch_ns"]
    return samples.Series.of([value / 1e6 for value in values], "ms", "trace points").figures()


@contextlib.contextmanager
def in_charge(sched: str) -> Iterator[None]:
    """The scheduler for the length of the block; LabError where limelight does not get there, or was thrown out meanwhile."""
    if sched == "eevdf":
        yield
        return
    with asroot.running(shutil.which("limelight") or "limelight", "run") as limelight:
        end = time.monotonic() + LOAD_S
        while STATE.read_text().strip() != "enabled":
            if limelight.poll() is not None or time.monotonic() > end:
                raise LabError("limelight did not take charge", "its message is above", "limelight doctor tells what this machine lacks")
            time.sleep(0.1)
        yield
        if STATE.read_text().strip() != "enabled":
            raise LabError("limelight did not stay in charge", "the kernel took the CPUs back; its reason is above, and in dmesg", "./demo --vm")
    if STATE.read_text().strip() != "disabled":
        raise LabError("limelight has ended, and a sched_ext scheduler is still in charge", "another was loaded meanwhile", "systemctl stop scx")


def show() -> None:
    """Both halves of the demonstration, and the table."""
    if STATE.read_text().strip() != "disabled":
        raise LabError("cannot compare", "a sched_ext scheduler is in charge already", "stop it (systemctl stop limelight scx), and run ./demo --here again")
    # The password is asked for now, not in the middle of a measurement.
    asroot.require("show limelight here", "it loads a scheduler into the kernel, and trace points measure it")
    film = FILM if shutil.which("mpv") else ANIMATION
    load = ("hogs", "bursty", str(PER_CPU * (os.cpu_count() or 1)))
    figures = {}
    with running(*film) as player, running(*load):
        time.sleep(3)
        print(f"demo: {load[2]} bursty processes and a film run. Type, scroll, move a window: this is the kernel's scheduler, for {SECONDS} s ...", flush=True)
        figures["the kernel's scheduler"] = waits(player.pid)
        with in_charge("limelight"):
            time.sleep(SETTLE_S)
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
    # Ends what it has started as for Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.default_int_handler)
    sys.exit(main())
