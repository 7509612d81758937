# SPDX-License-Identifier: GPL-2.0-only
"""What stands for "the person wants this promised" under each scheduler: a Redline specification under limelight, nice -20 under any other.

The paper's control has the interactive programs at nice -20, the best that an ordinary scheduler offers. A measure writes its own specifications,
has the daemon read them, and only then starts the programs: a specification is looked up when a program is executed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import desk

#: Administrators' specifications. Root's alone, as all that is read there has to be.
FILE = Path("/etc/limelight/spec.d/measure.tab")
#: Copies of one program, each with a specification of its own: one is known by its file, not by its name.
COPIES = Path("/run/measure-programs")
BEST_NICE = -20
#: Until all have been admitted it takes no longer than this: one is given back in each window of four seconds. And so often that is looked at.
SETTLED_S = 40.0
LOOK_S = 0.3


@dataclass(frozen=True)
class Spec:
    """C ms in every T ms for the program that is called so, or is at that path. Flags: I inheritable, R revocable, L a login, P by interactive ones only."""

    program: str
    c_ms: int
    t_ms: int
    flags: str = ""

    def line(self) -> str:
        """As in the paper: pathname:type:C:T:flags:memory:io."""
        found = shutil.which(self.program)
        if not found:
            raise desk.MeasureError(f"no program '{self.program}' to promise anything to")
        return f"{os.path.realpath(found)}:Iact:{self.c_ms}:{self.t_ms}:{self.flags or '-'}:-:-"

    def share(self) -> float:
        """Of one CPU."""
        return self.c_ms / self.t_ms


#: Who shows anything at all, as in the paper's Table 1: X and KDE's window manager. X serves all others, and is not to be revoked.
SCREEN = (Spec("Xvfb", 5, 10), Spec("openbox", 3, 30))
#: The player. A frame of `film small` takes 14.3 ms here and comes every 40 ms (the paper's 5:30 was for a machine three times as fast).
PLAYER = Spec("mpv", 16, 40, "IR")
#: The editor, its shell and its terminal; the first two as in Table 1, which leaves the terminal out.
EDITOR = (Spec("vim", 5, 100, "R"), Spec("bash", 5, 100), Spec("xterm", 3, 30))
DESKTOP = (*SCREEN, PLAYER, *EDITOR)


def is_promised() -> bool:
    """Whether specifications are what counts under the scheduler that is measured."""
    return desk.scheduler() == "limelight"


def write(specs: Iterable[Spec]) -> None:
    """Has the daemon promise this, beside what limelight brings along, from now on; under any other scheduler nothing."""
    if not is_promised():
        return
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text("".join(f"{spec.line()}\n" for spec in specs))
    FILE.chmod(0o644)
    done = subprocess.run(["limelight", "spec", "reload"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise desk.MeasureError(f"limelight does not read the specifications: {done.stderr.strip()}")


def _reported() -> dict:
    """What the daemon says of reservations, and of what they take."""
    # Beside 2,000 an ordinary program's every step waits: one look took 40 s.
    command = ["limelight", "spec", "list", "--json"]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, preexec_fn=desk.become_instrument).stdout)


def held(asked: Iterable[Spec]) -> list[dict]:
    """The reservations that processes asked for by one of these, by what the daemon says; none where specifications are not what counts."""
    if not is_promised():
        return []
    paths = {spec.line().split(":")[0] for spec in asked}
    return [one for one in _reported()["reservations"] if one["target"] in paths]


def loads_pct() -> list[float]:
    """R_load of each CPU, by what the daemon says: what reservations took in the last four seconds."""
    return [cpu["recent_pct"] for cpu in _reported()["cpus"]] if is_promised() else []


def refused(asked: Sequence[Spec]) -> int:
    """How many processes hold no reservation, though they asked for one of these. No other figure depends on that."""
    return sum(one["state"] != "admitted" for one in held(asked))


def settle(asked: Sequence[Spec], at_least_s: float) -> float:
    """Lets programs run until each has been admitted; how long that took, in s."""
    began = time.monotonic()
    time.sleep(at_least_s)
    while refused(asked) and time.monotonic() - began < SETTLED_S:
        time.sleep(LOOK_S)
    return time.monotonic() - began


def favour(*groups: desk.Group) -> None:
    """Under a scheduler that takes no specifications: the groups' threads at nice -20, and what they start from now on."""
    if is_promised():
        return
    for group in groups:
        for pid in group.pids():
            for thread in Path(f"/proc/{pid}/task").iterdir():
                os.setpriority(os.PRIO_PROCESS, int(thread.name), BEST_NICE)


def be_nice() -> None:
    """In a new process, before it is a program: the same."""
    os.setpriority(os.PRIO_PROCESS, 0, BEST_NICE)


def copy_of(program: str, name: str) -> str:
    """A file of its own with the same program, as `name`; the copy's path."""
    source = shutil.which(program)
    if not source:
        raise desk.MeasureError(f"no program '{program}' to copy")
    COPIES.mkdir(exist_ok=True)
    copy = COPIES / name
    if not copy.exists():
        shutil.copy2(source, copy)
    return str(copy)
