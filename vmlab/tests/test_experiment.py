# SPDX-License-Identifier: GPL-2.0-only
"""Definitions of experiments: what is accepted, what is refused and with which words."""

from pathlib import Path

import pytest

from vmlab import assets, experiment, plots_coop
from vmlab.experiment import ExperimentError

ROOT = Path(__file__).resolve().parent.parent.parent

GOOD = """
title = "t"
claim = "c"
columns = [{ metric = "m", title = "m" }]
[parameters.count]
default = [0, 4, 10]
quick = [0, 4]
help = "processes"
[parameters.load]
default = ["spinning", "bursty"]
also = ["chatty"]
help = "kind"
[[expected]]
metric = "m"
at_most = 1.2
times = true
of = { count = 0 }
reason = "r"
"""


def write(folder: Path, text: str) -> Path:
    (folder / "experiment.toml").write_text(text)
    return folder


def test_every_experiment_of_the_repository_is_sound():
    """Each folder loads, has a measure and a README, a plot the report can draw, and bounds with reasons of more than a word."""
    kinds = {"film", "latency", "cdf", "bars", *plots_coop.KINDS}
    for folder in experiment.folders(ROOT):
        one = experiment.load(folder)
        assert (folder / "measure").is_file(), folder.name
        assert one.plot["kind"] in kinds, folder.name
        assert one.points(True, []), folder.name
        assert all(len(expected.reason.split()) > 4 for expected in one.expected), folder.name


def test_unloaded_points_are_one(tmp_path):
    """No processes of one kind are no processes of any: count 0 is measured once, as load none."""
    points = experiment.load(write(tmp_path, GOOD)).points(False, [])
    assert [point for point in points if point["count"] == 0] == [{"count": 0, "load": "none"}]
    assert len(points) == 5


def test_other_schedulers_and_more_cpus_are_measured_at_less(tmp_path):
    """`peers` and `many_cpus` thin the full form where a baseline is enough; what --set asks for is measured everywhere."""
    text = GOOD.replace("[parameters.count]", "peers = { count = [0, 10] }\nmany_cpus = { load = ['bursty'] }\n[parameters.count]", 1)
    one = experiment.load(write(tmp_path, text))

    def counts(scheduler, cpus, *settings):
        points = one.points(False, list(settings))
        return [(p["count"], p["load"]) for p in points if one.is_measured(p, scheduler, cpus, list(settings))]

    assert len(counts("limelight", 1)) == 5
    assert counts("eevdf", 1) == [(0, "none"), (10, "spinning"), (10, "bursty")]
    assert counts("limelight", 4) == [(0, "none"), (4, "bursty"), (10, "bursty")]
    assert counts("eevdf", 4, "count=4") == [(4, "bursty")]
    with pytest.raises(ExperimentError, match="unknown key 'cuont'"):
        experiment.load(write(tmp_path, text.replace("peers = { count", "peers = { cuont")))


def test_a_scheduler_is_measured_where_it_can_be(tmp_path):
    """`only` holds in both forms: what means nothing to a scheduler is not measured with it, unless --set asks for it."""
    text = GOOD.replace("[parameters.count]", "[only]\nlimelight = { count = [0] }\nothers = { count = [4, 10] }\n[parameters.count]", 1)
    one = experiment.load(write(tmp_path, text))

    def counts(scheduler, quick, *settings):
        points = one.points(quick, list(settings))
        return sorted({p["count"] for p in points if one.is_measured(p, scheduler, 1, list(settings), quick)})

    assert counts("limelight", False) == counts("limelight", True) == [0]
    assert counts("eevdf", False) == [4, 10]
    assert counts("eevdf", True) == [4]
    assert counts("limelight", True, "count=7") == [7]
    with pytest.raises(ExperimentError, match="unknown key 'cuont'"):
        experiment.load(write(tmp_path, text.replace("limelight = { count", "limelight = { cuont")))


def test_set_overrides_and_keeps_the_kind(tmp_path):
    """--set replaces a parameter's values, as numbers where the defaults are numbers."""
    one = experiment.load(write(tmp_path, GOOD))
    assert one.points(False, ["count=7", "load=chatty"]) == [{"count": 7, "load": "chatty"}]


@pytest.mark.parametrize(
    ("setting", "words"),
    [("cuont=7", "it has: count, load"), ("count=many", "not a list of numbers"), ("count", "it has no value; use count="),
     ("load=quiet", "'quiet' is none of")],
)
def test_wrong_set_is_explained(tmp_path, setting, words):
    """A wrong --set names what was given and what is allowed."""
    one = experiment.load(write(tmp_path, GOOD))
    with pytest.raises(ExperimentError, match=words):
        one.points(False, [setting])


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('title = "t"', 'titel = "t"', "unknown key 'titel'"),
        ('reason = "r"', "", "'reason' is missing"),
        ("at_most = 1.2", "at_most = 1.2\nat_least = 1", "one of at_most and at_least"),
        ("times = true", "", "'times' goes with"),
        ("of = { count = 0 }", "of = { coutn = 0 }", "unknown key 'coutn'"),
        ('help = "kind"', "", "'help' is missing"),
        ('help = "processes"', 'also = [7]\nhelp = "processes"', "'also' is for words"),
        ("[0, 4, 10]", '[0, "x"]', "values of one kind"),
        ("claim", "claim = ", "experiment.toml"),
    ],
)
def test_wrong_definitions_are_refused(tmp_path, old, new, words):
    """A definition with a mistake is refused before anything is booted, with the key named."""
    assert old in GOOD
    with pytest.raises(ExperimentError, match=words):
        experiment.load(write(tmp_path, GOOD.replace(old, new, 1)))


def test_unknown_experiment_lists_the_known():
    """A name that is not there is answered with those that are."""
    with pytest.raises(ExperimentError, match="huc-fig7"):
        experiment.find(ROOT, "huc-fig77")


def test_only_the_films_that_are_shown_are_made():
    """A film takes minutes to make: of an experiment's two, what its points name; both where they name none."""
    names = ["film-small.avi", "film-large.avi", "coop-run"]
    assert assets.needed(names, [{"film": "small", "count": 0}, {"film": "small", "count": 4}]) == ["film-small.avi", "coop-run"]
    assert assets.needed(names, [{"count": 0}]) == names
