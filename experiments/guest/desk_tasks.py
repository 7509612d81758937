# SPDX-License-Identifier: GPL-2.0-only
"""What a person does at a loaded desk, and how long it takes: typing, dragging, starting programs, several things at once."""

from __future__ import annotations

import os
import pwd
import subprocess
import time
from pathlib import Path

import apps
import desk


class Stage:
    """Programs and loads that end together, whatever happens: use it as a context manager."""

    def __init__(self) -> None:
        self.groups: list[desk.Group] = []
        self.people: list = []

    def __enter__(self) -> Stage:
        return self

    def group(self, name: str) -> desk.Group:
        """A new group that ends with the stage."""
        self.groups.append(desk.Group(name))
        return self.groups[-1]

    def take(self, group: desk.Group | None) -> None:
        """Has `group` end with the stage too."""
        if group:
            self.groups.append(group)

    def client(self, title: str, *options: str) -> desk.Group:
        """An X client in a group of its own, its first frame drawn."""
        group = self.group(title)
        group.start("xclient", "--title", title, *options, wait_for="ready")
        return group

    def wander(self, title: str, seconds: float) -> None:
        """A person moves the pointer over the window and types into it meanwhile."""
        self.people.append(desk.person("wander", title, "--seconds", str(int(seconds)), wait=False)[0])

    def __exit__(self, *_: object) -> None:
        for program in self.people:
            program.kill()
            program.wait()
        for group in reversed(self.groups):
            group.stop()


def dispatch_latency(active: str, load: str, count: int, seconds: int, seed: int) -> tuple[dict, dict]:
    """Wake-up to running of the processes that serve the person.

    `active`: `typed` is one X client receiving motion and keys; `animated` one that draws by itself every 5 ms; `several` three of
    them at once: typed into, and two animations. The worst hundredth of these is a few collisions: ten in 3 s, and which ones is chance (p99
    1.3 to 2.3 ms with six seeds and no load; in 20 to 24 s 1.33 to 1.67). So `several` records four times as long.
    """
    # How long the load takes to start under the kernel's scheduler is not known beforehand: the person goes on until stopped.
    long_s = 3600.0
    x = desk.x_server()
    with Stage() as stage:
        groups = []
        if active in ("typed", "several"):
            groups.append(stage.client("typed", "--work-us", "1000", "--geometry", "300x200+20+20"))
        if active in ("animated", "several"):
            groups.append(stage.client("animated", "--period-us", "5000", "--period-work-us", "300", "--geometry", "300x200+340+20"))
        if active == "several":
            # No multiple of the other's period: each meets the other in every phase.
            groups.append(stage.client("second", "--period-us", "17300", "--period-work-us", "1000", "--geometry", "300x200+20+260"))
        if not groups:
            raise desk.MeasureError(f"nothing is called '{active}': use typed, animated or several")
        if active != "animated":
            stage.wander("typed", long_s)
        time.sleep(apps.WARM_UP_S)
        stage.take(desk.start_load(load, count, seed))
        pids = [pid for group in groups for pid in group.pids()]
        trace = desk.Wakelat(seconds * 4 if active == "several" else seconds, {"app": pids, "x": [x]}).result()
    return {}, {
        "dispatch": desk.trace_series(trace, "app", "dispatch"),
        "x_dispatch": desk.trace_series(trace, "x", "dispatch"),
        "requeue": desk.trace_series(trace, "app", "requeue"),
    }


def key_to_screen(editor: str, load: str, count: int, keys: int, seed: int) -> tuple[dict, dict]:
    """From a key being pressed to the first change of the editor's window, for `keys` keys."""
    with Stage() as stage:
        if editor == "xclient":
            stage.client("editor", "--work-us", "2000")
            title = "editor"
        else:
            stage.take(apps.editor(editor).group)
            title = editor
        # A person has been at it for a while: some keys before the load, and before those that count.
        desk.person("type", title, "--count", "8")
        stage.take(desk.start_load(load, count, seed))
        seen = desk.person("type", title, "--count", str(keys), "--seed", str(seed))
    return {"lost": seen["lost"]}, {"key_to_screen": desk.series(seen["latency_ns"], seen["source"])}


def window_drag(load: str, count: int, seconds: int, seed: int) -> tuple[dict, dict]:
    """From the pointer's motion to the window being where it belongs, while the window manager drags it."""
    with Stage() as stage:
        stage.client("dragged", "--work-us", "100", "--geometry", "300x200+200+200")
        time.sleep(apps.WARM_UP_S)
        stage.take(desk.start_load(load, count, seed))
        seen = desk.person("drag", "dragged", "--seconds", str(seconds))
    return {"lost": seen["lost"], "motions": len(seen["latency_ns"])}, {
        "motion_to_redraw": desk.series(seen["latency_ns"], seen["source"])
    }


#: The menu of openbox's that is opened by a click on the root window: one entry.
MENU = """<?xml version="1.0" encoding="UTF-8"?>
<openbox_menu xmlns="http://openbox.org/3.4/menu">
<menu id="root-menu" label="Programs"><item label="Start it"><action name="Execute"><command>{command}</command></action></item></menu>
</openbox_menu>
"""


def _offer_in_menu(command: str) -> None:
    """Has the window manager that runs offer `command` in its root menu."""
    folder = Path(pwd.getpwnam(desk.PERSON).pw_dir) / ".config" / "openbox"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "menu.xml").write_text(MENU.format(command=command))
    # It reads the menu again upon this message, and has then nothing to do.
    subprocess.run(["openbox", "--reconfigure"], check=True, env={**os.environ, "HOME": str(folder.parent.parent)})
    time.sleep(1)
    desk.desktop_at_rest()


def program_start(program: str, source: str, load: str, count: int, starts: int, seed: int) -> tuple[dict, dict]:
    """From Enter in a terminal, or a click in the window manager's menu, to the first frame of the program started, warm caches."""
    commands = {"xclient": "xclient --title started", "xterm": "xterm -T started -e sleep 100", "xcalc": "xcalc -title started"}
    if program not in commands:
        raise desk.MeasureError(f"no program is called '{program}': use {', '.join(commands)}")
    loop = f"while read line; do {commands[program]} & done"
    action = "menu" if source == "menu" else "start"
    with Stage() as stage:
        if source == "menu":
            _offer_in_menu(commands[program])
        else:
            stage.group("terminal").start("xterm", "-T", "terminal", "-geometry", "60x10+500+400", "-e", "sh", "-c", loop)
        desk.person(action, "terminal", "--count", "2")
        stage.take(desk.start_load(load, count, seed))
        seen = desk.person(action, "terminal", "--count", str(starts), "--seed", str(seed))
    return {"lost": seen["lost"]}, {"enter_to_frame": desk.series(seen["latency_ns"], seen["source"])}


def lower_share(load: str, count: int, seconds: int, seed: int) -> tuple[dict, dict]:
    """CPU share of everybody else while a program the person types into takes all it can get, one such program for every CPU."""
    with Stage() as stage:
        for index in range(os.cpu_count() or 1):
            title = f"greedy{index}"
            stage.client(title, "--spin", "--work-us", "500", "--geometry", f"300x200+{20 + 320 * index}+20")
            stage.wander(title, 3600.0)
        greedy = stage.groups[:]
        time.sleep(apps.WARM_UP_S)
        load_group = desk.start_load(load, count, seed)
        assert load_group is not None
        stage.take(load_group)
        windows, least = [], []
        for _ in range(seconds):
            before = (load_group.cpu_s(), sum(group.cpu_s() for group in greedy), time.monotonic())
            time.sleep(1)
            elapsed = time.monotonic() - before[2]
            cpus = os.cpu_count() or 1
            least.append(100 * (load_group.cpu_s() - before[0]) / elapsed / cpus)
            windows.append(100 * (sum(group.cpu_s() for group in greedy) - before[1]) / elapsed / cpus)
    return {
        "other_share_pct": sum(least) / len(least),
        "other_share_least_pct": min(least),
        "huc_share_pct": sum(windows) / len(windows),
    }, {}


def two_films(seconds: int, load: str, count: int, seed: int) -> tuple[dict, dict]:
    """Two films at once, their windows overlapping, more than one CPU can play: frames per second of each."""
    with Stage() as stage:
        for title, position in (("film-under", "+20+20"), ("film-over", "+260+160")):
            stage.take(apps.film("large", title, position).group)
            time.sleep(1)
        stage.take(desk.start_load(load, count, seed))
        watchers = [desk.person("watch", title, "--seconds", str(seconds), wait=False) for title in ("film-under", "film-over")]
        under, over = (desk.person_result(*watcher) for watcher in watchers)
    rates = {name: len(seen["intervals_ns"]) / seconds for name, seen in (("under", under), ("over", over))}
    return {
        "fps_under": rates["under"],
        "fps_over": rates["over"],
        "fps_total": sum(rates.values()),
        "fps_ratio": rates["over"] / max(rates["under"], 0.01),
    }, {
        "interval_under": desk.series(under["intervals_ns"], under["source"]),
        "interval_over": desk.series(over["intervals_ns"], over["source"]),
    }
