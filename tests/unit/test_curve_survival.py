"""Quantiles where requests were cut: neither left out nor taken for answers."""

from __future__ import annotations

import numpy as np
import pytest

from loadgen.analysis.columns import RunData
from loadgen.analysis.latency import gaps_of, times_of
from loadgen.analysis.stats import Floats
from loadgen.analysis.survival import quantiles_s, survival
from loadgen.model import Outcome
from loadgen.units import NS_PER_S
from tests.runs import answered, ns, record, refused


def seconds(*values: float) -> Floats:
    return np.array(values, dtype=np.float64) * NS_PER_S


def test_without_a_cut_they_are_the_summarys_own_quantiles() -> None:
    found = quantiles_s(seconds(1, 2, 3, 4), seconds())
    assert found.p50.value == pytest.approx(2.5)
    assert found.n == 4
    assert found.n_cut == 0


def test_a_cut_request_counts_as_longer_than_that() -> None:
    """Of four, one was cut after 1.5 s: it may have been the longest of all."""
    found = quantiles_s(seconds(1, 2, 3), seconds(1.5))
    assert found.p50.value == pytest.approx(2.0)
    assert found.n == 4
    assert found.n_cut == 1
    only_whole = quantiles_s(seconds(1, 2, 3), seconds())
    assert only_whole.p90.value is not None
    assert found.p90.value is not None
    assert found.p90.value > only_whole.p90.value


def test_a_quantile_beyond_the_cuts_is_not_reached_and_has_a_bound() -> None:
    found = quantiles_s(seconds(1, 2), seconds(30, 30))
    assert found.p50.value == pytest.approx(2.0)
    assert found.p95.value is None
    assert found.p95.above_s == pytest.approx(30.0)


def test_all_cut_reaches_nothing() -> None:
    found = quantiles_s(seconds(), seconds(5, 7))
    assert found.p50.value is None
    assert found.p50.above_s == pytest.approx(7.0)


def test_nothing_is_neither_reached_nor_bounded() -> None:
    found = quantiles_s(seconds(), seconds())
    assert found.n == 0
    assert found.p50.value is None
    assert found.p50.above_s is None


def test_unfinished_requests_lift_the_quantile_as_in_the_methods_trial() -> None:
    """12 % unfinished: completed-only halves p95, Kaplan-Meier stays near it."""
    rng = np.random.default_rng(5)
    truth = rng.exponential(10.0, 20_000)
    limit = rng.uniform(10.0, 45.0, truth.size)
    cut = truth > limit
    assert 0.08 < cut.mean() < 0.2
    found = quantiles_s(truth[~cut] * NS_PER_S, limit[cut] * NS_PER_S)
    naive = quantiles_s(truth[~cut] * NS_PER_S, seconds())
    exact = float(np.quantile(truth, 0.95))
    assert found.p95.value == pytest.approx(exact, rel=0.05)
    assert naive.p95.value is not None
    assert naive.p95.value < 0.85 * exact


def test_of_a_run_each_time_knows_its_own_cuts() -> None:
    records = [
        answered(0, events_ms=[100, 110], end_ms=120),
        answered(
            1,
            events_ms=[200, 210],
            end_ms=5_000,
            outcome=Outcome.CANCELLED,
            finish_reason=None,
        ),
        record(2, outcome=Outcome.CANCELLED, end_ns=ns(5_000)),
        refused(3),
    ]
    data = RunData.collect(iter(records), len(records))
    found = survival(data, times_of(data), gaps_of(data))
    assert (found["ttft_s"].n, found["ttft_s"].n_cut) == (3, 1)
    assert (found["e2e_s"].n, found["e2e_s"].n_cut) == (3, 2)
    assert (found["itl_s"].n, found["itl_s"].n_cut) == (3, 1)
    assert found["tpot_s"].n == 1


def test_of_a_group_only_its_own_requests_count() -> None:
    records = [
        answered(0, events_ms=[100], group="short"),
        answered(1, events_ms=[900], group="long"),
    ]
    data = RunData.collect(iter(records), 2)
    short = survival(data, times_of(data), gaps_of(data), data.group.where("short"))
    assert short["ttft_s"].n == 1
    assert short["ttft_s"].p95.value == pytest.approx(0.1)
