# SPDX-License-Identifier: GPL-2.0-only
"""What is said of a film's frames."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "experiments" / "guest"))

import frames  # noqa: E402

FRAME = 40_000_000


def test_a_film_that_plays_loses_nothing() -> None:
    """A frame every 40 ms, the first after 7 ms of watching: 25 in each second, none lost, none late."""
    found = frames.judge([7_000_000] + [FRAME] * 124, 5, 25)
    assert (found["frames_lost"], found["frames_late"], found["fps_least"]) == (0, 0, 25)
    assert [found[f"fps.{second}"] for second in range(1, 5)] == [25, 25, 25, 25]


def test_a_hole_is_a_loss_even_if_made_up_for() -> None:
    """Half a second without a frame, then all of them at once: each second has its 25, and eleven were lost all the same."""
    found = frames.judge([FRAME] * 30 + [500_000_000] + [1_000_000] * 12 + [FRAME] * 82, 5, 25)
    assert found["frames_lost"] in (11, 12)
    assert (found["fps_least"], found["worst_gap_ms"]) == (25, 500)


def test_a_late_frame_is_no_lost_one() -> None:
    """8 ms late, and the next in time again: one late, none lost, and no second is short of it."""
    found = frames.judge([FRAME] * 40 + [48_000_000, 32_000_000] + [FRAME] * 83, 5, 25)
    assert (found["frames_lost"], found["frames_late"], found["fps_least"]) == (0, 1, 25)


def test_a_film_that_stops_is_lost_to_the_end() -> None:
    """Two seconds of film, then nothing for three: the rest of the time counts."""
    found = frames.judge([FRAME] * 50, 5, 25)
    assert found["frames_lost"] == 74
    assert found["fps_least"] == 0


def test_a_film_that_was_never_seen() -> None:
    """No frame at all is no film without a fault."""
    found = frames.judge([], 3, 25)
    assert (found["frames_lost"], found["fps_least"]) == (74, 0)
