# SPDX-License-Identifier: GPL-2.0-only
"""`./demo --here`: a film and an editor beside ten bursty processes on this machine's own desktop, under its kernel's scheduler and under limelight.

The programs and the instruments are those of `./demo --vm`, in real time and on a machine where other things happen too: what it shows is what
the person in front of it sees, and no figure to publish. It changes nothing that it does not take back, however it ends: its programs end with it,
and so does limelight (leash.py).

What it is bad at: it sees what X clients do. In a Wayland session those are the clients of Xwayland, and when the compositor shows their frames is
not seen.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from vmlab import asroot, demo, engine
from vmlab.errors import LabError
from vmlab.judge import Row

TOP = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "experiments" / "guest"))

import apps  # noqa: E402  (it lies where the guest finds it)
import desk  # noqa: E402

STATE = Path("/sys/kernel/sched_ext/state")
SECONDS = 10
KEYS = 40
#: Loading is a matter of a second on a real machine, of ten in an emulated one.
LOAD_S = 60
#: Until limelight has seen who is there: three rating periods.
SETTLE_S = 3.0
FILM, EDITOR = "limelight demo: film", "limelight demo: editor"
#: A film without a file: the player makes its own pictures, in the size and at the rate of the experiments' small film.
PICTURES = f"av://lavfi:testsrc2=size={apps.FILM_GEOMETRY['small']}:rate={apps.FILM_FPS}"
NOTES = f"""\
frames lost        of {apps.FILM_FPS} due a second for {SECONDS} s, those that the X server did not see drawn
dispatch latency   from wake-up to running, all threads of the player, by the kernel's trace points
key to screen      from a key in the X server to the first change of the editor's window, {KEYS} keys
In real time on this machine, once: what else it was doing is in the figures."""
CONSENT = f"""\
To measure how long a key takes to the screen, the demonstration types {KEYS} letters into an editor in an xterm, four times. For some 8 seconds each the
keyboard is that window's: whatever you click on meanwhile would get the letters, so leave keyboard and mouse alone then.
Type into the editor? [y/N] """


@contextlib.contextmanager
def running(*command: str) -> Iterator[subprocess.Popen]:
    """A program for the length of the block, in a group of its own, which ends with it; and with this one, however that ends."""
    # Through X, in a Wayland session too: only there is it seen.
    env = {name: value for name, value in os.environ.items() if name != "WAYLAND_DISPLAY"}
    words = ["setpriv", "--pdeathsig", "TERM", "--", *command]
    program = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, process_group=0, env=env)
    try:
        yield program
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGTERM)
        program.wait(30)


def server() -> int | None:
    """The process at the other end of the display's socket, in a Wayland session the compositor's or Xwayland; None where it is on another machine."""
    number = re.fullmatch(r"(?:unix)?:(\d+)(?:\.\d+)?", os.environ.get("DISPLAY", ""))
    if number:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as line:
            line.connect(f"/tmp/.X11-unix/X{number[1]}")
            return struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
    return None


def cpu_s(program: subprocess.Popen) -> float:
    """CPU time of a program and all of its group, in seconds."""
    total_s = 0.0
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.getpgid(int(process.name)) == program.pid:
                total_s += desk.process_cpu_s(int(process.name))
    return total_s


def outcome(metrics: dict[str, float], series: dict[str, dict]) -> engine.Outcome:
    """What was measured, as a guest tells it."""
    return engine.read_outcome(json.dumps({"metrics": metrics, "series": series}))


def row(sched: str, count: int, found: engine.Outcome) -> Row:
    """What was measured, as tables and plots have it."""
    series = {name: one.to_json() for name, one in found.series.items()}
    return Row(sched, "", os.cpu_count() or 1, os.uname().release, {"load": demo.LOAD, "count": count}, found.metrics, {}, series, 1)


def person(action: str, title: str, *options: str) -> dict:
    """What the stand-in for the person measured. A hand and an eye are no processes: the user's right to run before all others is root's to give."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "seen.json"
        as_user = ("setpriv", f"--reuid={os.getuid()}", f"--regid={os.getgid()}", "--init-groups", "--inh-caps=+sys_nice", "--ambient-caps=+sys_nice", "--")
        env = {name: os.environ[name] for name in ("HOME", "DISPLAY", "XAUTHORITY") if name in os.environ}
        command = (shutil.which("person") or "person", action, "--title", title, "--out", out, *options)
        with asroot.running(*as_user, *command, env=env) as program:
            if program.wait() != 0:
                raise LabError("cannot measure", "the stand-in for the person failed; its message is above", "run ./demo --here again")
        return json.loads(out.read_text())


def until_it_plays() -> None:
    """Waits for the film's first frames; LabError where none come."""
    end = time.monotonic() + LOAD_S
    while not person("watch", FILM, "--seconds", "1")["intervals_ns"]:
        if time.monotonic() > end:
            raise LabError("cannot show a film", f"mpv has shown nothing for {LOAD_S} s", "see whether it plays one on this display; ./demo --vm")


def film(player: subprocess.Popen, load: subprocess.Popen | None) -> engine.Outcome:
    """The film for SECONDS: frames due and seen, who had the CPUs, and the player's dispatch latency."""
    x = server()

    def used_s() -> dict[str, float]:
        return {"player": cpu_s(player), "x": desk.process_cpu_s(x) if x else 0.0, "load": cpu_s(load) if load else 0.0}

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "waits.json"
        # The user's own, whatever root's umask is.
        out.touch()
        # Patient: it is at its end that it takes back what it has set in the kernel.
        command = (shutil.which("wakelat") or "wakelat", "--seconds", str(SECONDS), "--out", out, f"player={player.pid}")
        with asroot.running(*command, patient=True) as recorder:
            before, began = used_s(), time.monotonic()
            seen = person("watch", FILM, "--seconds", str(SECONDS))
            after, elapsed_s = used_s(), time.monotonic() - began
            if recorder.wait() != 0:
                raise LabError("cannot measure", "wakelat failed; its message is above", "it needs root and tracefs at /sys/kernel/tracing")
        trace = json.loads(out.read_text())
    due = apps.FILM_FPS * SECONDS
    shown = len(seen["intervals_ns"])
    metrics = {f"{who}_cpu_pct": 100 * (after[who] - before[who]) / elapsed_s for who in before}
    metrics |= {"frames_due": due, "frames_shown": shown, "frame_loss_pct": 100 * max(0, due - shown) / due}
    series = {"dispatch": desk.trace_series(trace, "player", "dispatch"), "frame_interval": desk.series(seen["intervals_ns"], seen["source"])}
    return outcome(metrics, series)


def keys() -> engine.Outcome:
    """KEYS letters typed into the editor; the keyboard is given back to the window that had it."""
    had = subprocess.run(["xdotool", "getwindowfocus"], capture_output=True, text=True, check=False).stdout.strip()
    try:
        seen = person("type", EDITOR, "--count", str(KEYS))
    finally:
        if had:
            subprocess.run(["xdotool", "windowfocus", had], capture_output=True, check=False)
    return outcome({"lost": seen["lost"]}, {"key_to_screen": desk.series(seen["latency_ns"], seen["source"])})


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


def picture(sched: str, out: Path) -> str:
    """A picture of the desktop; or why there is none."""
    path = out / f"desktop-{sched}.png"
    if os.environ.get("WAYLAND_DISPLAY"):
        return "none: in a Wayland session the desktop is not the X server's"
    command = ["ffmpeg", "-loglevel", "error", "-y", "-f", "x11grab", "-i", os.environ["DISPLAY"], "-frames:v", "1", str(path)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return str(path) if done.returncode == 0 else f"none: ffmpeg said {done.stderr.strip()[-200:]}"


def half(sched: str, types: bool, player: subprocess.Popen, out: Path) -> Iterator[tuple[str, Row]]:
    """What is measured under one scheduler, by experiment."""
    for count in (0, demo.BESIDE):
        with contextlib.ExitStack() as stack:
            load = stack.enter_context(running("hogs", demo.LOAD, str(count))) if count else None
            time.sleep(SETTLE_S)
            say(f"{demo.SCHEDULERS[sched]}, {count} {demo.LOAD} processes: the film, for {SECONDS} s ...")
            yield demo.FILM[0], row(sched, count, film(player, load))
            if types:
                say("typing: hands off ...")
                yield demo.KEYS[0], row(sched, count, keys())
            if count:
                say(f"picture of the desktop: {picture(sched, out)}")


def show(types: bool, out: Path) -> None:
    """The demonstration, the table, the plot."""
    if STATE.read_text().strip() != "disabled":
        raise LabError("cannot compare", "a sched_ext scheduler is in charge already", "stop it (systemctl stop limelight scx), and run ./demo --here again")
    # The password is asked for now, not in the middle of a measurement.
    asroot.require("show limelight here", "it loads a scheduler into the kernel, and trace points measure it")
    rows: dict[str, list[Row]] = {}
    with contextlib.ExitStack() as stack:
        player = stack.enter_context(running(*apps.player(FILM, apps.FILM_GEOMETRY["small"] + "+560+40"), PICTURES))
        if types:
            program = next((name for name in ("vim", "vim.tiny") if shutil.which(name)), "vi")
            stack.enter_context(running(*apps.in_terminal(EDITOR, (program, *apps.EDITORS["vim"][1:]))))
        until_it_plays()
        for sched in demo.SCHEDULERS:
            with in_charge(sched):
                for name, row in half(sched, types, player, out):
                    rows.setdefault(name, []).append(row)
                if sched == "limelight":
                    subprocess.run(["limelight", "status"], check=False)
    print(f"\nA film (mpv) and an editor in xterm, {os.cpu_count()} CPUs, {demo.LOAD} processes (3 ms of CPU, 1 ms of sleep) in all:\n")
    print(f"{demo.table(rows)}\n\n{NOTES}\n")
    figure = demo.draw(rows[demo.FILM[0]])
    for axis in figure.axes:
        axis.set_xlabel("background processes in all")
    figure.savefig(out / "film.png", dpi=160, bbox_inches="tight")
    print(f"HuC's Figure 1 beside Figure 7:  {out / 'film.png'}\n\nlimelight has ended; the kernel's own scheduler runs the CPUs again.")


def say(text: str) -> None:
    """Progress."""
    print(f"demo: {text}", file=sys.stderr, flush=True)


def limits() -> Iterator[str]:
    """What this machine and its session will not show."""
    if os.environ.get("WAYLAND_DISPLAY"):
        yield "this is a Wayland session: film and editor draw through Xwayland. When the compositor shows it is not seen, nor any Wayland program"
    if server() is None:
        yield f"the X server of DISPLAY {os.environ['DISPLAY']} is no process here: what it uses of the CPUs is not seen"
    if (os.cpu_count() or 1) >= demo.BESIDE:
        yield f"{demo.BESIDE} processes that use 3/4 of a CPU each leave some of this machine's {os.cpu_count()} CPUs free: with few, there is more to see"


def may_type() -> bool:
    """Whether the person at the desk lends their keyboard."""
    if not sys.stdin.isatty():
        say("nobody can be asked for their keyboard: key to screen is not measured")
        return False
    print(CONSENT, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def main() -> int:
    """The demonstration on this machine; the status says whether it could be given."""
    parser = argparse.ArgumentParser(prog="demo")
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    os.environ["PATH"] = f"{TOP}/target/release:{TOP}/workloads/build:{os.environ['PATH']}"
    try:
        for limit in limits():
            say(limit)
        show(may_type(), out)
    except LabError as error:
        say(str(error))
        return error.status
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    # Ends what it has started as for Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.default_int_handler)
    sys.exit(main())
