"""Quantiles, intervals and fairness against independent sources."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from loadgen.analysis.stats import (
    finite_or_none,
    jain_index,
    spread,
    spread_of_gaps_s,
    spread_s,
    wilson,
)


@pytest.mark.parametrize(("k", "n"), [(0, 5), (5, 5), (6, 40), (712, 4096), (1, 1)])
def test_wilson_is_scipys(k: int, n: int) -> None:
    truth = scipy_stats.binomtest(k, n).proportion_ci(method="wilson")
    assert wilson(k, n) == pytest.approx((truth.low, truth.high), abs=1e-12)


def test_wilson_has_nothing_to_say_of_nothing() -> None:
    assert wilson(0, 0) is None


def test_quantiles_are_linear_and_in_seconds() -> None:
    values_ns = np.array([4e9, 1e9, np.nan, 2e9])
    found = spread_s(values_ns, n_missing=2)
    assert (found.n, found.n_missing) == (3, 3)
    assert (found.p50, found.max) == (2.0, 4.0)
    assert found.p90 == pytest.approx(3.6)
    assert found.mean == pytest.approx(7 / 3, abs=1e-9)


def test_a_spread_leaves_its_values_as_they_were() -> None:
    values = np.array([3.0, 1.0, 2.0])
    spread(values)
    assert values.tolist() == [3.0, 1.0, 2.0]


def test_gaps_are_spread_as_other_durations() -> None:
    gaps_ns = np.array([30, 10, 20], dtype=np.int64) * 1_000_000
    expected = spread_s(gaps_ns.astype(np.float64), n_missing=1)
    assert spread_of_gaps_s(gaps_ns, n_missing=1) == expected


@pytest.mark.parametrize(
    ("shares", "index"),
    [
        ([1.0, 1.0, 1.0, 1.0], 1.0),
        ([1.0, 0.0, 0.0, 0.0], 0.25),
        ([0.2, 0.4], 0.36 / (2 * 0.2)),
    ],
)
def test_jain_index(shares: list[float], index: float) -> None:
    assert jain_index(shares) == pytest.approx(index)


@pytest.mark.parametrize("shares", [[], [0.0, 0.0]])
def test_jain_index_of_nobody_served_is_none(shares: list[float]) -> None:
    assert jain_index(shares) is None


def test_what_is_no_number_is_none() -> None:
    assert finite_or_none(math.nan) is None
    assert finite_or_none(-math.inf) is None
    assert finite_or_none(None) is None
    assert finite_or_none(0.0) == 0.0
