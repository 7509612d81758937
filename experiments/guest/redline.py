# SPDX-License-Identifier: GPL-2.0-only
"""A film beside fork bombs, compilations and a window that is dragged about: what the Redline paper shows in its Figures 1, 5 and 6 (OSDI 2008).

The film runs for some seconds first; then whatever is to disturb it begins; and the film goes on for some seconds after its end. All of that is
one measurement, of which every second is kept.
"""

from __future__ import annotations

import math
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import apps
import desk
import frames
import specs
from desk_tasks import Stage

#: The film alone, before and after, in seconds.
BEFORE_S = 3
AFTER_S = 3
#: A hand takes so long to find its window, above every ordinary task, and so for 40 ms in which no frame is drawn: before the film is watched.
FIND_S = 0.5
#: A bomb's parent forks so many children a second beside a film, at least, before the first of them runs.
FORKS_PER_S = 400
#: From there on a reaction is one that a person waits for.
SLOW_NS = 100_000_000
#: The specifications that a bomb may have: section 8.1, which does not say whether they may be revoked. Each child inherits its.
BOMBS: dict[str, list[specs.Spec]] = {
    "best-effort": [], "interactive": [specs.Spec("hogs", 10, 100, "I")], "revocable": [specs.Spec("hogs", 10, 100, "IR")],
}
#: A bomb's processes wait until all are there, so that it has its size whatever the scheduler; or each begins when it is forked.
LAUNCH = {"together": (), "at-once": ("--at-once",)}


@dataclass
class Seen:
    """What was seen of a film, and of an editor that was typed into meanwhile; times in ns, on the monotonic clock."""

    film: dict
    keys: dict
    began_ns: int  # when the disturbance began
    seconds: int
    disturbance: dict[str, float]  # its own figures

    def metrics(self) -> dict[str, float]:
        """Frames, and how long it took until keys were answered at once again."""
        found = frames.judge(self.film["intervals_ns"], self.seconds, apps.FILM_FPS)
        found |= self.disturbance
        if self.keys:
            found["control_back_s"] = control_back_s(self.keys["sent_ns"], self.keys["latency_ns"], self.began_ns)
            found["keys_lost"] = float(self.keys["lost"])
        return found

    def series(self) -> dict[str, dict]:
        """The distributions."""
        found = {"frame_interval": desk.series(self.film["intervals_ns"], self.film["source"])}
        if self.keys:
            found["key_to_screen"] = desk.series(
                [latency for sent, latency in zip(self.keys["sent_ns"], self.keys["latency_ns"]) if sent >= self.began_ns], self.keys["source"]
            )
        return found


def control_back_s(sent_ns: list[int], latency_ns: list[int], began_ns: int) -> float:
    """From the beginning of a disturbance until the last key that was answered slowly had its answer; 0 where none was slow."""
    answers = [sent + latency for sent, latency in zip(sent_ns, latency_ns) if sent + latency > began_ns and latency > SLOW_NS]
    return max(0.0, (max(answers) - began_ns) / 1e9) if answers else 0.0


def start_all(kind: str, count: int, seed: int, *options: str) -> desk.Group | None:
    """Starts `count` processes of `kind` in all, whatever the number of CPUs; None for none. Returns when the program says "ready"."""
    if not count:
        return None
    load = desk.Group("load", serves=False)
    load.start("hogs", kind, str(count + count % 2 if kind == "chatty" else count), "--seed", str(seed), *options, wait_for="ready")
    return load


def is_gone(group: desk.Group) -> bool:
    """Whether no process is left in the group; asking does not take longer the more there are."""
    return "populated 0" in desk.read(group.path / "cgroup.events")


def end_at_once(group: desk.Group) -> None:
    """Ends all of a load by the kernel: its own parent, one of thousands, would take its time. What a make was given to compile is removed."""
    (group.path / "cgroup.kill").write_text("1")
    group.stop()
    for tree in Path("/dev/shm").glob("hogs-make.*"):
        shutil.rmtree(tree, ignore_errors=True)


def play(seconds: int, is_typed: bool, disturb: Callable[[Stage], dict[str, float]], prepare: Callable[[], None] = lambda: None) -> Seen:
    """Lets a film play for `seconds`, somebody type meanwhile, and `disturb` it after BEFORE_S, which tells its own figures.
    `prepare` is done FIND_S before it is watched."""
    with Stage() as stage:
        film = apps.film("small")
        stage.take(film.group)
        groups = [film.group]
        if is_typed:
            editor = apps.editor("vim").group
            stage.take(editor)
            groups.append(editor)
        specs.favour(*groups)
        time.sleep(apps.WARM_UP_S)
        film.group.read_in()
        apps.rewind()
        prepare()
        hand = desk.person("type", "vim", "--count", "10000", "--seconds", str(seconds - 1), wait=False) if is_typed else None
        time.sleep(FIND_S)
        eye = desk.person("watch", "film", "--seconds", str(seconds), wait=False)
        time.sleep(BEFORE_S)
        began_ns = time.monotonic_ns()
        disturbance = disturb(stage)
        seen = desk.person_result(*eye)
        keys = desk.person_result(*hand) if hand else {}
        for group in [group for group in stage.groups if not group.serves]:
            end_at_once(group)
            stage.groups.remove(group)
    return Seen(seen, keys, began_ns, seconds, disturbance)


def specs_of_bomb(bomb: str) -> list[specs.Spec]:
    """What each process of a bomb of that kind is promised."""
    if bomb not in BOMBS:
        raise desk.MeasureError(f"bomb is '{bomb}': use {', '.join(BOMBS)}")
    return BOMBS[bomb]


def measure_bomb(bomb: str, launch: str, load: str, count: int, seconds: int, seed: int) -> tuple[dict, dict]:
    """A film and an editor beside a fork bomb of `count` processes in all, which ends itself after `seconds`."""
    if launch not in LAUNCH:
        raise desk.MeasureError(f"launch is '{launch}': use {' or '.join(LAUNCH)}")
    specs.write([*specs.DESKTOP, *specs_of_bomb(bomb)])

    def explode(stage: Stage) -> dict[str, float]:
        group = start_all(load, count, seed, *LAUNCH[launch], "--seconds", str(seconds))
        if group is None:
            return {}
        stage.take(group)
        began = time.monotonic()
        time.sleep(max(0.0, began + seconds - time.monotonic()))
        size = float(desk.read(group.path / "pids.current") or 0) - 1
        while not is_gone(group) and time.monotonic() < began + seconds + AFTER_S:
            time.sleep(0.02)
        return {"bomb_size": size, "gone_s": time.monotonic() - began - seconds}

    seen = play(BEFORE_S + math.ceil(count / FORKS_PER_S) + seconds + AFTER_S, True, explode)
    return seen.metrics(), seen.series()


def measure_load(load: str, count: int, seconds: int, seed: int) -> tuple[dict, dict]:
    """A film beside a load of `count` processes per CPU that begins while it plays: Figure 1."""
    specs.write(specs.DESKTOP)

    def begin(stage: Stage) -> dict[str, float]:
        stage.take(start_all(load, count * (os.cpu_count() or 1), seed))
        return {}

    seen = play(BEFORE_S + seconds, False, begin)
    return seen.metrics(), seen.series()


def measure_drag(motions: int, load: str, count: int, seconds: int, seed: int) -> tuple[dict, dict]:
    """A film while a window is dragged in circles over two others that have to draw what it uncovers: Figure 6."""
    promised = [*specs.DESKTOP, specs.Spec("xclient", 5, 30, "R")]
    specs.write(promised)
    hand: list = []
    with Stage() as desktop:
        # Beside the film, not over it: what is uncovered of that would be drawn again, and be counted.
        for number, place in enumerate(("460x260+700+60", "460x260+700+380")):
            desktop.client(f"under{number}", "--work-us", "1000", "--draw-px", "400", "--geometry", place)
        desktop.client("dragged", "--work-us", "100", "--geometry", "400x300+760+120")
        desktop.take(desk.start_load(load, count, seed))

        def take_hold() -> None:
            around_ms = int(1000 * (FIND_S + BEFORE_S))
            interval_us = 1_000_000 // motions
            words = ("--circle", "--seconds", str(seconds), "--interval-us", str(interval_us), "--around", str(around_ms))
            hand.extend(desk.person("drag", "dragged", *words, wait=False))

        seen = play(BEFORE_S + seconds + AFTER_S, False, lambda _stage: {}, take_hold)
        dragged = desk.person_result(*hand)
    motion = {"motions": float(len(dragged["latency_ns"])), "motions_lost": float(dragged["lost"])}
    return seen.metrics() | motion, seen.series() | {"motion_to_redraw": desk.series(dragged["latency_ns"], dragged["source"])}
