# SPDX-License-Identifier: GPL-2.0-only
"""Results files: what is published in the repository, and what is measured on one's own machine in its place."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from vmlab import experiment, results
from vmlab.commands import to_repeat
from vmlab.judge import Row
from vmlab.results import Results

ROOT = Path(__file__).resolve().parent.parent.parent
CODE = ROOT / "scripts" / "code"
#: What limelight is made of.
FOLDERS = ("abi", "ctl", "daemon", "policy", "sched", "sense", "spec")


def git(*words: str) -> str:
    """What git says of this repository."""
    return subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=True).stdout.strip()


def row(value: float, **point: object) -> Row:
    return Row("limelight", "", 1, "7.2", point, {"loss": value}, {}, {}, 1)


def test_what_was_measured_here_replaces_what_was_published(tmp_path):
    """A report shows each row once: one's own where it was measured again, else the repository's; with both commands."""
    Results("film", [row(1.0, count=0), row(2.0, count=10)], ["./lab run film"]).save(results.published(tmp_path, "film"), [])
    Results("film", [row(5.0, count=10)], ["./lab run film --keep"]).save(results.here(tmp_path, "film"), [])
    everything = results.load_all(tmp_path, "film")
    assert {found.point["count"]: found.metrics["loss"] for found in everything.rows} == {0: 1.0, 10: 5.0}
    assert everything.commands == ["./lab run film", "./lab run film --keep"]


def test_what_four_cpus_did_at_half_their_speed_is_replaced():
    """An instruction took 2 ns on every machine once: what is measured since then stands in its place, and beside what was chosen to be slower."""
    was, now, slower = (replace(row(value, count=4), cpus=4, instruction_ns=ns) for value, ns in ((1.0, 2), (2.0, 1), (3.0, 8)))
    everything = Results("film", [was, slower])
    everything.put([now], "./lab run film --cpus 4")
    assert {found.instruction_ns: found.metrics["loss"] for found in everything.rows} == {1: 2.0, 8: 3.0}


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
    assert all(found.code and "changed" not in found.code for found in kept.rows), "measured at no code that one could look at"


def test_the_code_of_a_commit_does_not_depend_on_its_name():
    """Two commits that differ in other folders only have one code; `--find` names both."""
    newest = git("rev-list", "-1", "HEAD", "--", *FOLDERS)
    code = subprocess.run([CODE, newest], capture_output=True, text=True, check=True).stdout.strip()
    assert subprocess.run([CODE, "HEAD"], capture_output=True, text=True, check=True).stdout.strip() == code
    assert git("rev-parse", "--short", newest) in subprocess.run([CODE, "--find", code], capture_output=True, text=True, check=True).stdout


def test_the_code_of_no_commit_is_looked_up_where_its_rows_are(tmp_path):
    """Some was measured at a state that was never committed as it was: `--find` names the commits that its rows came with. What stands nowhere is refused."""
    script, rows = tmp_path / "scripts" / "code", tmp_path / "experiments" / "film" / "measured.json"
    for path in (script, rows, tmp_path / "abi" / "header.h"):
        path.parent.mkdir(parents=True)
    shutil.copy(CODE, script)
    (tmp_path / "abi" / "header.h").write_text("")
    rows.write_text('{"code":"0123abc"}')
    in_it = ["git", "-C", tmp_path, "-c", "user.name=nobody", "-c", "user.email=nobody@localhost"]
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "film: a row"]):
        subprocess.run([*in_it, *words], check=True)
    found, refused = (subprocess.run([script, "--find", code], capture_output=True, text=True, check=False) for code in ("0123abc", "fffffff"))
    assert (found.returncode, found.stdout.count("\n")) == (0, 1), found
    assert "film: a row" in found.stdout and "no commit has 0123abc" in found.stderr
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "fffffff" in refused.stderr and "fix: " in refused.stderr


def test_the_code_of_what_is_no_commit_is_refused():
    """A wrong name is named, with what to give instead, and the status is not 0."""
    refused = subprocess.run([CODE, "no-such-commit"], capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert not refused.stdout
    assert "no-such-commit" in refused.stderr
    assert "fix: " in refused.stderr


def test_a_command_that_is_kept_names_no_file_of_this_machine():
    """What is published is repeated by others: without the file that the rows were written to, in either form of the option."""
    assert to_repeat(["film", "--json", "one.json", "--cpus", "4", "--json=two.json"]) == ["film", "--cpus", "4"]
    assert to_repeat(["film", "--set", "count=10"]) == ["film", "--set", "count=10"]
