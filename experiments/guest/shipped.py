# SPDX-License-Identifier: GPL-2.0-only
"""What programs of the shipped specifications (packaging/spec.d) need while a person uses them, beside what they are promised there.

A shipped figure is for machines, and the laboratory's does 500 million instructions a second. What a program needs here is told in the time of a
slow machine of today, one of two billion.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import time
import tomllib
from collections.abc import Callable

import apps
import desk
import desk_tasks

#: A slow machine of today, in million instructions a second.
TODAY_MIPS = 2000.0
#: The person goes on for longer than any program is watched and tried for.
ATTENDED_S = 600
#: A tool is run so often.
RUNS = 20
#: What a tool is told.
TOOLS = {"ps": ("aux",), "pgrep": ("-f", "nobody-is-called-so"), "ls": ("-l", "/usr/bin"), "cat": ("/proc/meminfo",), "id": (), "df": ()}


def promised(path: str) -> tuple[float, float]:
    """C and T in ms of the program at `path` in the shipped set."""
    for file in sorted(apps.ASSETS.glob("*.toml")):
        for entry in tomllib.loads(file.read_text())["spec"]:
            if path in entry.get("path", []):
                return float(entry["runtime_ms"]), float(entry["period_ms"])
    raise desk.MeasureError(f"nothing is shipped for {path}: name it in packaging/spec.d")


def _type(stage: desk_tasks.Stage, title: str) -> None:
    stage.people.append(desk.person("type", title, "--count", "100000", "--seconds", str(ATTENDED_S), wait=False)[0])


def _shell(stage: desk_tasks.Stage) -> None:
    stage.group("shell").start(*apps.in_terminal("shell", ("bash", "--norc")))
    _type(stage, "shell")


def _editor(stage: desk_tasks.Stage, name: str) -> None:
    stage.take(apps.editor(name).group)
    _type(stage, name)


def _dragged(stage: desk_tasks.Stage) -> None:
    stage.client("dragged", "--work-us", "100", "--geometry", "300x200+200+200")
    stage.people.append(desk.person("drag", "dragged", "--seconds", str(ATTENDED_S), wait=False)[0])


def _film_and_keys(stage: desk_tasks.Stage) -> None:
    stage.take(apps.film().group)
    _editor(stage, "vim")


#: How each program is used, by its name.
USES: dict[str, Callable[[desk_tasks.Stage], None]] = {
    "Xvfb": _film_and_keys,
    "openbox": _dragged,
    "xterm": lambda stage: _editor(stage, "vim"),
    "bash": _shell,
    "vim": lambda stage: _editor(stage, "vim"),
    "emacs": lambda stage: _editor(stage, "emacs"),
    "mpv": lambda stage: stage.take(apps.film().group),
}


def _told(path: str, c_ms: float, needed_ms: float, needed_t_ms: float, **more: float) -> dict[str, float]:
    """The figures of the program at `path`, which needs `needed_ms` in each `needed_t_ms` here; `c_ms` of it is what has to fit its C."""
    shipped_c_ms, shipped_t_ms = promised(path)
    needed_pct = 100 * needed_ms / needed_t_ms / (TODAY_MIPS * desk.instruction_ns() / 1000)
    shipped_pct = 100 * shipped_c_ms / shipped_t_ms
    return {
        "c_ms": c_ms, "t_ms": needed_t_ms, "needed_pct": needed_pct, "shipped_c_ms": shipped_c_ms, "shipped_t_ms": shipped_t_ms,
        "shipped_pct": shipped_pct, "times": shipped_pct / needed_pct, **more,
    }


def tool(name: str) -> dict[str, float]:
    """CPU time of one run of a tool: it is to come to its end in its first period, beside as many processes as the desktop has."""
    path = shutil.which(name)
    if not path:
        raise desk.MeasureError(f"no program '{name}' to run")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(RUNS):
        subprocess.run([path, *TOOLS[name]], stdout=subprocess.DEVNULL, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    c_ms = 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / RUNS
    path = os.path.realpath(path)
    return _told(path, c_ms, c_ms, promised(path)[1])


def program(name: str, seconds: int) -> dict[str, float]:
    """What `limelight spec suggest` finds for a program that a person uses."""
    with desk_tasks.Stage() as stage:
        USES[name](stage)
        desk.wait_until(lambda: desk.processes(name), f"{name} in use")
        time.sleep(apps.WARM_UP_S)
        pid = desk.processes(name)[0]
        path = os.path.realpath(f"/proc/{pid}/exe")
        command = ["limelight", "spec", "suggest", "--pid", str(pid), "--seconds", str(seconds), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise desk.MeasureError(f"limelight suggests nothing for {name}: {done.stderr.strip()}")
    found = json.loads(done.stdout)
    if found["type"] != "interactive":
        raise desk.MeasureError(f"limelight takes {name} for best-effort: {done.stderr.strip()}")
    return _told(path, found["runtime_ms"], found["runtime_ms"], found["period_ms"], peak_ms=found["peak_ms"], used_pct=found["used_pct"])


def measure(name: str, seconds: int) -> tuple[dict, dict]:
    """What the program needs, and what it is promised."""
    if name in TOOLS:
        return tool(name), {}
    if name in USES:
        return program(name, seconds), {}
    raise desk.MeasureError(f"nobody knows how '{name}' is used: use {', '.join([*USES, *TOOLS])}")
