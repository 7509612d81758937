# SPDX-License-Identifier: GPL-2.0-only
"""The page: every experiment's plots can be drawn, and what was missed is shown as missed."""

import dataclasses
from pathlib import Path

import pytest

from vmlab import cli, commands, demo, experiment, headline, plots, report, results, samples
from vmlab.judge import Row
from vmlab.results import Results

matplotlib = pytest.importorskip("matplotlib")

ROOT = Path(__file__).resolve().parent.parent.parent


def rows_for(one: experiment.Experiment, value: float) -> list[Row]:
    """A row for every point of the quick form, all metrics of the columns and the plot set to `value`."""
    names = {column.metric for column in one.columns} | set(one.plot.get("stack", []))
    names |= {one.plot[key] for key in ("metric",) if key in one.plot}
    for key in ("metrics", "x", "y"):
        # Of each player, where it is a figure per player.
        names |= {f"{name}{number}" for name in one.plot[key] for number in ("", ".1", ".2")} if isinstance(one.plot.get(key), dict) else set()
    drawn = [*(one.plot[key] for key in ("cdf", "series") if key in one.plot), *one.plot.get("distributions", {})]
    series = {name: samples.Series.of([value, 2 * value], "ms", "a test").to_json() for name in drawn}
    return [
        Row(scheduler, "", 1, "7.2", point, dict.fromkeys(names, value), {}, series, 1)
        for scheduler in one.schedulers
        for point in one.points(True, [])
    ]


@pytest.mark.parametrize("folder", experiment.folders(ROOT), ids=lambda folder: folder.name)
def test_every_experiment_can_be_drawn(folder):
    """A section with claim, plot, table, command and source comes out for every experiment of the repository."""
    one = experiment.load(folder)
    page = report.render([(one, Results(one.name, rows_for(one, 0.5), [f"./lab run {one.name}"]))])
    assert "<svg" in page
    assert f"./lab run {one.name}" in page
    assert one.title.split()[0] in page


def test_misses_are_shown_as_misses():
    """A figure beyond its bound is marked, with the figure and the bound."""
    one = experiment.find(ROOT, "own-cpu")
    good = report.render([(one, Results(one.name, rows_for(one, 0.5), []))])
    bad = report.render([(one, Results(one.name, rows_for(one, 7.0), []))])
    assert "<span class=kept>1 of 1</span>" in good
    assert "<span class=missed>0 of 1</span>" in bad
    assert "helper_cpu_pct = 7, at most 1" in bad


def on_two_kernels_with_two_policies() -> tuple[experiment.Experiment, list[Row]]:
    """One point, kept on 7.2 by the policy that is limelight's own, and missed on 6.18 and by another policy."""
    one = experiment.find(ROOT, "own-cpu")
    good, bad = (rows_for(one, value)[0] for value in (0.5, 7.0))
    return one, [good, dataclasses.replace(bad, kernel="6.18"), dataclasses.replace(bad, policy="huc")]


def test_a_miss_is_that_of_its_kernel_and_policy():
    """Of rows that differ in kernel or policy alone those that missed say so, and no others, in the page and in the printed table; each is told apart."""
    one, rows = on_two_kernels_with_two_policies()
    kept = Results(one.name, rows)
    told = results.table(one, rows, results.judge_rows(one, rows, kept)).splitlines()[1:]
    page = report.render([(one, kept)]).partition("<details>")[2].split("<tr>")[2:]
    for lines in (told, page):
        assert ["at most" in line for line in lines] == [False, True, True]
        assert ["6.18" in line for line in lines] == [False, True, False] and ["(huc)" in line for line in lines] == [False, False, True]


def test_each_kernel_and_policy_has_its_own_count():
    """What one kernel or policy misses is not in the count of another's."""
    one, rows = on_two_kernels_with_two_policies()
    lines = results.verdict_lines(results.judge_rows(one, rows, Results(one.name, rows)))
    assert [line.partition(" rows")[0] for line in lines if "helper_cpu_pct" in line] == [
        "ok   limelight on 7.2: helper_cpu_pct kept in 1 of 1",
        "MISS limelight on 6.18: helper_cpu_pct kept in 0 of 1",
        "MISS limelight (huc) on 7.2: helper_cpu_pct kept in 0 of 1",
    ]


def test_a_plot_is_of_one_kernel():
    """No line joins what was measured on two kernels: each has a plot of its own, that says which. Where there is one, nothing has to be said."""
    one = experiment.find(ROOT, "key-to-screen")
    rows = rows_for(one, 0.5)
    both = [*rows, *(dataclasses.replace(row, kernel="6.18") for row in rows)]
    alone, drawn = ([caption for caption, _ in plots.draw(one, found)] for found in (rows, both))
    assert not any("kernel" in caption for caption in alone)
    assert [sum(f"kernel {kernel}" in caption for caption in drawn) for kernel in ("6.18", "7.2")] == [len(alone), len(alone)]


def test_who_was_ejected_is_named_in_the_plot():
    """A point without a figure, because the scheduler was thrown out there, is not just missing from a line."""
    one = experiment.find(ROOT, "key-to-screen")
    rows = [row for row in rows_for(one, 0.5) if row.scheduler in ("eevdf", "scx_lavd")]
    last = dataclasses.replace(rows[-1], metrics={}, series={}, ejected="runnable task stall")
    assert "scx_lavd ejected" in report.render([(one, Results(one.name, [*rows[:-1], last], []))])


def test_text_is_escaped():
    """A reason of ejection from a kernel log cannot put markup into the page."""
    one = experiment.find(ROOT, "own-cpu")
    (row,) = rows_for(one, 0.5)
    hostile = Row(**{**row.to_json(), "ejected": "<script>alert(1)</script>"})
    assert "<script>" not in report.render([(one, Results(one.name, [hostile], []))])


def film_row(scheduler, load, loss, **more):
    point = {"film": "small", "count": 0 if load == "none" else 10, "load": load, "seconds": 10, "seed": 1}
    return Row(scheduler, "", 1, "7.2", point, {"frame_loss_pct": loss} if loss is not None else {}, {}, {}, 1, **more)


def test_headline_tells_only_what_was_measured(tmp_path):
    """The table of README.md has a line per load that somebody was measured beside, names an ejection, and leaves open what is not known."""
    rows = [
        film_row("limelight", "none", 0.0), film_row("limelight", "bursty", 0.4), film_row("eevdf", "none", 0.0),
        film_row("eevdf", "bursty", 81.6), film_row("scx_x", "bursty", None, ejected="runnable task stall"),
    ]
    lines = headline.table({"film": rows}).splitlines()
    assert lines[0] == "| | beside | eevdf | scx_x | limelight |"
    assert lines[2:] == [
        "| frames of a film lost | nothing | 0.0 % | – | 0.0 % |",
        "| frames of a film lost | 10 bursty | 81.6 % | ejected | 0.4 % |",
    ]
    for name in ("picture.png", "picture.svg"):
        headline.save({"film": rows}, tmp_path / name)
        assert 1000 < (tmp_path / name).stat().st_size < 200_000


def test_headline_is_of_one_kernel():
    """What was measured on another kernel, be it earlier in the list, is no figure of the headline, whose text names one."""
    on_other = dataclasses.replace(film_row("limelight", "bursty", 9.9), kernel="6.18")
    lines = headline.table({"film": [on_other, film_row("limelight", "bursty", 0.4)]}).splitlines()
    assert lines[2:] == ["| frames of a film lost | 10 bursty | 0.4 % |"]


@pytest.mark.parametrize("words", [("report", "--out"), ("report", "--picture"), ("run", "film", "--sched", "eevdf", "--json")])
def test_a_file_that_cannot_be_written_is_refused_at_once(words, capsys):
    """Where nothing can be made, of root's either, that is said before anything is measured or drawn, and as wrong usage."""
    assert cli.main([*words, "/proc/none.html"]) == 64
    said = capsys.readouterr().err
    assert f"give {words[-1]} another file" in said and "cannot write /proc/none.html" in said, said


def test_the_demonstration_names_what_is_plotted():
    """The demonstration's plot has a title, and calls the kernel's scheduler so: who sees it first does not know the word eevdf."""
    rows = [film_row(scheduler, "bursty", 1.0) for scheduler in demo.SCHEDULERS]
    figure = demo.draw(rows)
    titles = [axis.get_title() for axis in figure.axes]
    assert "bursty" in figure.get_suptitle()
    assert titles == ["the kernel's scheduler (eevdf)", "limelight"]


@pytest.mark.parametrize("words", [("run", "film"), ("exec", "--policy", "huc")])
def test_a_policy_is_limelights(words, capsys):
    """Where no limelight would run, `--policy` is refused and says why: it changed nothing, and was not told."""
    words = [*words, "--sched", "eevdf"] + (["--policy", "huc"] if words[0] == "run" else ["--", "true"])
    assert cli.main(words) == 64
    assert "only limelight has policies" in capsys.readouterr().err


def test_a_policy_beside_other_schedulers_is_limelights():
    """Of several schedulers limelight alone gets the policy."""
    asked = cli.parser().parse_args(["run", "film", "--sched", "eevdf,limelight", "--policy", "huc"])
    assert commands._schedulers(experiment.find(ROOT, "film"), asked) == [("eevdf", ""), ("limelight", "huc")]


def test_the_policy_that_limelight_has_by_itself_is_not_another_measurement():
    """Asked for by its name or not, it is measured once."""
    one = experiment.find(ROOT, "film")
    by_name, by_itself = (commands._schedulers(one, cli.parser().parse_args(["run", "film", *words])) for words in (["--policy", "unified"], []))
    assert by_name == by_itself
