"""Goodput of many simulated engines at once: the slots of ``sim.slots``, in columns.

A first-come, first-served server of n slots needs no events: the work that each slot
has left, in rising order, is all its state (Kiefer and Wolfowitz). One numpy step then
serves one request of every run.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Asks(NamedTuple):
    """What is asked: one row a run, one column a request; gaps at a rate of 1/s."""

    gaps: Floats
    prefill_s: Floats
    service_s: Floats


def draw_asks(runs: int, requests: int, seed: int) -> Asks:
    """One in ten brings a long document; answers are log-normal, 20 ms a token."""
    rng = np.random.default_rng(seed)
    shape = (runs, requests)
    gaps = rng.exponential(size=shape)
    prefill_s = np.where(
        rng.random(shape) < 0.1,
        rng.uniform(0.5, 1.0, shape),
        rng.uniform(0.02, 0.08, shape),
    )
    tokens = np.minimum(900, rng.lognormal(4.5, 0.8, shape))
    return Asks(gaps, prefill_s, prefill_s + tokens * 0.02)


def ttfts(asks: Asks, rate_rps: float, slots: int) -> Floats:
    """Time to the first token of every request of every run."""
    runs, requests = asks.gaps.shape
    left_s = np.zeros((runs, slots))
    found = np.empty((runs, requests))
    for at in range(requests):
        left_s -= asks.gaps[:, at : at + 1] / rate_rps
        np.maximum(left_s, 0, out=left_s)
        found[:, at] = left_s[:, 0] + asks.prefill_s[:, at]
        left_s[:, 0] += asks.service_s[:, at]
        left_s.sort(axis=1)
    return found


def goodputs(
    asks: Asks, rates_rps: Floats, slots: int = 16, limit_s: float = 2.0
) -> Floats:
    """The share within the limit, one row a run, one column a rate."""
    return np.stack(
        [
            (ttfts(asks, float(rate), slots) <= limit_s).mean(axis=1)
            for rate in rates_rps
        ],
        axis=1,
    )
