# SPDX-License-Identifier: GPL-2.0-only
"""Redline's Table 1: programs that ask for more than there is, and use far less than they ask for (OSDI 2008, sections 6.1 and 8).

A real-time system adds up what is asked for and refuses what does not fit. Redline goes by what is used. Whether each program was admitted is
not asked: beside a load that leaves nothing to who was not, each has to do what it is there for.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence

import apps
import desk
import frames
import redline
import reservations
import specs
from desk_tasks import Stage

#: What the image has no program for: name, C and T in ms as in Table 1. Periodic tasks stand for them.
STAND_INS = (("init", 2, 50), ("kjournald", 10, 100), ("kdeinit", 2, 30), ("kdesktop", 3, 30), ("firefox", 6, 30))
#: Of these, who is there before the desktop; and how long after each other all begin, as in a session.
BEFORE_THE_DESKTOP = 4
APART_S = 0.3
#: A person begins programs some time after the desktop has come up.
DESKTOP_S = 6.0
#: The stand-ins go on for longer than the film is watched: to read what they tell takes 8 ms, before every ordinary task.
LONGER_S = 2
#: Of what they ask for they use so much: specifications are conservative (section 6.1).
USED = 0.5
#: Who of these is at nice -20 in the paper's control, with the player and the editor.
FAVOURED = ("firefox",)


def refused_by_sum(shares: Sequence[float], cpus: float) -> int:
    """How many of these, one after the other, a test refuses that adds up what each may use at most."""
    total, refused = 0.0, 0
    for share in shares:
        if total + share > cpus:
            refused += 1
        else:
            total += share
    return refused


def _stand_ins() -> list[reservations.Task]:
    found = []
    for number, (name, c_ms, t_ms) in enumerate(STAND_INS):
        spec = specs.Spec(specs.copy_of("periodic", f"as-{name}"), c_ms, t_ms, "R")
        found.append(reservations.Task(int(1000 * c_ms * USED), 1000 * t_ms, spec, number, name in FAVOURED))
    return found


def _begin_anew() -> None:
    """The window manager was there before its specification: it executes itself again."""
    subprocess.run(["openbox", "--restart"], check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, user=desk.PERSON)
    time.sleep(1)
    desk.desktop_at_rest()


def measure(load: str, count: int, seconds: int, seed: int) -> tuple[dict, dict]:
    """The whole set beside `count` busy processes per CPU: frames, keys, and the periods of the stand-ins. It begins as a session does, the display
    server first and one program after the other, and what it is beside comes when it is there."""
    tasks = _stand_ins()
    during_s = seconds + LONGER_S
    running: list[subprocess.Popen] = []
    asked = [*specs.SCREEN, *(task.spec for task in tasks), specs.PLAYER, *specs.EDITOR]
    specs.write(asked)
    _begin_anew()
    with Stage() as stage:
        running += reservations.begin(tasks[:BEFORE_THE_DESKTOP], during_s, seed, "--told", apart_s=APART_S)
        time.sleep(DESKTOP_S)
        film = apps.film("small").group
        editor = apps.editor("vim").group
        shell = stage.group("shell")
        shell.start("xterm", "-T", "shell", "-geometry", "60x10+640+400", "-e", "bash", "--norc")
        stage.take(film)
        stage.take(editor)
        desk.wait_until(shell.at_rest, "the shell in its terminal")
        running += reservations.begin(tasks[BEFORE_THE_DESKTOP:], during_s, seed, "--told", apart_s=APART_S)
        specs.favour(film, editor)
        film.read_in()
        admitted_s = specs.settle(asked, apps.WARM_UP_S)
        stage.take(desk.start_load(load, count, seed))
        apps.rewind()
        refused = specs.refused(asked)
        reservations.tell(running)
        hand = desk.person("type", "vim", "--count", "10000", "--seconds", str(seconds), wait=False)
        time.sleep(redline.FIND_S)
        eye = desk.person("watch", "film", "--seconds", str(seconds), wait=False)
        periods, used_pct = reservations.end(tasks, running, during_s)
        seen, keys = desk.person_result(*eye), desk.person_result(*hand)
    metrics = {
        "asked_pct": 100 * sum(spec.share() for spec in asked),
        "refused_by_sum": float(refused_by_sum([spec.share() for spec in asked], os.cpu_count() or 1)),
        "admitted_s": admitted_s,
        "refused": float(refused),
        "keys_lost": float(keys["lost"]),
    }
    return metrics | periods | frames.judge(seen["intervals_ns"], seconds, apps.FILM_FPS), {
        "key_to_screen": desk.series(keys["latency_ns"], keys["source"]),
        "response_pct": {"unit": "% of the period", "source": "release to done, two clocks of the program", "values": used_pct},
    }
