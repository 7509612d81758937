# SPDX-License-Identifier: GPL-2.0-only
"""The programs a person uses in the experiments, each with what the person does to it.

The papers' applications and what stands for them: Emacs and a second editor (vim) typed into at 8 characters a second; a film at two
sizes (mpv) for Xine and MPlayer; `game`, which takes all the CPU it can get, for Quake; a parallel make; a stressor.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import desk

#: Where the engine puts what `assets` in experiment.toml names.
ASSETS = Path("/root/in/assets")
#: The rate of every film here, in frames per second.
FILM_FPS = 25
#: A player whose CPU was taken away for some frames has dropped them and goes on (virtual seconds).
CATCH_UP_S = 0.5
#: Window geometry per film: the small one is shown at its own size, the large one is zoomed, as in HuC §3.1.
FILM_GEOMETRY = {"small": "576x324", "large": "704x396"}
#: Seconds an application runs before it is measured, once it is there: three rating periods.
WARM_UP_S = 3.0
#: Where Emacs looks for its settings, which are one line.
EMACS_SETTINGS = Path("/tmp/emacs.d")
#: Vim inserts not by a key `i`: a disk that is slow today lets vim lose it, and of what is then typed as commands not all is to be seen. Without
#: -N (nocompatible) what the terminal answers to its questions begins with an escape that ends the inserting.
EDITORS = {
    "vim": ("vim", "-N", "-u", "NONE", "-n", "-c", "startinsert"),
    "emacs": ("emacs", "-nw", "--no-splash", "--no-site-file", "--no-site-lisp", f"--init-directory={EMACS_SETTINGS}"),
}


@dataclass
class Application:
    """A running application: its group, and what the person does meanwhile."""

    name: str
    group: desk.Group
    title: str = ""
    #: what `person` does while it is measured; empty: the person only looks on
    activity: str = ""
    people: list = field(default_factory=list)

    def attend(self, seconds: float) -> None:
        """Lets the person do their part for `seconds`; returns at once."""
        if not self.activity:
            return
        options = ("--count", seconds * 8) if self.activity == "type" else ("--seconds", seconds)
        self.people.append(desk.person(self.activity, self.title, options[0], str(max(1, int(options[1]))), wait=False))

    def leave(self) -> list[dict]:
        """Waits until the person is done; returns what they saw."""
        seen = [desk.person_result(program, out) for program, out in self.people]
        self.people.clear()
        return seen

    def stop(self) -> None:
        """Ends the application."""
        self.group.stop()


def _mpv_socket(title: str) -> Path:
    return Path(f"/tmp/mpv-{title}")


def rewind(title: str = "film") -> None:
    """Lets the film begin anew, and play: where it starts over by itself after a minute it stops for a moment, loaded or not."""
    with socket.socket(socket.AF_UNIX) as player:
        player.connect(str(_mpv_socket(title)))
        player.sendall(b'{"command": ["seek", 0, "absolute"]}\n')
    time.sleep(desk.SETTLE_S)


def player(title: str, geometry: str) -> tuple[str, ...]:
    """mpv, drawing through X, without sound, again and again; what it plays and how it is spoken to comes behind."""
    return (
        "mpv", "--no-config", "--vo=x11", "--no-audio", "--loop-file=inf", "--no-terminal", "--osc=no", "--no-osd-bar",
        "--load-scripts=no", "--cursor-autohide=no", "--stop-screensaver=no", f"--title={title}", f"--geometry={geometry}",
    )


def film(size: str = "small", title: str = "film", position: str = "+20+20") -> Application:
    """mpv with the film of that size, from memory, without sound, again and again."""
    if size not in FILM_GEOMETRY:
        raise desk.MeasureError(f"no film is called '{size}': use {' or '.join(FILM_GEOMETRY)}")
    source = ASSETS / f"film-{size}.avi"
    copy = Path("/dev/shm") / source.name
    if not copy.exists():
        copy.write_bytes(source.read_bytes())
    group = desk.Group(title)
    group.start(*player(title, FILM_GEOMETRY[size] + position), "--vd-lavc-threads=1", f"--input-ipc-server={_mpv_socket(title)}", str(copy))
    desk.wait_until(lambda: desk.person("watch", title, "--seconds", "1")["intervals_ns"], f"the first frame of {source.name}")
    return Application(title, group, title)


def in_terminal(title: str, command: Sequence[str]) -> tuple[str, ...]:
    """xterm with a program in it."""
    return ("xterm", "-T", title, "-geometry", "80x24+40+40", "-e", *command)


def editor(which: str) -> Application:
    """vim or emacs in a terminal, typed into."""
    if which == "emacs":
        # As at a second start: at the first one it compiles its own Lisp for minutes of the guest's time.
        EMACS_SETTINGS.mkdir(exist_ok=True)
        (EMACS_SETTINGS / "early-init.el").write_text("(setq native-comp-jit-compilation nil)\n")
    group = desk.Group(which)
    group.start(*in_terminal(which, EDITORS[which]))
    desk.wait_until(lambda: desk.processes(which), f"{which} in its terminal")
    desk.wait_until(group.at_rest, f"{which} at rest")
    return Application(which, group, which, "type")


def game() -> Application:
    """The adaptive OpenGL program, with the pointer moving over it. The frames are drawn by the CPU, in its own process."""
    group = desk.Group("game")
    group.start("game", wait_for="ready", env={"LP_NUM_THREADS": "0", "LIBGL_ALWAYS_SOFTWARE": "1"})
    return Application("game", group, "game", "wander")


def batch(kind: str, count: int, seed: int) -> Application:
    """A program nobody looks at."""
    group = desk.start_load(kind, count, seed)
    assert group is not None
    return Application(kind, group)


def start(name: str, seed: int = 1) -> Application:
    """Starts the application `name` and lets it warm up."""
    makers = {
        "vim": lambda: editor("vim"),
        "emacs": lambda: editor("emacs"),
        "film-small": lambda: film("small"),
        "film-large": lambda: film("large"),
        "game": game,
        "make": lambda: batch("make", 1, seed),
        "stressor": lambda: batch("spinning", 1, seed),
    }
    if name not in makers:
        raise desk.MeasureError(f"no application is called '{name}': use {', '.join(makers)}")
    application = makers[name]()
    time.sleep(WARM_UP_S)
    return application


def measure_one(name: str, load: str, count: int, seconds: int, seed: int) -> tuple[dict, dict]:
    """One application beside a background load: CPU share, dispatch latency, effective quanta, kinds of context switch."""
    x = desk.Group("x")
    x.adopt(desk.x_server())
    application = start(name, seed)
    application.attend(seconds + desk.SETTLE_S + 30 if load != "none" else seconds + 3)
    background = desk.start_load(load, count, seed)
    try:
        recorder = desk.Wakelat(seconds, {"app": application.group.pids(), "x": [desk.x_server()]})
        before = (application.group.cpu_s(), x.cpu_s())
        time.sleep(seconds)
        after = (application.group.cpu_s(), x.cpu_s())
        trace = recorder.result()
    finally:
        if background:
            background.stop()
        for program, _ in application.people:
            program.kill()
        application.stop()
        x.stop()
    switches = trace["groups"]["app"]["voluntary"] + trace["groups"]["app"]["forced"]
    metrics = {
        "app_cpu_pct": 100 * (after[0] - before[0]) / seconds,
        "x_cpu_pct": 100 * (after[1] - before[1]) / seconds,
        "voluntary_pct": 100 * trace["groups"]["app"]["voluntary"] / max(switches, 1),
        "switches": switches,
    }
    metrics["with_x_cpu_pct"] = metrics["app_cpu_pct"] + (metrics["x_cpu_pct"] if application.title else 0)
    names = {f"{what}": desk.trace_series(trace, "app", what) for what in ("dispatch", "quantum", "requeue")}
    names["x_dispatch"] = desk.trace_series(trace, "x", "dispatch")
    return metrics, names


def measure_film(size: str, load: str, count: int, seconds: int, seed: int) -> tuple[dict, dict]:
    """A film beside a background load: frames due and seen, CPU share of player, X server and load, dispatch latency.

    A frame counts as displayed when the X server reports a change of the film's window; due are FILM_FPS a second.
    """
    x = desk.Group("x")
    x.adopt(desk.x_server())
    player = film(size)
    time.sleep(WARM_UP_S)
    player.group.read_in()
    background = desk.start_load(load, count, seed)
    try:
        rewind()
        recorder = desk.Wakelat(seconds + 2, {"player": player.group.pids(), "x": [desk.x_server()]})
        # Its start takes the CPU for 0.2 s beside 1,000 processes, before everybody: three frames that no scheduler can keep.
        time.sleep(CATCH_UP_S)
        eye, out = desk.person("watch", "film", "--seconds", str(seconds), wait=False)
        groups = {"player": player.group, "x": x, **({"load": background} if background else {})}
        before = {name: group.cpu_s() for name, group in groups.items()}
        disk_before = player.group.disk_reads()
        began = time.monotonic()
        seen = desk.person_result(eye, out)
        elapsed = time.monotonic() - began
        shares = {name: 100 * (group.cpu_s() - before[name]) / elapsed for name, group in groups.items()}
        disk_reads = player.group.disk_reads() - disk_before
        trace = recorder.result()
    finally:
        if background:
            background.stop()
        player.stop()
        x.stop()
    due = FILM_FPS * seconds
    shown = len(seen["intervals_ns"])
    metrics = {
        "frames_due": due,
        "frames_shown": shown,
        "frame_loss_pct": 100 * max(0, due - shown) / due,
        "player_cpu_pct": shares["player"],
        "x_cpu_pct": shares["x"],
        "film_cpu_pct": shares["player"] + shares["x"],
        "load_cpu_pct": shares.get("load", 0.0),
        "player_disk_reads": disk_reads,
    }
    return metrics, {
        "dispatch": desk.trace_series(trace, "player", "dispatch"),
        "requeue": desk.trace_series(trace, "player", "requeue"),
        "x_dispatch": desk.trace_series(trace, "x", "dispatch"),
        "frame_interval": desk.series(seen["intervals_ns"], seen["source"]),
    }
