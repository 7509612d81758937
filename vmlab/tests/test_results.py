# SPDX-License-Identifier: GPL-2.0-only
"""Results files: what is published in the repository, and what is measured on one's own machine in its place."""

from pathlib import Path

import pytest

from vmlab import experiment, results
from vmlab.judge import Row
from vmlab.results import Results

ROOT = Path(__file__).resolve().parent.parent.parent


def row(value: float, **point: object) -> Row:
    return Row("limelight", "", 1, "7.2", point, {"loss": value}, {}, {}, 1)


def test_what_was_measured_here_replaces_what_was_published(tmp_path):
    """A report shows each row once: one's own where it was measured again, else the repository's; with both commands."""
    Results("film", [row(1.0, count=0), row(2.0, count=10)], ["./lab run film"]).save(results.published(tmp_path, "film"), [])
    Results("film", [row(5.0, count=10)], ["./lab run film --keep"]).save(results.here(tmp_path, "film"), [])
    everything = results.load_all(tmp_path, "film")
    assert {found.point["count"]: found.metrics["loss"] for found in everything.rows} == {0: 1.0, 10: 5.0}
    assert everything.commands == ["./lab run film", "./lab run film --keep"]


def test_each_row_is_a_line_of_its_file(tmp_path):
    """A row measured again changes one line, so that the history of the repository shows which."""
    path = tmp_path / "film.json"
    Results("film", [row(1.0, count=0), row(2.0, count=10)], []).save(path, [])
    assert sum('"limelight"' in line for line in path.read_text().splitlines()) == 2
    assert [found.point for found in results.load(path, "film").rows] == [{"count": 0}, {"count": 10}]


@pytest.mark.parametrize("folder", experiment.folders(ROOT), ids=lambda folder: folder.name)
def test_what_is_published_can_be_read(folder):
    """A published file that this version cannot read would leave the report without it, and without a word."""
    path = results.published(ROOT, folder.name)
    if not path.exists():
        pytest.skip("nothing of it is published")
    kept = results.load(path, folder.name)
    assert kept.rows
    assert all(found.commit and "dirty" not in found.commit for found in kept.rows), "measured at no commit that one could look at"
