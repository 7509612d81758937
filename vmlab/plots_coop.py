# SPDX-License-Identifier: GPL-2.0-only
"""The figures of the papers on cooperative polling and on Redline: how late timers are, what each player gets, what it costs, a film by the second.

`plot` in experiment.toml has for kind
- `tardiness`: cumulative distributions, a row of panels per entry of `distributions` ({name = heading}), a line per scheduler and value of `lines`,
  a panel per value of `panels`, with its title of `titles` where there is one;
- `players`: a bar per player and scheduler, a row of panels per entry of `metrics` ({prefix = heading}), a panel per value of `panels`;
- `over`: lines over the values of `x`, a panel per entry of `metrics` ({metric = heading});
- `tradeoff`: a point per row, at its metrics `x` and `y` ({metric = heading} each), with its value of `label` beside it;
- `timeline`: a line per scheduler over the seconds, of the metrics `prefix`.1, .2 and so on, called `heading`, a panel per value of `panels`; grey is
  where something disturbs, from second `from` on, but for the last `after`;
- `seconds`: a panel per row, a line per player over the seconds, of the metrics `prefix`.PLAYER.SECOND, called `heading`; `names` is who they are.
"""

from __future__ import annotations

import math

from matplotlib.figure import Figure

from vmlab.experiment import Experiment
from vmlab.judge import Row, label
from vmlab.plots import LINE_STYLES, MARKERS, at, colour, pyplot, values_of
from vmlab.samples import Series

#: What a trace can tell apart; a release that found its thread running is drawn there.
LEAST_MS = 1e-3
FAIR = "#b3261e"
#: More lines than that are a crowd, and have no names.
LEGEND_LINES = 8


def _panels(rows: list[Row], plot: dict) -> list[tuple[str, list[Row]]]:
    name = plot.get("panels")
    if name is None:
        return [("", rows)]
    titles = {value: plot.get("titles", {}).get(str(value)) or (f"{name} {value}" if isinstance(value, int) else str(value)) for value in values_of(rows, name)}
    return [(title, at(rows, **{name: value})) for value, title in titles.items()]


def _keys(rows: list[Row], lines: str | None) -> list[str]:
    """How each row is called in the legend: limelight's with their value of `lines`, where there are several."""
    own = [row for row in rows if row.scheduler == "limelight"]
    several = lines is not None and len(values_of(own, lines)) > 1
    return [label(row) + (f", {lines}: {row.point[lines]}" if several and row.scheduler == "limelight" else "") for row in rows]


def _legend(figure: Figure, axes) -> None:
    handles: dict[str, object] = {}
    for axis in axes.flat:
        handles.update({name: handle for handle, name in zip(*axis.get_legend_handles_labels())})
    figure.legend(handles.values(), handles.keys(), loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=min(4, max(1, len(handles))))


def _head(axes, titles: list[str], headings: list[str], below: str) -> None:
    """Names the columns of a grid of panels above the first row, the rows beside the first column, and what is along all of them below the last."""
    for axis, title in zip(axes[0], titles):
        axis.set_title(title)
    for row, heading in zip(axes, headings):
        row[0].set_ylabel(heading)
    for axis in axes[-1]:
        axis.set_xlabel(below)


def tardiness(experiment: Experiment, rows: list[Row]) -> Figure:
    """Cumulative distributions of how late timers were, on a logarithmic axis, each ending in a dot at the worst: the paper's Figures 5, 6, 11, 12."""
    plot = experiment.plot
    panels = _panels(rows, plot)
    wanted = plot["distributions"]
    figure, axes = pyplot.subplots(
        len(wanted), len(panels), figsize=(1.2 + 3.3 * len(panels), 0.5 + 2.4 * len(wanted)), squeeze=False, sharey=True, sharex=True
    )
    names = dict(zip(map(id, rows), _keys(rows, plot.get("lines"))))
    keys = list(dict.fromkeys(names.values()))
    for down, series in enumerate(wanted):
        for across, (_, mine) in enumerate(panels):
            axis = axes[down][across]
            for row in mine:
                _curve(axis, row, series, names[id(row)], keys)
            axis.set_xscale("log")
            axis.xaxis.set_major_formatter("{x:g}")
            axis.set_ylim(0, 103)
            if "limit" in plot:
                axis.axvline(plot["limit"], color=FAIR, linewidth=0.9, linestyle=(0, (4, 3)))
    _head(axes, [title for title, _ in panels], [f"{heading}\n% of the timers" for heading in wanted.values()], "ms after the release")
    _legend(figure, axes)
    figure.tight_layout()
    return figure


def _curve(axis, row: Row, series: str, key: str, keys: list[str]) -> None:
    if not row.series.get(series, {}).get("count"):
        return
    points = Series.from_json(row.series[series]).cdf()
    tone = colour(row.scheduler)
    same = [other for other in keys if other.split(",")[0] == key.split(",")[0]]
    axis.step(
        [max(value, LEAST_MS) for value, _ in points], [share for _, share in points], where="post", color=tone,
        linestyle=LINE_STYLES[same.index(key) % 4], linewidth=1.5, label=key,
    )
    axis.plot(max(row.series[series]["max"], LEAST_MS), 100, "o", color=tone, markersize=5, clip_on=False)


def players(experiment: Experiment, rows: list[Row]) -> Figure:
    """What each player got, side by side: the paper's Figures 7, 8 and 10."""
    plot = experiment.plot
    panels = _panels(rows, plot)
    wanted = plot["metrics"]
    names = dict(zip(map(id, rows), _keys(rows, plot.get("lines"))))
    keys = list(dict.fromkeys(names.values()))
    figure, axes = pyplot.subplots(
        len(wanted), len(panels), figsize=(1.2 + max(3.2, 0.55 * len(keys) + 2.2) * len(panels), 0.5 + 2.3 * len(wanted)), squeeze=False, sharey="row"
    )
    for down, prefix in enumerate(wanted):
        for across, (_, mine) in enumerate(panels):
            axis = axes[down][across]
            present = [key for key in keys if any(names[id(row)] == key for row in mine)]
            for row in mine:
                _bars_of(axis, row, prefix, present.index(names[id(row)]), present)
            axis.grid(axis="x", visible=False)
    _head(axes, [title for title, _ in panels], list(wanted.values()), "player")
    _legend(figure, axes)
    figure.tight_layout()
    return figure


def _bars_of(axis, row: Row, prefix: str, place: int, keys: list[str]) -> None:
    found = []
    while f"{prefix}.{len(found) + 1}" in row.metrics:
        found.append(row.metrics[f"{prefix}.{len(found) + 1}"])
    width = 0.8 / max(1, len(keys))
    shades = [key for key in keys if key.split(",")[0] == keys[place].split(",")[0]]
    strength = 1.0 - 0.45 * shades.index(keys[place]) / max(1, len(shades) - 1)
    places = [number + (place - (len(keys) - 1) / 2) * width for number in range(len(found))]
    axis.bar(places, found, width * 0.92, color=colour(row.scheduler), alpha=strength, label=keys[place])
    axis.set_xticks(range(len(found)), [str(number + 1) for number in range(len(found))])


def over(experiment: Experiment, rows: list[Row]) -> Figure:
    """Metrics over the values of one parameter: the paper's Figure 13."""
    plot = experiment.plot
    wanted = plot["metrics"]
    figure, axes = pyplot.subplots(1, len(wanted), figsize=(0.8 + 3.5 * len(wanted), 3.0), squeeze=False)
    names = dict(zip(map(id, rows), _keys(rows, plot.get("lines"))))
    keys = list(dict.fromkeys(names.values()))
    for axis, (metric, heading) in zip(axes[0], wanted.items()):
        for key in keys:
            mine = sorted((row for row in rows if names[id(row)] == key and metric in row.metrics), key=lambda row: row.point[plot["x"]])
            same = [other for other in keys if other.split(",")[0] == key.split(",")[0]]
            style = same.index(key)
            axis.plot(
                [row.point[plot["x"]] for row in mine], [row.metrics[metric] for row in mine], color=colour(key.split(",")[0].split()[0]),
                linestyle=LINE_STYLES[style % 4], marker=MARKERS[style % 7], markersize=4, label=key,
            )
        if metric in plot.get("logarithmic", []):
            axis.set_yscale("log")
            axis.yaxis.set_major_formatter("{x:g}")
        else:
            axis.set_ylim(bottom=0)
        axis.set_title(heading)
        axis.set_xlabel(plot.get("x_heading", plot["x"]))
    _legend(figure, axes)
    figure.tight_layout()
    return figure


def tradeoff(experiment: Experiment, rows: list[Row]) -> Figure:
    """One metric against another, both on logarithmic axes: what is bought with what (section 5.7)."""
    plot = experiment.plot
    ((x, x_heading),) = plot["x"].items()
    ((y, y_heading),) = plot["y"].items()
    figure, axes = pyplot.subplots(1, 1, figsize=(5.4, 3.6), squeeze=False)
    axis = axes[0][0]
    for key in dict.fromkeys(label(row) for row in rows):
        mine = sorted((row for row in rows if label(row) == key and x in row.metrics and y in row.metrics), key=lambda row: row.metrics[x])
        axis.plot(
            [row.metrics[x] for row in mine], [row.metrics[y] for row in mine], color=colour(key.split()[0]), marker="o", markersize=5, label=key,
            linewidth=1.0,
        )
        for place, row in enumerate(mine):
            name = plot["names"].get(str(row.point[plot["label"]]), f"{row.point[plot['label']]} {plot['unit']}")
            # On this side of the line and on that, in turn: the shortest are close together.
            above = place % 2 == 0
            axis.annotate(
                name, (row.metrics[x], row.metrics[y]), xytext=(6, 4) if above else (-6, -4), textcoords="offset points", fontsize=8,
                ha="left" if above else "right", va="bottom" if above else "top", color=colour(key.split()[0]),
            )
    for scale, limits in ((axis.xaxis, axis.set_xlim), (axis.yaxis, axis.set_ylim)):
        values = [row.metrics[x if scale is axis.xaxis else y] for row in rows if x in row.metrics and y in row.metrics]
        (axis.set_xscale if scale is axis.xaxis else axis.set_yscale)("log")
        scale.set_major_formatter("{x:g}")
        if values:
            limits(10 ** math.floor(math.log10(min(values) / 1.2)), 10 ** math.ceil(math.log10(max(values) * 1.2)))
    axis.set_xlabel(x_heading)
    axis.set_ylabel(y_heading)
    _legend(figure, axes)
    figure.tight_layout()
    return figure


def timeline(experiment: Experiment, rows: list[Row]) -> Figure:
    """Something counted every second: Redline's Figures 1, 5 and 6."""
    plot = experiment.plot
    panels = _panels(rows, plot)
    figure, axes = pyplot.subplots(1, len(panels), figsize=(1.0 + 4.2 * len(panels), 2.8), squeeze=False, sharey=True)
    names = dict(zip(map(id, rows), _keys(rows, plot.get("lines"))))
    keys = list(dict.fromkeys(names.values()))
    for axis, (_, mine) in zip(axes[0], panels):
        for row in mine:
            found = []
            while f"{plot['prefix']}.{len(found) + 1}" in row.metrics:
                found.append(row.metrics[f"{plot['prefix']}.{len(found) + 1}"])
            style = keys.index(names[id(row)]) if "lines" in plot else 0
            axis.plot(range(1, len(found) + 1), found, color=colour(row.scheduler), linestyle=LINE_STYLES[style % 4], label=names[id(row)])
        if "from" in plot and mine:
            axis.axvspan(plot["from"], len(found) + 1 - plot.get("after", 0), color="#eeeeee", zorder=0)
        axis.set_ylim(bottom=0)
    _head(axes, [title for title, _ in panels], [plot["heading"]], "s")
    _legend(figure, axes)
    figure.tight_layout()
    return figure


def seconds(experiment: Experiment, rows: list[Row]) -> Figure:
    """Several players, each by the second: the cooperative polling paper's Figures 8 and 9."""
    plot = experiment.plot
    figure, axes = pyplot.subplots(1, len(rows), figsize=(1.0 + 3.4 * len(rows), 2.8), squeeze=False, sharey=True)
    tones = pyplot.get_cmap("viridis")
    for axis, row in zip(axes[0], rows):
        players = _of_players(row, plot["prefix"])
        for number, found in enumerate(players):
            name = plot["names"][number] if "names" in plot else f"player {number + 1}"
            tone = tones(0.92 * number / max(1, len(players) - 1))
            axis.plot(range(1, len(found) + 1), found, color=tone, linewidth=1.2, label=name if len(players) <= LEGEND_LINES else None)
        axis.set_ylim(bottom=0)
        varied = [f"{value} {name}" for name, value in row.point.items() if len(values_of(rows, name)) > 1 and isinstance(value, str)]
        axis.set_title(", ".join([label(row), *varied]), fontsize=9)
    _head(axes, [], [plot["heading"]], "s")
    _legend(figure, axes)
    figure.tight_layout()
    return figure


def _of_players(row: Row, prefix: str) -> list[list[float]]:
    found: list[list[float]] = []
    while f"{prefix}.{len(found) + 1}.1" in row.metrics:
        number = len(found) + 1
        found.append([])
        while f"{prefix}.{number}.{len(found[-1]) + 1}" in row.metrics:
            found[-1].append(row.metrics[f"{prefix}.{number}.{len(found[-1]) + 1}"])
    return found


KINDS = {"seconds": seconds, "timeline": timeline, "tardiness": tardiness, "players": players, "over": over, "tradeoff": tradeoff}
