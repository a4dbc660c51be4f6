"""Increases, resets, histograms and the grid of instants."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.telemetry.counting import Buckets, histogram_increase, increase, summed
from loadgen.telemetry.pace import next_tick_ns


@pytest.mark.parametrize(
    ("values", "delta", "resets"),
    [
        ([5, 5], 0, 0),
        ([5, 9], 4, 0),
        ([None, 7], 7, 0),
        ([1000, 200], 200, 1),
        ([1000, 1500, 10, 30], 530, 1),
        ([1000, None, 1100], 100, 0),
        ([10, 0, 5, 0, 2], 7, 2),
        ([], 0, 0),
        ([3], 0, 0),
    ],
)
def test_an_increase_is_the_sum_of_steps_up(
    values: list[float | None], delta: float, resets: int
) -> None:
    assert increase(values) == (delta, resets)


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=20))
def test_without_resets_only_the_ends_matter(steps: list[float]) -> None:
    values = sorted(steps)
    grew = increase(values)
    assert grew.resets == 0
    assert grew.delta == pytest.approx(values[-1] - values[0], abs=1e-3)


def test_a_histogram_that_started_over_counts_from_nothing() -> None:
    before = {"1.0": 90.0, "+Inf": 100.0, "sum": 50.0, "count": 100.0}
    after = {"1.0": 3.0, "+Inf": 4.0, "sum": 2.0, "count": 4.0}
    grew, reset = histogram_increase(before, after)
    assert reset
    assert grew == Buckets((1.0, math.inf), (3.0, 4.0), 2.0, 4.0)
    assert grew.mean == 0.5


def test_nothing_observed_has_no_mean_and_no_quantile() -> None:
    grew, _ = histogram_increase({}, {"+Inf": 0.0, "sum": 0.0, "count": 0.0})
    assert grew.mean is None
    assert grew.quantile(0.5) is None


def test_ranks_are_added_bucket_by_bucket() -> None:
    parts = [{"1.0": 1.0, "count": 2.0}, {"1.0": 4.0, "count": 5.0}]
    assert summed(parts) == {"1.0": 5.0, "count": 7.0}


@given(
    counts=st.lists(st.integers(0, 50), min_size=2, max_size=8),
    q=st.floats(0.01, 0.99),
)
def test_a_quantile_lies_in_the_bucket_that_holds_its_rank(
    counts: list[int], q: float
) -> None:
    cumulative = [float(sum(counts[: i + 1])) for i in range(len(counts))]
    bounds = (*(float(i + 1) for i in range(len(counts) - 1)), math.inf)
    found = Buckets(bounds, tuple(cumulative), None, cumulative[-1]).quantile(q)
    if not cumulative[-1]:
        assert found is None
        return
    assert found is not None
    rank = q * cumulative[-1]
    place = next(i for i, count in enumerate(cumulative) if count >= rank)
    if math.isinf(bounds[place]):
        assert found == (None, bounds[-2])
    else:
        assert found.value is not None
        assert bounds[place] - 1 <= found.value <= bounds[place]


@given(
    now=st.integers(0, 10**12),
    origin=st.integers(0, 10**12),
    period=st.integers(1, 10**9),
)
def test_the_next_tick_is_ahead_and_on_the_grid(
    now: int, origin: int, period: int
) -> None:
    tick = next_tick_ns(now, origin, period)
    assert now < tick <= now + period
    assert (tick - origin) % period == 0
