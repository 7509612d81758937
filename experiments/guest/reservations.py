# SPDX-License-Identifier: GPL-2.0-only
"""What a reservation costs, and whether it is kept: Redline's Figure 4 and what its section 6 promises (OSDI 2008).

Whether a task had its C in T is told by the task's own two clocks (`periodic`), and by nothing that the scheduler says of itself.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass

import desk
import redline
import specs

#: All processes of a ring together, of one CPU and for so long: under what admission leaves to reservations, and long enough that no
#: process uses up its own before the measurement is over. What is measured then is the earliest deadline first, and nothing but that.
RING_SHARE = 0.7
RING_T_MS = 4000
#: Figure 4(b): with one busy task 1 ms in 3, with 20 in 30 and so on: a switch nearly every millisecond.
BUSY_T_MS = {1: 3, 20: 30, 200: 300, 2000: 3000}
#: Beside them: C and T in us of CPU wanted, and what is promised for it, C:T in ms. 57 % of a CPU are wanted in all, 74 % are promised.
#: Periods that do not divide each other meet in all ways. A promise is more than the need by what a switch, an interrupt and a look at the clock cost.
TASKS = ((700, 5_000, 1, 5), (1_600, 10_000, 2, 10), (4_000, 30_000, 5, 30), (8_000, 100_000, 10, 100), (4_000, 70_000, 5, 70))
#: A task is given so much longer than it should take: after that it counts as one that was never served.
PATIENCE_S = 20


def _said(command: Sequence[str]) -> dict:
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise desk.MeasureError(f"{' '.join(command)} ended with status {done.returncode}: its message is above")
    return json.loads(done.stdout)


def _check_kind(kind: str) -> bool:
    """Whether the tasks are to have a reservation."""
    if kind not in ("best-effort", "reserved"):
        raise desk.MeasureError(f"kind is '{kind}': use best-effort or reserved")
    return kind == "reserved"


def measure_ring(kind: str, count: int, hops: int) -> tuple[dict, dict]:
    """A token handed round by `count` processes on one CPU: time per hop, and without what the pipes cost."""
    each_ms = max(1, int(RING_T_MS * RING_SHARE / count))
    specs.write([specs.Spec("ring", each_ms, RING_T_MS, "I")] if _check_kind(kind) else [])
    seen = _said(["ring", str(count), str(hops)])
    middle = {what: sorted(seen[f"{what}_ns"])[len(seen[f"{what}_ns"]) // 2] for what in ("hop", "pass")}
    metrics = {
        "hop_ns": float(middle["hop"]),
        "pass_ns": float(middle["pass"]),
        "switch_ns": float(middle["hop"] - middle["pass"]),
        "switch_instructions": (middle["hop"] - middle["pass"]) / desk.instruction_ns(),
    }
    return metrics, {"hop": desk.series(seen["hop_ns"], seen["source"], "us")}


def measure_busy(kind: str, count: int, millions: int) -> tuple[dict, dict]:
    """A fixed amount of work done by `count` processes, on every CPU as much: how long it takes."""
    cpus = os.cpu_count() or 1
    promised = BUSY_T_MS.get(count, 3 * count // 2)
    specs.write([specs.Spec("busy", 1, promised, "I")] if _check_kind(kind) else [])
    seen = _said(["busy", str(count * cpus), str(millions * cpus)])
    return {"total_s": seen["took_ns"] / 1e9, "switches_per_s": seen["switches"] / (seen["took_ns"] / 1e9)}, {}


@dataclass
class Task:
    """One periodic task: what it wants and what it is promised."""

    c_us: int
    t_us: int
    spec: specs.Spec
    number: int
    #: whether it is at nice -20 where there are no specifications
    is_favoured: bool = True

    def command(self, seconds: int, seed: int) -> list[str]:
        """How it is started."""
        yardstick = ["--deadline", str(self.spec.c_ms * 1000)] if desk.scheduler() == "deadline" else []
        return [self.spec.program, str(self.c_us), str(self.t_us), str(seconds), "--seed", str(seed + self.number), *yardstick]


def tasks_here() -> list[Task]:
    """The set of TASKS once for every CPU, each kind with a program file and a specification of its own."""
    found = []
    for _ in range(os.cpu_count() or 1):
        for c_us, t_us, c_ms, t_ms in TASKS:
            spec = specs.Spec(specs.copy_of("periodic", f"periodic-{c_ms}-{t_ms}"), c_ms, t_ms)
            found.append(Task(c_us, t_us, spec, len(found)))
    return found


def specs_of(tasks: Sequence[Task]) -> list[specs.Spec]:
    """Each once."""
    return list({task.spec.program: task.spec for task in tasks}.values())


def begin(tasks: Sequence[Task], seconds: int, seed: int, *words: str, apart_s: float = 0) -> list[subprocess.Popen]:
    """Starts the tasks, one after the other: each is admitted, or not, by itself. With `--told` they count from tell() on."""
    is_nice = not specs.is_promised() and desk.scheduler() != "deadline"
    # Inherited: who is told before it asks to be waits with that.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    running = []
    for task in tasks:
        nice = specs.be_nice if is_nice and task.is_favoured else None
        running.append(subprocess.Popen([*task.command(seconds, seed), *words], stdout=subprocess.PIPE, text=True, preexec_fn=nice))
        time.sleep(apart_s)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return running


def tell(running: Sequence[subprocess.Popen]) -> None:
    """Has the tasks count from now on."""
    for program in running:
        program.send_signal(signal.SIGUSR1)


def judge(task: Task, said: dict | None, seconds: int) -> dict[str, float]:
    """Periods in which a task had what it wanted or all that it was promised, of those there were; `said` is None of one that never came to its end."""
    due = seconds * 1_000_000 // task.t_us
    if said is None:
        return {"periods": due, "honoured": 0, "used_up": 0, "worst_late_ms": 1000.0 * seconds}
    late = [(when - said["t_ns"], had >= 1_000_000 * task.spec.c_ms) for when, had in zip(said["done_ns"], said["had_ns"], strict=True) if when > said["t_ns"]]
    periods = len(said["done_ns"]) + said["passed_over"]
    missed = said["passed_over"] + sum(not had_all for _, had_all in late)
    return {
        "periods": periods,
        "honoured": periods - missed,
        "used_up": sum(had_all for _, had_all in late),
        "worst_late_ms": max((by for by, had_all in late if not had_all), default=0) / 1e6,
    }


def end(tasks: Sequence[Task], running: Sequence[subprocess.Popen], seconds: int) -> tuple[dict[str, float], list[float]]:
    """Waits for the tasks; their figures in all, and for each of them how much of its period it took, in %."""
    found, used_pct = [], []
    until = time.monotonic() + seconds + PATIENCE_S
    for task, program in zip(tasks, running):
        try:
            said = json.loads(program.communicate(timeout=max(0.1, until - time.monotonic()))[0])
        except (subprocess.TimeoutExpired, json.JSONDecodeError) as error:
            if program.poll() not in (None, 0):
                for other in running:
                    other.kill()
                why = f"{task.spec.program} ended with status {program.returncode}: its message is above, or the kernel's log has it"
                raise desk.MeasureError(why) from error
            program.kill()
            program.wait()
            said = None
        found.append(judge(task, said, seconds))
        used_pct += [100 * when / said["t_ns"] for when in said["done_ns"]] if said else []
    periods = sum(one["periods"] for one in found)
    honoured = sum(one["honoured"] for one in found)
    return {
        "periods": float(periods),
        "missed": float(periods - honoured),
        "used_up": float(sum(one["used_up"] for one in found)),
        "honoured_pct": 100 * honoured / max(1, periods),
        "honoured_least_pct": min(100 * one["honoured"] / max(1, one["periods"]) for one in found),
        "worst_late_ms": max(one["worst_late_ms"] for one in found),
    }, used_pct


def measure_reservations(load: str, count: int, seconds: int, seed: int) -> tuple[dict, dict]:
    """Periodic tasks beside `count` busy processes in all: in how many of their periods they had what they wanted, in time. They count from when all
    are admitted."""
    tasks = tasks_here()
    specs.write(specs_of(tasks))
    group = redline.start_all(load, count, seed)
    try:
        if group and load == "make":
            desk.wait_until(lambda: desk.processes("cc1"), "the make load's first compiler")
        time.sleep(desk.SETTLE_S)
        # Those who begin at once are admitted by what they may use: one that fits nowhere then is when others have used less for a while.
        running = begin(tasks, seconds, seed, "--told")
        admitted_s = specs.settle(specs_of(tasks), desk.SETTLE_S)
        refused = specs.refused(specs_of(tasks))
        tell(running)
        metrics, used_pct = end(tasks, running, seconds)
    finally:
        if group:
            redline.end_at_once(group)
    metrics |= {"admitted_s": admitted_s, "refused": float(refused)}
    return metrics, {"response_pct": {"unit": "% of the period", "source": "release to done, two clocks of the program", "values": used_pct}}
