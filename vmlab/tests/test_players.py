# SPDX-License-Identifier: GPL-2.0-only
"""The arithmetic of the cooperative polling experiments, which runs in the guest: every figure can be checked by hand."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "experiments" / "guest"))

import players  # noqa: E402  (the guest has it on its path)


def test_jain_is_one_where_all_are_equal():
    """Jain's index of equal shares is 1, of one that has everything 1/n, of 1, 2 and 3 it is 36/42; of nothing it is 0."""
    assert players.jain([5, 5, 5]) == pytest.approx(1)
    assert players.jain([9, 0, 0]) == pytest.approx(1 / 3)
    assert players.jain([1, 2, 3]) == pytest.approx(36 / 42)
    assert players.jain([0, 0]) == 0.0


def test_a_release_waits_for_the_next_run():
    """A release while the thread runs waits 0, one between two runs until the next begins, one at a run's very end until the next; after the last run
    nothing is known."""
    began, ended = [100, 300, 500], [200, 400, 600]
    assert players.time_to_running([150, 250, 300, 200, 50], began, ended) == [0, 50, 0, 100, 50]
    assert players.time_to_running([600, 700], began, ended) == []


def test_percentiles_are_values_that_were_seen():
    """Nearest rank: the 99th of 1 to 200 is 198, of three values the greatest."""
    assert players.percentile(range(1, 201), 99) == 198
    assert players.percentile([3, 1, 2], 99) == 3


def test_a_player_is_told_what_the_scheduler_has(monkeypatch):
    """Only under limelight a player polls, and has a group; as the yardstick it reserves its fair share; further options come last, where they count."""
    cast = players.Cast(8, "make", 4, grouped=True, options=lambda number: [f"--frame-us={number}"])
    monkeypatch.setattr(players.os, "cpu_count", lambda: 1)
    words = {}
    for name in ("limelight", "eevdf", "rr", "deadline"):
        monkeypatch.setenv("LIMELIGHT_SCHED", name)
        words[name] = cast.command(3)
    assert "--group=7" in words["limelight"] and "--plain" not in words["limelight"]
    assert all("--plain" in words[name] and "--group=7" not in words[name] for name in ("eevdf", "rr", "deadline"))
    assert "--deadline-pm=83" in words["deadline"]
    assert words["limelight"][-1] == "--frame-us=3"
