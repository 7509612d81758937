# SPDX-License-Identifier: GPL-2.0-only
"""An experiment: a folder with a claim, a workload, parameters, and what is expected of it.

`experiments/NAME/experiment.toml` is read and checked here; `engine.py` runs it, `judge.py` compares what came out with what is
expected. Nothing here starts a machine.
"""

from __future__ import annotations

import itertools
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

#: A value of a parameter, as in the TOML file or behind --set.
Value = int | float | str
#: One combination of parameter values.
Point = dict[str, Value]

SCHEDULERS = ("eevdf", "limelight", "scx_bpfland", "scx_lavd")


class ExperimentError(Exception):
    """A definition or a command line that cannot be used: the message names the thing, the reason and the fix."""


@dataclass(frozen=True)
class Parameter:
    """One thing that can be varied. `full` and `quick` are the values of the two forms, `also` words that neither has."""

    name: str
    full: tuple[Value, ...]
    quick: tuple[Value, ...]
    help: str
    also: tuple[Value, ...] = ()

    def parse(self, text: str) -> tuple[Value, ...]:
        """The values of `--set name=text`: numbers as the defaults are, or words there are. A wrong word must not cost a boot."""
        kind = type(self.full[0])
        known = dict.fromkeys((*self.full, *self.quick, *self.also))
        try:
            values = tuple(kind(part) for part in text.split(","))
        except ValueError:
            raise ExperimentError(
                f"--set {self.name}={text}: not a list of numbers; the default is {','.join(map(str, self.full))} ({self.help})"
            ) from None
        unknown = [value for value in values if kind is str and value not in known]
        if unknown:
            raise ExperimentError(f"--set {self.name}={text}: '{unknown[0]}' is none of {', '.join(map(str, known))} ({self.help})")
        return values


@dataclass(frozen=True)
class Column:
    """One column of the table: a metric, its heading, unit and digits after the point."""

    metric: str
    title: str
    unit: str = ""
    digits: int = 1


@dataclass(frozen=True)
class Expectation:
    """A bound on a metric and the reason for it.

    The bound is a number (`at_most`, `at_least`), or that number times the same metric elsewhere (`times`): at another point of
    the same scheduler (`of`), or at the same point of another scheduler (`of_scheduler`). Where `of` is relative, `slack` is added:
    the resolution of what measures. Only a bound on limelight decides the exit status; one on another scheduler says whether the
    paper's observation is seen here (`observation`).
    """

    metric: str
    reason: str
    scheduler: str = "limelight"
    at_most: float | None = None
    at_least: float | None = None
    times: bool = False
    of: Point = field(default_factory=dict)
    of_scheduler: str = ""
    slack: float = 0.0
    where: dict[str, list[Value]] = field(default_factory=dict)
    cpus: list[int] = field(default_factory=list)  # on machines with so many CPUs; empty: on all

    @property
    def observation(self) -> bool:
        """True where a miss is worth telling but fails nothing."""
        return self.scheduler != "limelight"

    def applies(self, scheduler: str, cpus: int, point: Point) -> bool:
        """Whether the bound is meant for this row."""
        meant = scheduler == self.scheduler and cpus in (self.cpus or [cpus])
        return meant and all(point.get(name) in allowed for name, allowed in self.where.items())


@dataclass(frozen=True)
class Experiment:
    """A whole definition; see `docs` in experiments/README.md for each key."""

    name: str
    folder: Path
    title: str
    claim: str
    columns: tuple[Column, ...]
    parameters: tuple[Parameter, ...]
    expected: tuple[Expectation, ...]
    paper: str = ""
    paper_figure: str = ""
    plot: dict = field(default_factory=dict)
    desktop: bool = True
    schedulers: tuple[str, ...] = SCHEDULERS
    cpus: tuple[int, ...] = (1,)
    boots: int = 1
    memory_mb: int = 2048
    fast: bool = False
    fresh_boot_per_point: bool = False
    ends_scheduler: bool = False  # the measurement itself takes the scheduler away: its absence is no ejection
    thrown_out_at: dict[str, list[Value]] = field(default_factory=dict)  # where the measurement has the kernel do it, which says so in its log
    assets: tuple[str, ...] = ()
    peers: dict[str, list[Value]] = field(default_factory=dict)  # of the full form, what other schedulers than limelight are measured at
    many_cpus: dict[str, list[Value]] = field(default_factory=dict)  # and what is measured on more than one CPU
    only: dict[str, dict[str, list[Value]]] = field(default_factory=dict)  # of both forms, at which values a scheduler can be measured at all

    def is_measured(self, point: Point, scheduler: str, cpus: int, settings: list[str], quick: bool = False) -> bool:
        """Whether that form measures `point` there. A parameter that `--set` gives values is measured at those, everywhere."""
        given = {setting.partition("=")[0] for setting in settings}
        thin = [self.only.get(scheduler) or self.only.get("others" if scheduler != "limelight" else "", {})]
        if not quick:
            thin += [self.peers if scheduler != "limelight" else {}, self.many_cpus if cpus > 1 else {}]
        return all(
            point[name] in values or (name == "load" and point.get("count") == 0)
            for values_by_name in thin
            for name, values in values_by_name.items()
            if name not in given
        )

    def throws_out(self, point: Point) -> bool:
        """Whether the measurement at `point` has the kernel throw the scheduler out: then what it says of that is no complaint."""
        return bool(self.thrown_out_at) and all(point[name] in values for name, values in self.thrown_out_at.items())

    def points(self, quick: bool, settings: list[str]) -> list[Point]:
        """Every combination to measure: the full or the quick form, with `--set key=value` put over it."""
        values = {p.name: p.quick if quick else p.full for p in self.parameters}
        for setting in settings:
            name, equals, text = setting.partition("=")
            parameter = next((p for p in self.parameters if p.name == name), None)
            if parameter is None:
                allowed = ", ".join(p.name for p in self.parameters) or "none"
                raise ExperimentError(f"--set {setting}: {self.name} has no such parameter; it has: {allowed}")
            if not equals:
                raise ExperimentError(f"--set {setting}: it has no value; use {name}={','.join(map(str, parameter.full))}, for example")
            values[name] = parameter.parse(text)
        points: list[Point] = []
        for combination in itertools.product(*values.values()):
            point = dict(zip(values, combination))
            if point.get("count") == 0 and "load" in point:
                point["load"] = "none"  # no processes of one kind are no processes of any kind
            if point not in points:
                points.append(point)
        return points

    def varied(self, points: list[Point]) -> list[str]:
        """The parameters that differ among `points`, in the definition's order: the table's first columns."""
        return [p.name for p in self.parameters if len({point[p.name] for point in points}) > 1]


def _check_keys(where: str, table: dict, allowed: set[str]) -> None:
    unknown = sorted(set(table) - allowed)
    if unknown:
        raise ExperimentError(f"{where}: unknown key '{unknown[0]}'; allowed are {', '.join(sorted(allowed))}")


def _parameter(where: str, name: str, table: dict) -> Parameter:
    _check_keys(f"{where} [parameters.{name}]", table, {"default", "quick", "also", "help"})
    full = table.get("default")
    if not isinstance(full, list) or not full or len({type(value) for value in full}) != 1:
        raise ExperimentError(f"{where} [parameters.{name}]: 'default' must be a list of values of one kind")
    if not table.get("help"):
        raise ExperimentError(f"{where} [parameters.{name}]: 'help' is missing: say what it is, with its unit")
    if table.get("also") and not isinstance(full[0], str):
        raise ExperimentError(f"{where} [parameters.{name}]: 'also' is for words; any number can be set")
    return Parameter(name, tuple(full), tuple(table.get("quick", full)), table["help"], tuple(table.get("also", ())))


def _expectation(where: str, table: dict, parameters: set[str]) -> Expectation:
    _check_keys(f"{where} [[expected]]", table, set(Expectation.__dataclass_fields__))
    for key in ("metric", "reason"):
        if not table.get(key):
            raise ExperimentError(f"{where} [[expected]]: '{key}' is missing: a bound needs a metric and a reason")
    if ("at_most" in table) == ("at_least" in table):
        raise ExperimentError(f"{where} [[expected]] {table['metric']}: give one of at_most and at_least")
    if bool(table.get("of") or table.get("of_scheduler")) != bool(table.get("times")):
        raise ExperimentError(f"{where} [[expected]] {table['metric']}: 'times' goes with 'of' or 'of_scheduler'")
    for key in ("where", "of"):
        _check_keys(f"{where} [[expected]] {table['metric']} {key}", table.get(key, {}), parameters)
    return Expectation(**table)


def load(folder: Path) -> Experiment:
    """Reads and checks `folder`/experiment.toml."""
    path = folder / "experiment.toml"
    where = f"experiments/{folder.name}/experiment.toml"
    try:
        data = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise ExperimentError(f"{where}: not there; see ./lab list for the experiments there are") from None
    except tomllib.TOMLDecodeError as error:
        raise ExperimentError(f"{where}: {error}") from None
    simple = set(Experiment.__dataclass_fields__) - {"name", "folder"}
    _check_keys(where, data, simple)
    for key in ("title", "claim", "columns", "expected"):
        if not data.get(key):
            raise ExperimentError(f"{where}: '{key}' is missing")
    parameters = tuple(_parameter(where, name, table) for name, table in data.pop("parameters", {}).items())
    names = {parameter.name for parameter in parameters}
    for key in ("peers", "many_cpus", "thrown_out_at"):
        _check_keys(f"{where} {key}", data.get(key, {}), names)
    for scheduler, values in data.get("only", {}).items():
        _check_keys(f"{where} only.{scheduler}", values, names)
    columns = tuple(Column(**column) for column in data.pop("columns"))
    expected = tuple(_expectation(where, table, names) for table in data.pop("expected"))
    for key in ("schedulers", "cpus", "assets"):
        if key in data:
            data[key] = tuple(data[key])
    return Experiment(name=folder.name, folder=folder, columns=columns, parameters=parameters, expected=expected, **data)


def folders(root: Path) -> list[Path]:
    """The folders of all experiments, by name."""
    return sorted(path.parent for path in (root / "experiments").glob("*/experiment.toml"))


def find(root: Path, name: str) -> Experiment:
    """The experiment `name`, or an error naming those there are."""
    known = {folder.name: folder for folder in folders(root)}
    if name not in known:
        raise ExperimentError(f"no experiment is called '{name}'; there are: {', '.join(known) or 'none'}")
    return load(known[name])
