# SPDX-License-Identifier: GPL-2.0-only
"""Percentiles and histograms against values computed by hand."""

import pytest

from vmlab import samples


def test_percentiles_are_nearest_rank():
    """Of 1..1000 the p99.9 is 999 and the p50 is 500: values that were seen, no interpolation, no off-by-one."""
    series = samples.Series.of(range(1, 1001), "ms", "test")
    assert series.figures() == {
        "p50": 500, "p90": 900, "p99": 990, "p99.9": 999, "max": 1000, "mean": 500.5, "count": 1000,
    }


def test_single_sample_is_every_percentile():
    """One sample is its own median and maximum."""
    assert samples.Series.of([7.0], "ms", "test").figures()["p99.9"] == 7.0


def test_no_samples_have_no_percentiles():
    """An empty series says so instead of reporting zero: nothing measured must never look like a good latency."""
    assert samples.Series.of([], "ms", "test").figures() == {"count": 0}
    with pytest.raises(ValueError):
        samples.percentile([], 50)


def test_histogram_keeps_three_digits():
    """Values fall into bins no further than 0.5 % off, and no sample is lost."""
    values = [0.12345, 0.1234, 98765.4]
    series = samples.Series.of(values, "us", "test")
    assert series.histogram == {0.123: 2, 98800.0: 1}


def test_json_round_trip():
    """What is written to a results file is read back the same."""
    series = samples.Series.of([1.0, 2.0, 2.0, 50.0], "ms", "kernel trace points")
    assert samples.Series.from_json(series.to_json()) == series


def test_merge_counts_every_boot():
    """Several boots are one distribution: counts add up and the worst sample of all stays the maximum."""
    parts = [samples.Series.of([1.0] * 99 + [5.004], "ms", "t"), samples.Series.of([1.0] * 100, "ms", "t")]
    merged = samples.merge(parts)
    assert merged.count == 200
    assert merged.maximum == 5.004
    assert merged.percentiles["p99"] == 1.0


def test_cdf_ends_at_100():
    """The cumulative distribution rises and ends at 100 %."""
    points = samples.Series.of([3.0, 1.0, 2.0, 2.0], "ms", "t").cdf()
    assert points == [(1.0, 25.0), (2.0, 75.0), (3.0, 100.0)]


def test_median_is_a_seen_value():
    """The median of several boots is one of them."""
    assert samples.median([3.0, 1.0]) == 1.0
    assert samples.median([3.0, 1.0, 2.0]) == 2.0
