# SPDX-License-Identifier: GPL-2.0-only
"""Compares what was measured with what is expected. Pure: rows in, verdicts out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from vmlab.experiment import Expectation, Experiment, Point
from vmlab.machine import SLOW_NS, unusual_speed


@dataclass(frozen=True)
class Row:
    """One line of the table: a scheduler at a point, over all boots.

    `metrics` holds the median over the boots, `spread` the (least, greatest). `ejected` is why the scheduler was gone at the end
    of the measurement, `stalled` which program never came to its end under it; both are empty where it went well. `code` is what
    `scripts/code` said then, `instruction_ns` the virtual time that an instruction took.
    """

    scheduler: str
    policy: str
    cpus: int
    kernel: str
    point: Point
    metrics: dict[str, float]
    spread: dict[str, tuple[float, float]]
    series: dict[str, dict]
    boots: int
    ejected: str = ""
    code: str = ""
    stalled: str = ""
    instruction_ns: int = SLOW_NS

    @property
    def failed(self) -> str:
        """Why there is no figure to believe in this row, or empty."""
        if self.ejected:
            return f"ejected: {self.ejected}"
        return f"stalled: {self.stalled}" if self.stalled else ""

    def key(self) -> tuple:
        """What makes two rows the same measurement."""
        return _key(self)

    def to_json(self) -> dict:
        """As kept in a results file."""
        return _to_json(self)

    @classmethod
    def from_json(cls, data: dict) -> Row:
        """What `to_json` wrote."""
        data = dict(data)
        data["spread"] = {name: tuple(pair) for name, pair in data["spread"].items()}
        return cls(**data)


@dataclass(frozen=True)
class Verdict:
    """Whether one row keeps one expectation. `passed` is None where it could not be judged (`text` says why)."""

    metric: str
    scheduler: str
    policy: str
    cpus: int
    kernel: str
    point: Point
    passed: bool | None
    observation: bool
    text: str
    reason: str
    instruction_ns: int = SLOW_NS

    def key(self) -> tuple:
        """The `key` of the row that is judged."""
        return _key(self)

    def to_json(self) -> dict:
        """As kept in a results file."""
        return _to_json(self)

    @property
    def failure(self) -> bool:
        """True when the run has to fail because of it: limelight missed, or could not even be judged."""
        return not self.observation and self.passed is not True


def _to_json(one: Row | Verdict) -> dict:
    """What an instruction took only where it was not the time that is taken for granted: files from before it could be another do not change for it."""
    data = asdict(one)
    if one.instruction_ns == SLOW_NS:
        del data["instruction_ns"]
    return data


def _key(one: Row | Verdict) -> tuple:
    return (one.scheduler, one.policy, one.cpus, one.kernel, one.instruction_ns, tuple(sorted(one.point.items())))


def label(one: Row | Verdict) -> str:
    """How a row's scheduler is called: with its policy, where that is not the one it has by itself."""
    return one.scheduler + (f" ({one.policy})" if one.policy not in ("", "unified") else "")


def speed(one: Row | Verdict) -> str:
    """How fast its machine was, where that is not the usual for so many CPUs: empty where it is."""
    return unusual_speed(one.cpus, one.instruction_ns)


def kernels_of(some: Iterable[Row | Verdict]) -> list[str]:
    """The kernels that were measured on, each once, in order."""
    return sorted({one.kernel for one in some})


def _reference(expectation: Expectation, row: Row, rows: list[Row]) -> Row | None:
    """The row a relative bound refers to: of the same machine, and of another scheduler the one with the policy that it has by itself."""
    scheduler = expectation.of_scheduler or row.scheduler
    wanted = {**row.point, **expectation.of}
    if wanted.get("count") == 0 and "load" in wanted:
        wanted["load"] = "none"
    for other in rows:
        same_machine = (other.cpus, other.kernel, other.instruction_ns) == (row.cpus, row.kernel, row.instruction_ns)
        same_policy = other.policy == (row.policy if scheduler == row.scheduler else "")
        if same_machine and same_policy and other.scheduler == scheduler and other.point == wanted:
            return other
    return None


def _judge_one(expectation: Expectation, row: Row, rows: list[Row]) -> Verdict:
    # The bounds are for machines of the usual speed: what another one misses is told, and fails nothing.
    observation = expectation.observation or bool(speed(row))

    def verdict(passed: bool | None, text: str) -> Verdict:
        return Verdict(
            expectation.metric, row.scheduler, row.policy, row.cpus, row.kernel, row.point, passed, observation, text, expectation.reason,
            row.instruction_ns,
        )

    value = row.metrics.get(expectation.metric)
    if row.failed:
        return verdict(False, row.failed)
    if value is None:
        return verdict(None, f"{expectation.metric} was not measured")
    factor = expectation.at_most if expectation.at_most is not None else expectation.at_least
    assert factor is not None  # experiment.load() insists on one of the two
    bound, origin = factor, ""
    if expectation.times:
        other = _reference(expectation, row, rows)
        reference = other.metrics.get(expectation.metric) if other else None
        if reference is None:
            return verdict(None, "what it is compared with was not measured")
        bound = factor * reference + expectation.slack
        origin = f" ({factor:g} × {reference:.4g}{f' + {expectation.slack:g}' if expectation.slack else ''})"
    if expectation.at_most is not None:
        return verdict(value <= bound, f"{expectation.metric} = {value:.4g}, at most {bound:.4g}{origin}")
    return verdict(value >= bound, f"{expectation.metric} = {value:.4g}, at least {bound:.4g}{origin}")


def judge(experiment: Experiment, judged: list[Row], rows: list[Row]) -> list[Verdict]:
    """A verdict for every expectation that applies to a row of `judged`; `rows` are all there is to compare with."""
    return [
        _judge_one(expectation, row, rows)
        for row in judged
        for expectation in experiment.expected
        if expectation.applies(row.scheduler, row.cpus, row.point)
    ]
