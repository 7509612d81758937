# SPDX-License-Identifier: GPL-2.0-only
"""Runs an experiment: for each scheduler, number of CPUs and boot it starts a machine and measures every point in it.

The machine is used through what `Guest` names; everything else here is bookkeeping, and is tested with a guest that is no machine.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from vmlab import samples
from vmlab.errors import KernelFault, LabError
from vmlab.experiment import Experiment, Point
from vmlab.judge import Row
from vmlab.machine import Options, Result


class Guest(Protocol):
    """What is used of `vmlab.machine.Machine`."""

    faults: list[str]

    def run(self, command: str, timeout_s: float | None = None, env: dict[str, str] | None = None) -> Result: ...
    def put(self, source: Path, destination: str) -> None: ...
    def get(self, source: str, destination: Path) -> list[Path]: ...
    def scheduler_alive(self) -> bool: ...
    def check_faults(self) -> list[str]: ...


#: Boots a machine; leaving the context ends it.
Boot = Callable[[Options], AbstractContextManager[Guest]]
#: Progress: one line for a person.
Say = Callable[[str], None]


@dataclass
class Outcome:
    """One measurement of one point in one boot."""

    metrics: dict[str, float]
    series: dict[str, samples.Series]
    ejected: str = ""
    stalled: str = ""
    virtual_s: float = 0.0


def row_key(machine: Options, point: Point) -> tuple:
    """As `Row.key`, before there is a row."""
    return (machine.sched, machine.policy or "", machine.cpus, machine.kernel, machine.instruction_takes_ns, tuple(sorted(point.items())))


@dataclass
class Plan:
    """What a run has to do, fixed before the first boot."""

    experiment: Experiment
    points: list[Point]
    schedulers: list[tuple[str, str]]  # (scheduler, policy)
    cpus: list[int]
    kernel: str
    boots: int
    root: Path
    assets: list[Path] = field(default_factory=list)
    code: str = ""
    #: As the field of `vmlab.machine.Options`.
    instruction_ns: int | None = None
    #: Whether a point is meant for a machine: the full form asks less of other schedulers.
    wanted: Callable[[Options, Point], bool] = lambda _machine, _point: True
    #: Keys of rows that are measured already.
    known: set[tuple] = field(default_factory=set)

    def points_of(self, machine: Options) -> list[Point]:
        """What there is to measure on this machine."""
        return [p for p in self.points if self.wanted(machine, p) and row_key(machine, p) not in self.known]

    def keys(self) -> set[tuple]:
        """The key of every row there will be."""
        return {row_key(machine, point) for machine in self.machines() for point in self.points_of(machine)}

    def machines(self) -> Iterator[Options]:
        """Every machine to boot (each `boots` times)."""
        for cpus in self.cpus:
            for scheduler, policy in self.schedulers:
                yield Options(
                    sched=scheduler,
                    policy=policy or None,
                    cpus=cpus,
                    instruction_ns=self.instruction_ns,
                    memory_mb=self.experiment.memory_mb,
                    kernel=self.kernel,
                    desktop=self.experiment.desktop,
                    fast=self.experiment.fast,
                    real_timeout_s=POINT_TIMEOUT_REAL_S,
                    faults="collect",
                )


#: Real seconds after which one point is given up: an overloaded machine of 1,000 processes needs some minutes to get ready.
POINT_TIMEOUT_REAL_S = 2400.0
#: Virtual seconds likewise: loads start within a minute or two, measurements take less than one.
POINT_TIMEOUT_S = 900.0
#: Status of a `measure` that waited in vain for a program it had started (`desk.STALLED`), and of one that ran out of time.
STALLED = (75, 124)


def _prepare(guest: Guest, plan: Plan) -> None:
    guest.put(plan.root / "experiments" / "guest", "/root/in")
    guest.put(plan.experiment.folder, "/root/in")
    for path in plan.assets:
        guest.put(path, "/root/in/assets")


def _measure(guest: Guest, plan: Plan, machine: Options, point: Point) -> Outcome:
    """One point in a prepared guest.

    A scheduler under which the programs beside a load never come to their end has a result: it stalled, or was ejected. Any other
    measure that fails is the lab's or the workload's failure, not a miss: it ends the run.
    """
    name = plan.experiment.name
    result = guest.run(
        f"rm -rf /root/out; mkdir -p /root/out; exec python3 /root/in/{name}/measure",
        timeout_s=POINT_TIMEOUT_S,
        env={
            "LIMELIGHT_POINT": json.dumps(point),
            "LIMELIGHT_RESULT": "/root/out/result.json",
            "LIMELIGHT_SCHED": machine.sched,
            "LIMELIGHT_INSTRUCTION_NS": str(machine.instruction_takes_ns),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": "/root/in/guest",
        },
    )
    with tempfile.TemporaryDirectory() as folder:
        files = guest.get("/root/out", folder) if result.status == 0 else []
        text = next((path.read_text() for path in files if path.name == "result.json"), None)
    why = (result.stderr or result.stdout).strip()[-3000:] or f"measure ended with status {result.status} and no word"
    gone = not plan.experiment.ends_scheduler and not guest.scheduler_alive()
    if text is None and (gone or (result.status in STALLED and point.get("count", 0) != 0)):
        return Outcome({}, {}, stalled="" if gone else why.splitlines()[-1], virtual_s=result.virtual_s)
    if text is None:
        raise LabError(
            f"{name} could not be measured at {point}",
            why,
            "read the message of the program in the guest above; ./lab shell --desktop with the same options reproduces it",
        )
    outcome = read_outcome(text)
    outcome.virtual_s = result.virtual_s
    return outcome


def read_outcome(text: str) -> Outcome:
    """What a guest's `measure` wrote."""
    data = json.loads(text)
    metrics = {name: float(value) for name, value in data["metrics"].items()}
    series = {}
    for name, raw in data["series"].items():
        series[name] = samples.Series.of(raw["values"], raw["unit"], raw["source"])
        for figure, value in series[name].figures().items():
            metrics[f"{name}.{figure}"] = value
    return Outcome(metrics, series)


def _why_ejected(guest: Guest) -> str:
    line = guest.run("dmesg --notime | grep -i 'sched_ext:' | grep -iv enabled | tail -3").stdout.strip()
    return " / ".join(line.splitlines()) or "sched_ext is disabled, and the kernel log does not say why"


def _unexplained(complaints: list[str], scheduler: str, ejected: bool) -> list[str]:
    """Without those that the table tells. That a scheduler was ejected is its result, for limelight a miss. That nobody else runs, not even the kernel's
    thread that ends RCU's grace periods, is what the yardstick of real-time processes taking turns is there to show. Whatever else is in the log is not."""
    starved = scheduler == "rr" and any("rcu:" in line for line in complaints)
    return [line for line in complaints if not (ejected and "sched_ext:" in line) and not (starved and ("rcu:" in line or line == "Call Trace:"))]


def _boot_once(
    boot: Boot, machine: Options, plan: Plan, number: int, say: Say, took: Callable[[int, Outcome], None]
) -> tuple[dict[int, Outcome], list[str]]:
    """Measures every point in as few machines as possible: one, and another after each ejection. Also what the kernel complained of.
    `took` gets each point's number and outcome at once."""
    outcomes: dict[int, Outcome] = {}
    complaints: list[str] = []
    waiting = list(enumerate(plan.points_of(machine)))
    machine = replace(machine, variation=number)
    while waiting:
        with boot(machine) as guest:
            _prepare(guest, plan)
            while waiting:
                index, point = waiting.pop(0)
                shown = ", ".join(f"{name} {value}" for name, value in point.items())
                say(f"{machine.sched}, {machine.cpus} CPU, boot {number + 1}, {len(waiting)} points left: {shown}")
                outcomes[index] = _measure(guest, plan, machine, point)
                say(f"measured, {outcomes[index].virtual_s:.0f} s of the guest's time")
                if not plan.experiment.ends_scheduler and not guest.scheduler_alive():
                    outcomes[index].ejected = _why_ejected(guest)
                took(index, outcomes[index])
                if outcomes[index].ejected or outcomes[index].stalled or plan.experiment.fresh_boot_per_point:
                    break
            ejected = outcomes[index].ejected or plan.experiment.throws_out(point)
            complaints += _unexplained(guest.check_faults(), machine.sched, bool(ejected))
    return outcomes, complaints


def run(plan: Plan, boot: Boot, say: Say, keep: Callable[[list[Row]], None]) -> list[Row]:
    """Every row of the plan. `keep` gets each row as soon as its last boot has measured it: a long run can be interrupted.

    What the kernel complained about fails the run, after the rows of that machine are kept.
    """
    rows: list[Row] = []
    for machine in plan.machines():
        done, complaints = _measure_machine(plan, machine, boot, say, keep)
        rows += done
        if complaints:
            raise KernelFault(complaints)
    return rows


def _measure_machine(
    plan: Plan, machine: Options, boot: Boot, say: Say, keep: Callable[[list[Row]], None]
) -> tuple[list[Row], list[str]]:
    """All boots of one machine; where nothing is left to measure there is none. Also what the kernel complained of."""
    points = plan.points_of(machine)
    rows: list[Row] = []
    boots: list[dict[int, Outcome]] = []
    complaints: list[str] = []

    def took(index: int, outcome: Outcome) -> None:
        if len(boots) + 1 == plan.boots:
            rows.append(_row(machine, plan, points[index], [*(earlier[index] for earlier in boots), outcome]))
            keep(rows[-1:])

    for number in range(plan.boots if points else 0):
        outcomes, lines = _boot_once(boot, machine, plan, number, say, took)
        boots.append(outcomes)
        complaints += lines
    return rows, complaints


def _row(machine: Options, plan: Plan, point: Point, outcomes: list[Outcome]) -> Row:
    names = [name for name in outcomes[0].metrics if all(name in outcome.metrics for outcome in outcomes)]
    values = {name: [outcome.metrics[name] for outcome in outcomes] for name in names}
    series = {name: samples.merge([o.series[name] for o in outcomes if name in o.series]) for name in outcomes[0].series}
    return Row(
        machine.sched,
        machine.policy or "",
        machine.cpus,
        machine.kernel,
        point,
        {name: samples.median(found) for name, found in values.items()},
        {name: (min(found), max(found)) for name, found in values.items()} if len(outcomes) > 1 else {},
        {name: one.to_json() for name, one in series.items()},
        len(outcomes),
        next((outcome.ejected for outcome in outcomes if outcome.ejected), ""),
        plan.code,
        next((outcome.stalled for outcome in outcomes if outcome.stalled), ""),
        machine.instruction_takes_ns,
    )
