"""The method's own trials, on simulated engines whose capacity is known."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest

from loadgen.analysis.knee import Knee, Sample, find_knee
from loadgen.sim.slots import SlotCall, offer
from tests.many_queues import Floats, draw_asks, goodputs, ttfts

TARGET = 0.95
REQUESTS = 1_000
TRIALS = 120
RATES = np.linspace(3.7, 7.4, 9)


def test_the_fast_engine_is_the_slot_server() -> None:
    asks = draw_asks(1, 400, seed=3)
    arrivals = list(accumulate((asks.gaps[0] / 6.0).tolist()))
    calls = [
        SlotCall(arrival, prefill, service)
        for arrival, prefill, service in zip(
            arrivals,
            asks.prefill_s[0].tolist(),
            asks.service_s[0].tolist(),
            strict=True,
        )
    ]
    assert ttfts(asks, 6.0, slots=8)[0] == pytest.approx(offer(calls, slots=8))


@pytest.fixture(scope="module")
def truth() -> float:
    """Where the mean over many schedules of this length crosses the target."""
    fine = np.linspace(4.6, 5.8, 13)
    means = goodputs(draw_asks(1500, REQUESTS, seed=1), fine).mean(axis=0)
    return float(np.interp(-TARGET, -means, fine))


def knee_of(ratios: Floats) -> Knee:
    return find_knee(
        [
            Sample(float(rate), schedule, float(ratio))
            for schedule, row in enumerate(ratios)
            for rate, ratio in zip(RATES, row, strict=True)
        ],
        TARGET,
    )


def holds(knee: Knee, truth: float) -> bool:
    low, high = knee.ci95 or (None, None)
    return (low is None or low <= truth) and (high is None or truth <= high)


@pytest.mark.parametrize(("schedules", "most"), [(3, 0.08), (5, 0.06)])
def test_nine_rates_find_the_capacity_without_bias_and_know_their_error(
    truth: float, schedules: int, most: float
) -> None:
    """METHODS: bias of at most 2 %, RMSE 8 %, intervals that hold 88 times in 100."""
    asks = draw_asks(TRIALS * schedules, REQUESTS, seed=schedules)
    runs = goodputs(asks, RATES).reshape(TRIALS, schedules, RATES.size)
    knees = [knee_of(one) for one in runs]
    found = np.array([knee.rate_rps for knee in knees], dtype=np.float64)
    assert np.isfinite(found).all()
    error = found / truth - 1
    assert abs(error.mean()) <= 0.02
    assert np.sqrt((error**2).mean()) <= most
    assert sum(holds(knee, truth) for knee in knees) >= 0.88 * TRIALS
    closed = [k for k in knees if k.ci95 is not None and None not in k.ci95]
    assert len(closed) >= 0.7 * TRIALS  # or an interval could hold by saying nothing
