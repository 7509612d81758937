# SPDX-License-Identifier: GPL-2.0-only
"""Distributions: what is kept of a series of samples, and what is read from it.

A series is kept as value -> count with the values rounded to three significant digits (a relative error of at most 0.5 %),
beside exact percentiles. That is small enough to keep for every run and enough to redraw every plot.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

#: The percentiles every series reports, by the name they have in tables and JSON.
PERCENTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99.9": 99.9}


def percentile(ordered: Sequence[float], rank_pct: float) -> float:
    """The smallest sample that at least `rank_pct` % of the samples do not exceed (nearest rank: a value that was seen).

    `ordered` is sorted upwards and not empty.
    """
    if not ordered:
        raise ValueError("no percentile of no samples")
    # The product is rounded first: 99.9 % of 1000 is 999, not 999.0000000000001 and so the last one.
    position = math.ceil(round(rank_pct * len(ordered) / 100.0, 9))
    return ordered[max(position, 1) - 1]


def round_digits(value: float, digits: int = 3) -> float:
    """`value` to `digits` significant digits."""
    if value == 0:
        return 0.0
    return round(value, digits - 1 - math.floor(math.log10(abs(value))))


@dataclass
class Series:
    """One distribution: its percentiles and histogram, in `unit`, and by what it was taken (`source`)."""

    unit: str
    source: str
    count: int = 0
    mean: float = 0.0
    maximum: float = 0.0
    percentiles: dict[str, float] = field(default_factory=dict)
    histogram: dict[float, int] = field(default_factory=dict)

    @classmethod
    def of(cls, values: Iterable[float], unit: str, source: str) -> Series:
        """The series of `values`; empty when there are none."""
        ordered = sorted(values)
        if not ordered:
            return cls(unit, source)
        return cls(
            unit,
            source,
            len(ordered),
            sum(ordered) / len(ordered),
            ordered[-1],
            {name: percentile(ordered, rank) for name, rank in PERCENTILES.items()},
            dict(sorted(Counter(round_digits(value) for value in ordered).items())),
        )

    def figures(self) -> dict[str, float]:
        """What tables and expectations refer to: p50 … p99.9, max, mean, count. Only the count when empty."""
        if not self.count:
            return {"count": 0}
        return {**self.percentiles, "max": self.maximum, "mean": self.mean, "count": self.count}

    def cdf(self) -> list[tuple[float, float]]:
        """(value, % of samples at or below it), upwards."""
        points, seen = [], 0
        for value, count in sorted(self.histogram.items()):
            seen += count
            points.append((value, 100.0 * seen / self.count))
        return points

    def to_json(self) -> dict:
        """As kept in a results file."""
        return {
            "unit": self.unit,
            "source": self.source,
            **self.figures(),
            "histogram": [[value, count] for value, count in self.histogram.items()],
        }

    @classmethod
    def from_json(cls, data: dict) -> Series:
        """What `to_json` wrote."""
        return cls(
            data["unit"],
            data["source"],
            data["count"],
            data.get("mean", 0.0),
            data.get("max", 0.0),
            {name: data[name] for name in PERCENTILES if name in data},
            {value: count for value, count in data["histogram"]},
        )


def merge(parts: Sequence[Series]) -> Series:
    """The series of all samples of `parts` (several boots); percentiles from the histograms, so within 0.5 %."""
    if not parts:
        raise ValueError("nothing to merge")
    if len(parts) == 1:
        return parts[0]
    total: Counter[float] = Counter()
    for part in parts:
        total.update(part.histogram)
    merged = Series.of((value for value, count in total.items() for _ in range(count)), parts[0].unit, parts[0].source)
    merged.maximum = max(part.maximum for part in parts)
    return merged


def median(values: Sequence[float]) -> float:
    """The middle value; of an even number the lower of the two in the middle (a value that was seen)."""
    return percentile(sorted(values), 50.0)
