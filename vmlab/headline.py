# SPDX-License-Identifier: GPL-2.0-only
"""The one picture and the one table of README.md: what a person notices beside ten background processes of every kind, per scheduler.

Made from the results like the report, so that neither says what was not measured. One CPU, because there nobody can step aside.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from vmlab import kernels, payload, plots
from vmlab.experiment import Point
from vmlab.judge import Row, label
from vmlab.plots import pyplot

LOADS = ("none", "spinning", "bursty", "chatty", "make")
COUNT = 10
CPUS = 1


@dataclass(frozen=True)
class Panel:
    """One figure of the headline: a metric of an experiment at a point, for every load and scheduler."""

    experiment: str
    title: str
    metric: str
    unit: str
    point: Point
    digits: int
    logarithmic: bool = False


PANELS = (
    Panel("film", "frames of a film lost", "frame_loss_pct", "%", {"film": "small"}, 1),
    Panel("dispatch-latency", "dispatch latency, p99", "dispatch.p99", "ms", {"active": "animated"}, 2, True),
    Panel("key-to-screen", "key to screen, p99", "key_to_screen.p99", "ms", {"editor": "xclient"}, 1, True),
)


def _belongs(row: Row) -> bool:
    return row.cpus == CPUS and row.kernel == kernels.DEFAULT


def _row(rows: list[Row], panel: Panel, scheduler: str, load: str) -> Row | None:
    wanted = {**panel.point, "load": load, "count": 0 if load == "none" else COUNT}
    for row in rows:
        if label(row) == scheduler and _belongs(row) and wanted.items() <= row.point.items():
            return row
    return None


def _schedulers(rows: list[Row]) -> list[str]:
    """limelight last: what it stands beside is read first. A yardstick is nothing that a person can use."""
    found = dict.fromkeys(label(row) for row in rows if _belongs(row) and row.scheduler not in payload.YARDSTICKS)
    return sorted(found, key=lambda name: (name == "limelight", list(found).index(name)))


def table(results: dict[str, list[Row]]) -> str:
    """The figures as a table in Markdown; an en dash where nothing was measured."""
    lines = ["| | beside | " + " | ".join(names := _schedulers([row for rows in results.values() for row in rows])) + " |"]
    lines.append("|---" * (2 + len(names)) + "|")
    for panel in PANELS:
        for load in LOADS:
            found = [_row(results.get(panel.experiment, []), panel, name, load) for name in names]
            if any(found):
                cells = [_cell(row, panel) for row in found]
                beside = "nothing" if load == "none" else f"{COUNT} {load}"
                lines.append(f"| {panel.title} | {beside} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(row: Row | None, panel: Panel) -> str:
    if row is None:
        return "–"
    if row.failed or panel.metric not in row.metrics:
        return row.failed.partition(":")[0] or "–"
    return f"{row.metrics[panel.metric]:.{panel.digits}f} {panel.unit}"


def picture(results: dict[str, list[Row]]) -> Figure:
    """A panel per figure, a group of bars per load, a bar per scheduler."""
    panels = [panel for panel in PANELS if results.get(panel.experiment)]
    figure, axes = pyplot.subplots(1, len(panels), figsize=(3.6 * len(panels), 2.9), squeeze=False)
    for axis, panel in zip(axes[0], panels):
        _panel(axis, panel, results[panel.experiment])
    handles = {name: handle for axis in axes[0] for handle, name in zip(*axis.get_legend_handles_labels())}
    figure.legend(handles.values(), handles.keys(), loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(handles))
    figure.supxlabel(f"beside {COUNT} background processes on one CPU", fontsize=9)
    figure.tight_layout()
    return figure


def _panel(axis, panel: Panel, rows: list[Row]) -> None:
    schedulers = _schedulers(rows)
    width = 0.8 / len(schedulers)
    for position, scheduler in enumerate(schedulers):
        tone = plots.colour(scheduler.split()[0])
        places = [index + (position - (len(schedulers) - 1) / 2) * width for index in range(len(LOADS))]
        found = [_row(rows, panel, scheduler, load) for load in LOADS]
        shown = [(place, row.metrics[panel.metric]) for place, row in zip(places, found) if row and not row.failed and panel.metric in row.metrics]
        axis.bar([place for place, _ in shown], [value for _, value in shown], width * 0.92, color=tone, label=scheduler)
        for place, row in zip(places, found):
            if row and row.failed:
                axis.text(place, 0.03, row.failed.partition(":")[0], rotation=90, ha="center", fontsize=7, color=tone, transform=axis.get_xaxis_transform())
            elif row and not panel.logarithmic and row.metrics.get(panel.metric) == 0:
                axis.plot(place, 0, marker="_", markersize=6, color=tone)
    if panel.logarithmic:
        least = min((row.metrics[panel.metric] for row in rows if row.metrics.get(panel.metric)), default=1.0)
        axis.set_yscale("log")
        # A bar has no natural foot here: the power of ten below the least figure.
        axis.set_ylim(bottom=10 ** math.floor(math.log10(least / 1.5)))
        axis.yaxis.set_major_formatter("{x:g}")
    axis.set_xticks(range(len(LOADS)), ["nothing", *LOADS[1:]])
    axis.set_title(f"{panel.title} ({panel.unit})")
    axis.grid(axis="x", visible=False)


def save(results: dict[str, list[Row]], path: Path) -> None:
    """Writes the picture, as .png or .svg."""
    figure = picture(results)
    if path.suffix == ".svg":
        path.write_text(plots.svg(figure) + "\n")
    else:
        plots.save_png(figure, path)
    plots.close(figure)
