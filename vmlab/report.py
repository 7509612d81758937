# SPDX-License-Identifier: GPL-2.0-only
"""All results as one self-contained HTML page: per experiment the paper's claim beside ours, plots, the table, and the command."""

from __future__ import annotations

import html

from vmlab import plots, results
from vmlab.experiment import Experiment
from vmlab.judge import Row, Verdict, kernels_of, label, speed
from vmlab.results import Results

_STYLE = """
:root { --ink: #1d1d1f; --soft: #5f6368; --line: #e0e0e0; --good: #0b6e4f; --bad: #b3261e; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); max-width: 1180px; margin: 2rem auto; padding: 0 1rem; }
h1 { margin-bottom: 0; } h2 { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: 1.2rem; }
.soft { color: var(--soft); } .claim { border-left: 3px solid var(--line); padding-left: 1rem; margin: .6rem 0; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid var(--line); } th { font-weight: 600; }
td:first-child, th:first-child, td.text, th.text { text-align: left; }
.kept { color: var(--good); } .missed { color: var(--bad); } .wide { overflow-x: auto; }
figure { margin: 1rem 0; } figcaption { font-size: 13px; color: var(--soft); } svg { max-width: 100%; height: auto; }
code { background: #f4f4f4; padding: .1rem .3rem; } details summary { cursor: pointer; color: var(--soft); }
"""


def _escape(text: object) -> str:
    return html.escape(str(text))


def render(found: list[tuple[Experiment, Results]]) -> str:
    """The page. `found` is not empty."""
    judged = [(one, kept, results.judge_rows(one, kept.rows, kept)) for one, kept in found]
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>limelight: results</title><style>{_STYLE}</style>",
        "<h1>limelight: results</h1>",
        "<p class=soft>Measured in virtual machines in virtual time (an instruction takes 2 ns; with more than two CPUs 1, where a row says nothing else); "
        "each section names the command that made it.</p>",
        _summary(judged),
    ]
    parts += [_section(one, kept, verdicts) for one, kept, verdicts in judged]
    return "\n".join(parts) + "\n"


def _summary(judged: list[tuple[Experiment, Results, list[Verdict]]]) -> str:
    lines = ["<div class=wide><table><tr><th>experiment<th class=text>what it shows<th class=text>figure<th>limelight keeps"]
    for one, _, verdicts in judged:
        own = [verdict for verdict in verdicts if not verdict.observation]
        kept = sum(1 for verdict in own if verdict.passed)
        word = "<span class=soft>the paper's observation</span>"
        if own:
            word = f"<span class={'kept' if kept == len(own) else 'missed'}>{kept} of {len(own)}</span>"
        lines.append(
            f"<tr><td><a href='#{_escape(one.name)}'>{_escape(one.name)}</a><td class=text>{_escape(one.title)}"
            f"<td class=text>{_escape(one.paper_figure)}<td>{word}"
        )
    return "\n".join([*lines, "</table></div>"])


def _section(one: Experiment, kept: Results, verdicts: list[Verdict]) -> str:
    origin = f"{one.paper}, {one.paper_figure}" if one.paper else "limelight's own"
    parts = [
        f"<section id='{_escape(one.name)}'><h2>{_escape(one.title)} <span class=soft>({_escape(one.name)})</span></h2>",
        f"<div class=claim><span class=soft>{_escape(origin)}:</span> {_escape(one.claim)}</div>",
        "<ul>" + "".join(_verdict_line(line) for line in results.verdict_lines(verdicts)) + "</ul>",
    ]
    for caption, figure in plots.draw(one, kept.rows):
        parts.append(f"<figure>{plots.svg(figure)}<figcaption>{_escape(caption)}</figcaption></figure>")
        plots.close(figure)
    parts.append("<details><summary>all rows, with what was measured by what</summary>" + _sources(kept.rows) + _table(one, kept.rows, verdicts) + "</details>")
    parts.append("<p class=soft>made by " + ", ".join(f"<code>{_escape(command)}</code>" for command in kept.commands) + "</p></section>")
    return "\n".join(parts)


def _verdict_line(line: str) -> str:
    kind = "kept" if line.startswith("ok") else "missed"
    return f"<li class={kind}>{_escape(line)}"


def _sources(rows: list[Row]) -> str:
    sources = {f"{name.replace('_', ' ')}: {data['source']}" for row in rows for name, data in row.series.items()}
    lines = [*sorted(sources), "code: what limelight was made of then (scripts/code --find CODE names the commits)"]
    return "<p class=soft>" + "<br>".join(_escape(line) for line in lines) + "</p>"


def _table(one: Experiment, rows: list[Row], verdicts: list[Verdict]) -> str:
    varied = one.varied([row.point for row in rows])
    several = len(kernels_of(rows)) > 1
    heads = ["scheduler", "CPUs", *(["kernel"] if several else []), *varied]
    heads += [*(f"{column.title} {column.unit}".strip() for column in one.columns), "code", "missed"]
    lines = ["<div class=wide><table><tr>" + "".join(f"<th>{_escape(head)}" for head in heads)]
    for row in rows:
        misses = [v for v in verdicts if v.passed is not True and v.key() == row.key()]
        cells = [label(row), row.cpus, *([row.kernel] if several else []), *(row.point[name] for name in varied)]
        for column in one.columns:
            value = row.metrics.get(column.metric)
            spread = row.spread.get(column.metric)
            text = "–" if value is None else f"{value:.{column.digits}f}"
            cells.append(text + (f" ({spread[0]:.{column.digits}f}…{spread[1]:.{column.digits}f})" if spread else ""))
        cells.append(", ".join(filter(None, [row.code or "–", speed(row)])))
        note = "; ".join(v.text for v in misses) or row.failed
        lines.append("<tr>" + "".join(f"<td>{_escape(cell)}" for cell in cells) + f"<td class='text missed'>{_escape(note)}")
    return "\n".join([*lines, "</table></div>"])
