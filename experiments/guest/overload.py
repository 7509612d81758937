# SPDX-License-Identifier: GPL-2.0-only
"""Programs that were admitted for what they used want all that they may, which is more than there is (Redline, OSDI 2008, section 6.1)."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import apps
import desk
import redline
import specs
from desk_tasks import Stage

#: Each may have so much of 100 ms, and a little more than the one before it, so that one of them uses most.
C_MS, T_MS = 40, 100
#: It wants nearly all of a CPU once it goes on.
WANTED_US = (95_000, 100_000)
#: Admitted again it is within two windows of four seconds after there is room, and one is given back in each.
BACK_S = 20.0


def _waiting(stage: Stage, promised: list[specs.Spec], seconds: int, seed: int) -> list[int]:
    """Starts the programs, and stops each at once, so that it uses nothing; their pids."""
    group = stage.group("greedy")
    pids = []
    for number, spec in enumerate(promised):
        words = [str(value) for value in (*WANTED_US, seconds)]
        program = group.start(spec.program, *words, "--seed", str(seed + number))
        os.kill(program.pid, signal.SIGSTOP)
        pids.append(program.pid)
    specs.favour(group)
    return pids


def _is_told(pid: int) -> bool:
    """Whether `limelight explain` says of a process that its reservation was revoked."""
    done = subprocess.run(["limelight", "explain", str(pid)], stdout=subprocess.PIPE, text=True, check=False)
    return "taken back" in done.stdout and "of which they may have" in done.stdout


def _given_back(promised: list[specs.Spec], revoked: list[dict]) -> float:
    """Ends all but the revoked ones; how long it took until the first of these had its own back, in s."""
    began = time.monotonic()
    waiting = {one["pid"] for one in revoked}
    for one in specs.held(promised):
        if one["pid"] not in waiting:
            os.kill(one["pid"], signal.SIGKILL)
    while time.monotonic() - began < BACK_S:
        time.sleep(specs.LOOK_S)
        if any(one["state"] == "admitted" and one["pid"] in waiting for one in specs.held(promised)):
            break
    return time.monotonic() - began


def measure(greedy: int, seconds: int, seed: int) -> tuple[dict, dict]:
    """A film and an editor, which have their specifications, beside `greedy` programs that want all of theirs at once after a time of nothing."""
    promised = [specs.Spec(specs.copy_of("periodic", f"greedy-{number}"), C_MS + number, T_MS, "R") for number in range(greedy)]
    specs.write([*specs.DESKTOP, *promised])
    pids: list[int] = []
    with Stage() as crowd:

        def admit() -> None:
            pids.extend(_waiting(crowd, promised, 10 * seconds, seed))
            specs.settle(promised, desk.SETTLE_S)
            # That took half a minute and more: the film would come to its end while it is watched.
            apps.rewind()

        def wake(_stage: Stage) -> dict[str, float]:
            refused = specs.refused(promised)
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
            return {"refused": float(refused), "woken_at": time.monotonic()}

        seen = redline.play(redline.BEFORE_S + seconds, True, wake, admit)
        woken_at = seen.disturbance.pop("woken_at")
        held = specs.held(promised)
        revoked = [one for one in held if one["state"] == "revoked"]
        metrics = seen.metrics() | {"revoked": float(len(revoked))}
        if loads := specs.loads_pct():
            metrics["load_pct"] = max(loads)
        if revoked:
            metrics["revoked_after_s"] = max(0.0, time.monotonic() - woken_at - min(one["since_s"] for one in revoked))
            metrics["told"] = float(all(_is_told(one["pid"]) for one in revoked))
            metrics["back_after_s"] = _given_back(promised, revoked)
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
    return metrics, seen.series()
