"""Histograms of lags: never below the truth, little above it."""

from __future__ import annotations

import random

from loadgen.issue.stats import Histogram


def test_quantiles_are_never_below_the_truth_and_at_most_a_sixteenth_above() -> None:
    rng = random.Random(7)
    values = [int(rng.lognormvariate(11, 3)) for _ in range(5_000)]
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    summary = histogram.quantiles()
    values.sort()
    for share, found in (
        (0.5, summary.p50_ns),
        (0.9, summary.p90_ns),
        (0.99, summary.p99_ns),
    ):
        true = values[int(share * len(values)) - 1]
        assert found is not None
        assert true <= found <= true * (1 + 1 / 16) + 1
    assert summary.max_ns == values[-1]
    assert summary.mean_ns == sum(values) / len(values)


def test_small_values_are_exact_and_negative_ones_count_as_zero() -> None:
    histogram = Histogram()
    for value in (-5, 0, 7, 31):
        histogram.add(value)
    assert histogram.quantiles().p50_ns == 0
    assert histogram.quantiles().p90_ns == 31
    assert histogram.n == 4


def test_nothing_counted_is_none_and_not_zero() -> None:
    summary = Histogram().quantiles()
    assert summary.n == 0
    assert (summary.mean_ns, summary.p50_ns, summary.max_ns) == (None, None, None)


def test_every_bucket_s_upper_edge_lies_in_it() -> None:
    for value in [*range(200), *(1 << bit for bit in range(8, 50))]:
        histogram = Histogram()
        histogram.add(value)
        histogram.max_ns = 1 << 60  # so that the edge itself shows
        edge = histogram.quantiles().p50_ns
        assert edge is not None
        assert value <= edge <= value * 17 // 16
