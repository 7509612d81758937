# SPDX-License-Identifier: GPL-2.0-only
"""What became of a film's frames, from when each was on the screen: how many in each second, which were lost, which came late. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

#: As issued: a frame that comes so much later than it should is late.
LATE_MS = 5.0


def per_second(intervals_ns: Sequence[int], seconds: int, fps: int) -> list[int]:
    """Frames in each whole second of `seconds`; `intervals_ns` from the beginning of watching on.

    The seconds begin half a frame before the first: a frame that is a little early or late stays in its second.
    """
    stamps = list(accumulate(intervals_ns))
    counts = [0] * (seconds - 1)
    if not stamps:
        return counts
    begin = stamps[0] - 500_000_000 // fps
    for stamp in stamps:
        second = (stamp - begin) // 1_000_000_000
        if second < len(counts):
            counts[second] += 1
    return counts


def judge(intervals_ns: Sequence[int], seconds: int, fps: int) -> dict[str, float]:
    """The figures of a film watched for `seconds`.

    Lost is a frame in whose place there was none: an interval of two frames' length holds one. Late is one that came more than LATE_MS later
    than a frame's length after the one before it, and so the first after a lost one, too. What comes of it afterwards all at once makes up for
    nothing. A film that stops for good has no next frame: what is left of the time counts as an interval.
    """
    length_ms = 1000 / fps
    rest_ns = seconds * 1_000_000_000 - sum(intervals_ns)
    intervals_ms = [interval / 1e6 for interval in [*intervals_ns[1:], rest_ns]]
    counts = per_second(intervals_ns, seconds, fps)
    late_ms = [interval - length_ms for interval in intervals_ms]
    return {
        "frames_lost": float(sum(max(0, round(interval / length_ms) - 1) for interval in intervals_ms)),
        "frames_late": float(sum(late > LATE_MS for late in late_ms)),
        "worst_gap_ms": max(intervals_ms),
        "fps_least": float(min(counts, default=0)),
        "fps_mean": sum(counts) / max(1, len(counts)),
        **{f"fps.{second + 1}": float(count) for second, count in enumerate(counts)},
    }
