# SPDX-License-Identifier: GPL-2.0-only
"""Draws results in the manner of the paper's figure.

Colours belong to schedulers everywhere, line styles to loads, so that two plots can be read side by side.
"""

from __future__ import annotations

import io
from pathlib import Path

import matplotlib

matplotlib.use("svg")
# The same input gives the same file, and text stays text.
matplotlib.rcParams.update({
    "svg.hashsalt": "limelight", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 9,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": "#e4e4e4", "grid.linewidth": 0.6,
    "axes.axisbelow": True, "axes.edgecolor": "#888888", "axes.titlesize": 10, "legend.frameon": False, "legend.fontsize": 8,
})

from matplotlib import pyplot  # noqa: E402  (the back end is chosen before)
from matplotlib.figure import Figure  # noqa: E402

from vmlab.experiment import Experiment  # noqa: E402
from vmlab.judge import Row, kernels_of, label, speed  # noqa: E402
from vmlab.samples import Series  # noqa: E402

SCHEDULER_COLOURS = {
    "limelight": "#0b6e4f", "eevdf": "#444444", "scx_bpfland": "#c1666b", "scx_lavd": "#4f6d9a", "rr": "#b8860b", "deadline": "#7a4b94",
}
OTHER_COLOURS = ["#8a5a00", "#7a4b94", "#2a9d8f", "#9a9a00"]
LINE_STYLES = ["-", "--", ":", "-."]
MARKERS = ["o", "s", "^", "D", "v", "P", "X"]
#: The stacked shares of a film plot, from the bottom up, as in HuC's Figures 1 and 7.
SHARES = (("player_cpu_pct", "player", "#0b6e4f"), ("x_cpu_pct", "X server", "#8fc1a9"), ("load_cpu_pct", "load", "#d9d4c7"))
STACK_COLOURS = ["#0b6e4f", "#8fc1a9", "#c9b27c"]
NAMES = {
    "film_cpu_pct": "player and X server", "app_cpu_pct": "application", "x_cpu_pct": "X server", "huc_share_pct": "for the person",
    "other_share_pct": "others", "fps_over": "on top", "fps_under": "below", "wake_ns": "wake-up and switch",
    "switch_ns": "switch alone", "voluntary_pct": "voluntary", "helper_cpu_pct": "helper", "daemon_cpu_pct": "daemon",
    "yield_ns": "sched_yield", "registered_ns": "more of a registered thread", "call_of_library_ns": "more of a call, and the library",
}


def colour(scheduler: str) -> str:
    """The scheduler's colour; stable for one that is not listed."""
    return SCHEDULER_COLOURS.get(scheduler) or OTHER_COLOURS[sum(map(ord, scheduler)) % len(OTHER_COLOURS)]


def values_of(rows: list[Row], name: str) -> list:
    """The values of a parameter, in the order they were measured."""
    return list(dict.fromkeys(row.point[name] for row in rows if name in row.point))


def at(rows: list[Row], **point: object) -> list[Row]:
    """The rows with these values of parameters."""
    return [row for row in rows if all(row.point.get(name) == value for name, value in point.items())]


def _with_unloaded(rows: list[Row], load: object) -> list[Row]:
    """The rows of one load, and the unloaded ones every load starts from."""
    return [row for row in rows if row.point.get("load") in (load, "none")]


def svg(figure: Figure) -> str:
    """The figure as an SVG element to put into a page."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def save_png(figure: Figure, path: Path) -> None:
    """Writes the figure as a picture."""
    figure.savefig(path, format="png", dpi=110, bbox_inches="tight", metadata={"Software": None})


def close(figure: Figure) -> None:
    """Gives the figure's memory back."""
    pyplot.close(figure)


def _categories(axis, values: list) -> list[int]:
    """Uneven numbers (0, 4, 10, 100, 1000) at even distances: each is a measurement of its own."""
    axis.set_xticks(range(len(values)), [f"{value:,}" if isinstance(value, int) else str(value) for value in values])
    return list(range(len(values)))


def film(experiment: Experiment, rows: list[Row], title: str = "", names: dict[str, str] | None = None) -> Figure:
    """CPU shares stacked over the number of background processes, frame loss as a line: HuC's Figure 1 and 7.
    One panel per scheduler (across) and load (down); `title` is above all, and `names` has schedulers called otherwise."""
    loads = [load for load in values_of(rows, "load") if load != "none"] or ["none"]
    schedulers = list(dict.fromkeys(label(row) for row in rows))
    figure, axes = pyplot.subplots(
        len(loads), len(schedulers), figsize=(1.2 + 2.7 * len(schedulers), 0.6 + 2.1 * len(loads)), squeeze=False, sharey=True
    )
    for line, load in enumerate(loads):
        for column, scheduler in enumerate(schedulers):
            mine = sorted(
                (row for row in _with_unloaded(rows, load) if label(row) == scheduler), key=lambda row: row.point["count"]
            )
            _film_panel(axes[line][column], mine)
            axes[line][column].set_title((names or {}).get(scheduler, scheduler) if line == 0 else "", color=colour(scheduler.split()[0]), fontweight="bold")
            if column == 0:
                axes[line][column].set_ylabel(f"{load}\n% of the CPUs")
            if line == len(loads) - 1:
                axes[line][column].set_xlabel("background processes per CPU")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(labels))
    figure.tight_layout()
    if title:  # above the legend, and after what fits the panels under a title
        figure.suptitle(title, y=1.1, va="bottom", fontweight="bold")
    return figure


def _film_panel(axis, rows: list[Row]) -> None:
    places = _categories(axis, [row.point["count"] for row in rows])
    bottoms = [0.0] * len(rows)
    for metric, name, fill in SHARES:
        heights = [row.metrics.get(metric, 0.0) / row.cpus for row in rows]
        axis.bar(places, heights, 0.72, bottom=bottoms, color=fill, label=name)
        bottoms = [bottom + height for bottom, height in zip(bottoms, heights)]
    loss = [row.metrics.get("frame_loss_pct") for row in rows]
    axis.plot(places, loss, color="#b3261e", marker="o", markersize=4, linewidth=1.6, label="frame loss (% of frames due)", clip_on=False)
    for place, row in zip(places, rows):
        if row.failed:
            axis.text(place, 50, row.failed.partition(":")[0], rotation=90, ha="center", va="center", fontsize=8, color="#b3261e")
    axis.set_ylim(0, 100)


def latency(experiment: Experiment, rows: list[Row]) -> Figure:
    """A metric over the number of background processes, one panel per kind of line, on a logarithmic axis where it is a time:
    HuC's Figures 4 and 9."""
    plot = experiment.plot
    split = plot["lines"]
    panels = [value for value in values_of(rows, split) if value != "none"] or values_of(rows, split)
    # What else was varied becomes lines of its own style.
    styles = [
        name for name in experiment.varied([row.point for row in rows]) if name not in (plot["x"], split)
    ]
    figure, axes = pyplot.subplots(1, len(panels), figsize=(1.0 + 2.7 * len(panels), 3.0), squeeze=False, sharey=True)
    counts = sorted(values_of(rows, plot["x"]))
    for axis, panel in zip(axes[0], panels):
        mine = _with_unloaded(rows, panel) if split == "load" else at(rows, **{split: panel})
        _latency_panel(axis, mine, experiment, counts, styles)
        axis.set_title(str(panel))
        axis.set_xlabel("background processes per CPU")
    axes[0][0].set_ylabel(f"{_metric_name(experiment)}, {plot['unit']}")
    handles: dict[str, object] = {}
    for axis in axes[0]:
        handles.update({name: handle for handle, name in zip(*axis.get_legend_handles_labels())})
    figure.legend(handles.values(), handles.keys(), loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=min(4, max(1, len(handles))))
    figure.tight_layout()
    return figure


def _metric_name(experiment: Experiment) -> str:
    metric = experiment.plot["metric"]
    column = next((column for column in experiment.columns if column.metric == metric), None)
    return metric.replace(".", " ").replace("_", " ") if "." in metric or column is None else column.title


def _latency_panel(axis, rows: list[Row], experiment: Experiment, counts: list, styles: list[str]) -> None:
    plot = experiment.plot
    _categories(axis, counts)
    combinations = list(dict.fromkeys(_style_of(row, styles) for row in rows))
    named = sorted(set(combinations) - {()})
    for scheduler in dict.fromkeys(label(row) for row in rows):
        own = [row for row in rows if label(row) == scheduler]
        for combination in dict.fromkeys(_style_of(row, styles) for row in own):
            # An unloaded row is the start of every load's line.
            line = [row for row in own if _style_of(row, styles) == combination or row.point.get("load") == "none" and
                    _style_of(row, [s for s in styles if s != "load"]) == tuple(v for s, v in zip(styles, combination) if s != "load")]
            if all(row.point.get("load") == "none" for row in line) and len(combinations) > 1 and "load" in styles:
                continue
            line = sorted(line, key=lambda row: row.point[plot["x"]])
            style = named.index(combination) if combination in named else 0
            axis.plot(
                [counts.index(row.point[plot["x"]]) for row in line],
                [row.metrics.get(plot["metric"]) for row in line],
                color=colour(scheduler.split()[0]), linestyle=LINE_STYLES[style % 4], marker=MARKERS[style % 7], markersize=4,
                label=" ".join([scheduler, *map(str, combination)]),
            )
            for row in (row for row in line if row.failed):
                axis.text(
                    counts.index(row.point[plot["x"]]), 0.97, f"{scheduler} {row.failed.partition(':')[0]}", rotation=90, ha="center",
                    va="top", fontsize=7, color=colour(scheduler.split()[0]), transform=axis.get_xaxis_transform(),
                )
    if plot["unit"] in ("ms", "us"):
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter("{x:g}")
    else:
        axis.set_ylim(bottom=0)
    if "limit" in plot:
        axis.axhline(plot["limit"], color="#b3261e", linewidth=0.9, linestyle=(0, (4, 3)))
        axis.text(0, plot["limit"], f"{plot['limit']:g} {plot['unit']}", color="#b3261e", fontsize=8, va="bottom")


def _style_of(row: Row, styles: list[str]) -> tuple:
    return tuple(row.point[name] for name in styles)


def cdf(rows: list[Row], series: str, split: str, unit: str) -> Figure:
    """Cumulative distributions on a logarithmic axis, one panel per scheduler: HuC's Figure 3."""
    schedulers = list(dict.fromkeys(label(row) for row in rows))
    figure, axes = pyplot.subplots(1, len(schedulers), figsize=(1.0 + 3.4 * len(schedulers), 3.0), squeeze=False, sharey=True, sharex=True)
    palette = pyplot.get_cmap("tab10")
    values = values_of(rows, split)
    for axis, scheduler in zip(axes[0], schedulers):
        for row in (row for row in rows if label(row) == scheduler and row.series.get(series, {}).get("count")):
            points = Series.from_json(row.series[series]).cdf()
            place = values.index(row.point[split])
            axis.step(
                [max(value, 1e-3) for value, _ in points], [share for _, share in points], where="post",
                color=palette(place % 10), linestyle=LINE_STYLES[place % 4], label=str(row.point[split]),
            )
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter("{x:g}")
        axis.set_title(scheduler)
        axis.set_xlabel(f"{series.replace('_', ' ')}, {unit}")
        axis.set_ylim(0, 101)
    axes[0][0].set_ylabel("% of samples")
    axes[0][-1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.tight_layout()
    return figure


def bars(experiment: Experiment, rows: list[Row]) -> Figure:
    """Stacked bars per value of one parameter, the schedulers side by side: HuC's Figures 2, 8 and 10."""
    plot = experiment.plot
    values = values_of(rows, plot["x"])
    schedulers = list(dict.fromkeys(label(row) for row in rows))
    figure, axis = pyplot.subplots(figsize=(2.0 + 0.75 * len(values) * max(1, len(schedulers) * 0.6), 3.0))
    width = 0.8 / len(schedulers)
    for position, scheduler in enumerate(schedulers):
        mine = [row for row in rows if label(row) == scheduler]
        places = [values.index(row.point[plot["x"]]) + (position - (len(schedulers) - 1) / 2) * width for row in mine]
        bottoms = [0.0] * len(mine)
        for level, metric in enumerate(plot["stack"]):
            heights = [_bar_height(row, metric, rows, plot.get("relative")) for row in mine]
            single = len(plot["stack"]) == 1
            axis.bar(
                places, heights, width * 0.92, bottom=bottoms,
                color=colour(scheduler.split()[0]) if single else STACK_COLOURS[level % 3],
                edgecolor=colour(scheduler.split()[0]), linewidth=0 if single else 1.0,
                label=scheduler if single else NAMES.get(metric, metric) if position == 0 else None,
            )
            bottoms = [bottom + height for bottom, height in zip(bottoms, heights)]
        if len(plot["stack"]) > 1 and len(schedulers) > 1:
            for place, top in zip(places, bottoms):
                axis.text(place, top, f" {scheduler}", rotation=90, ha="center", va="bottom", fontsize=7, color=colour(scheduler.split()[0]))
    # One value is no axis.
    axis.set_xticks(range(len(values)) if len(values) > 1 else [], [str(value) for value in values] if len(values) > 1 else [])
    axis.set_xlabel(plot["x"] if len(values) > 1 else "")
    axis.set_ylabel(plot["unit"])
    axis.margins(y=0.25 if len(plot["stack"]) > 1 and len(schedulers) > 1 else 0.05)
    axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    axis.grid(axis="x", visible=False)
    return figure


def _bar_height(row: Row, metric: str, rows: list[Row], relative: str | None) -> float:
    value = row.metrics.get(metric, 0.0)
    if not relative:
        return value
    base = next((other for other in rows if other.scheduler == relative and other.point == row.point), None)
    return value / base.metrics[metric] if base and base.metrics.get(metric) else 0.0


def draw(experiment: Experiment, rows: list[Row]) -> list[tuple[str, Figure]]:
    """Every plot of an experiment with its caption: one set per machine and value of what the plot has no axis for."""
    drawn = []
    several = len(kernels_of(rows)) > 1
    for cpus, kernel, fast in sorted({(row.cpus, row.kernel, speed(row)) for row in rows}):
        mine = [row for row in rows if (row.cpus, row.kernel, speed(row)) == (cpus, kernel, fast)]
        caption = f"{cpus} CPU{'s' if cpus > 1 else ''}" + (f", {fast}" if fast else "") + (f", kernel {kernel}" if several else "")
        for extra, part in _parts(experiment, mine):
            drawn += [(", ".join(filter(None, [caption, extra, more])), figure) for more, figure in _draw_part(experiment, part)]
    return drawn


def _parts(experiment: Experiment, rows: list[Row]) -> list[tuple[str, list[Row]]]:
    """The rows split by a parameter for which a film or latency plot has neither axis nor panel (the film's size, what is active)."""
    plot = experiment.plot
    if plot["kind"] not in ("film", "latency", "cdf", "bars"):
        split = plot.get("split")
        return [(f"{split} {value}", at(rows, **{split: value})) for value in values_of(rows, split)] if split else [("", rows)]
    if plot["kind"] == "latency" and plot["lines"] != "load":
        split = None  # the load is told by line style there
    else:
        used = {plot.get("x"), plot.get("lines"), "load", "count"}
        split = next((name for name in experiment.varied([row.point for row in rows]) if name not in used), None)
    if split is None or plot["kind"] in ("cdf", "bars"):
        return [("", rows)]
    return [(f"{split} {value}", at(rows, **{split: value})) for value in values_of(rows, split)]


def _draw_part(experiment: Experiment, rows: list[Row]) -> list[tuple[str, Figure]]:
    from vmlab import plots_coop  # it draws with what is here

    plot = experiment.plot
    if plot["kind"] in plots_coop.KINDS:
        return [("", plots_coop.KINDS[plot["kind"]](experiment, rows))]
    if plot["kind"] == "film":
        return [("", film(experiment, rows))]
    if plot["kind"] == "cdf":
        return [("", cdf(rows, plot["series"], plot["lines"], plot["unit"]))]
    if plot["kind"] == "bars":
        return [("", bars(experiment, rows))]
    drawn = [("", latency(experiment, rows))]
    if "cdf" in plot and any(row.series.get(plot["cdf"], {}).get("count") for row in rows):
        worst = max(row.point["count"] for row in rows)
        drawn.append((f"{worst:,} background processes per CPU", cdf(at(rows, count=worst), plot["cdf"], "load", "ms")))
    return drawn
