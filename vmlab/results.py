# SPDX-License-Identifier: GPL-2.0-only
"""Results files: one JSON per experiment, with everything a plot needs, and the table that is printed."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from pathlib import Path

from vmlab.experiment import Experiment
from vmlab.judge import Row, Verdict, judge, kernels_of, label, speed
from vmlab.machine import SLOW_NS

#: Raised when the layout of the file changes: older ones are then measured again instead of read wrongly.
FORMAT = 2


@dataclass
class Results:
    """All rows measured so far for one experiment, and the commands that made them."""

    experiment: str
    rows: list[Row] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)

    def put(self, rows: list[Row], command: str) -> None:
        """Takes rows in, in place of earlier ones of the same scheduler, machine and point. A machine of more than two CPUs had half its speed once."""
        fresh = {row.key() for row in rows} | {replace(row, instruction_ns=SLOW_NS).key() for row in rows if not speed(row)}
        self.rows = [row for row in self.rows if row.key() not in fresh] + rows
        if command not in self.commands:
            self.commands.append(command)

    def save(self, path: Path, verdicts: list[Verdict]) -> None:
        """Writes the file whole or not at all, a row a line: what changes when some are measured again is then to be seen."""
        data = {
            "format": FORMAT,
            "experiment": self.experiment,
            "commands": self.commands,
            "rows": [row.to_json() for row in self.rows],
            "verdicts": [verdict.to_json() for verdict in verdicts],
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".tmp")
        partial.write_text(_text(data))
        os.replace(partial, path)


def _text(data: dict) -> str:
    """`data` as JSON, each member of its lists on a line of its own."""
    def text(value: object) -> str:
        return json.dumps(value, separators=(",", ":"))

    def lines(value: object) -> str:
        return "[\n" + ",\n".join(map(text, value)) + "\n]" if isinstance(value, list) and value else text(value)

    return "{" + ",\n".join(f"{text(name)}:{lines(value)}" for name, value in data.items()) + "}\n"


def here(root: Path, experiment: str) -> Path:
    """Where what is measured on this machine goes."""
    return root / "results" / f"{experiment}.json"


def published(root: Path, experiment: str) -> Path:
    """What the project's own figures stand on: measured once, and kept in the repository."""
    return root / "experiments" / experiment / "measured.json"


def load_all(root: Path, experiment: str) -> Results:
    """What was published, and in its place what was measured here, where it was."""
    everything, newer = load(published(root, experiment), experiment), load(here(root, experiment), experiment)
    for command in newer.commands:
        everything.put(newer.rows, command)
    return everything


def load(path: Path, experiment: str) -> Results:
    """The results in `path`; empty where there is no such file, or one of another format."""
    try:
        data = json.loads(path.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return Results(experiment)
    if data.get("format") != FORMAT or data.get("experiment") != experiment:
        return Results(experiment)
    return Results(experiment, [Row.from_json(row) for row in data["rows"]], data["commands"])


def _cell(row: Row, metric: str, digits: int) -> str:
    value = row.metrics.get(metric)
    return "–" if value is None else f"{value:.{digits}f}"


def table(experiment: Experiment, rows: list[Row], verdicts: list[Verdict]) -> str:
    """The rows as text: one line per scheduler and parameter, with what each missed."""
    varied = experiment.varied([row.point for row in rows])
    machines = sorted({(row.cpus, row.kernel) for row in rows})
    is_unusual = any(map(speed, rows))
    heads = ["scheduler", *(["CPUs", "kernel"] if len(machines) > 1 else []), *(["an instruction ns"] if is_unusual else []), *varied]
    heads += [f"{column.title} {column.unit}".strip() for column in experiment.columns]
    missed: dict[tuple, list[str]] = {}
    for verdict in verdicts:
        if verdict.passed is not True:
            missed.setdefault(verdict.key(), []).append(verdict.text)
    lines = []
    for row in rows:
        machine = [*([str(row.cpus), row.kernel] if len(machines) > 1 else []), *([str(row.instruction_ns)] if is_unusual else [])]
        cells = [label(row), *machine, *(str(row.point[name]) for name in varied)]
        cells += [_cell(row, column.metric, column.digits) for column in experiment.columns]
        notes = missed.get(row.key(), [])
        if row.failed and not notes:
            notes = [row.failed]
        lines.append((cells, "; ".join(notes)))
    widths = [max(len(line[0][i]) for line in [*lines, (heads, "")]) for i in range(len(heads))]
    text = [_line(heads, widths, "")]
    text += [_line(cells, widths, notes) for cells, notes in lines]
    return "\n".join(text)


def _line(cells: list[str], widths: list[int], note: str) -> str:
    padded = [cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in enumerate(zip(cells, widths))]
    return "  ".join(padded).rstrip() + (f"  <- {note}" if note else "")


def verdict_lines(verdicts: list[Verdict]) -> list[str]:
    """Per expectation, scheduler with its policy, and kernel: how many rows keep it, and why it is expected."""
    lines = []
    several = len(kernels_of(verdicts)) > 1
    groups: dict[tuple, list[Verdict]] = {}
    for verdict in verdicts:
        who = label(verdict) + (f" on {verdict.kernel}" if several else "") + (f" at {speed(verdict)}" if speed(verdict) else "")
        groups.setdefault((who, verdict.metric, verdict.reason), []).append(verdict)
    for (who, metric, reason), group in groups.items():
        kept = sum(1 for verdict in group if verdict.passed)
        word = "seen" if group[0].observation else "kept"
        lines.append(f"{'ok  ' if kept == len(group) else 'MISS'} {who}: {metric} {word} in {kept} of {len(group)} rows: {reason}")
    return lines


def judge_rows(experiment: Experiment, measured: list[Row], results: Results) -> list[Verdict]:
    """The verdicts on `measured`, compared with everything there is."""
    return judge(experiment, measured, results.rows)
