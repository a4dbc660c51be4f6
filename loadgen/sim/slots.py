"""The simplest server: n slots, each busy with one call from start to end.

No batching and no tokens in common: it shows what a cap on requests in flight
does to those who get in, and nothing finer.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from random import Random
from typing import NamedTuple

__all__ = ["SlotCall", "SlotSummary", "agent_burst", "offer", "summarise"]

TOKEN_S = 0.025


class SlotCall(NamedTuple):
    """One call: when it comes, how long to its first token, how long in all."""

    arrival_s: float
    prefill_s: float
    service_s: float


class SlotSummary(NamedTuple):
    """What became of the admitted; p95 is None when there were none."""

    admitted: int
    ttft_p95_s: float | None
    met: int


def agent_burst(calls: int, duration_s: float, seed: int = 7) -> list[SlotCall]:
    """A burst of agent calls: short prefills, log-normal answers to 900 tokens."""
    rng = Random(seed)  # the plan is part of the reference figures, not a secret
    arrivals_s = sorted(rng.uniform(0, duration_s) for _ in range(calls))
    burst = []
    for arrival_s in arrivals_s:
        prefill_s = rng.uniform(0.15, 0.6)
        tokens = min(900, int(rng.lognormvariate(5.0, 0.8)))
        burst.append(SlotCall(arrival_s, prefill_s, prefill_s + tokens * TOKEN_S))
    return burst


def offer(
    calls: Iterable[SlotCall], slots: int, in_flight_cap: int | None = None
) -> list[float | None]:
    """Offer calls in order of arrival to ``slots`` servers, first come first served.

    Returns:
        TTFT in seconds since arrival for each call; None for a refused one, which
        is one that finds ``in_flight_cap`` calls waiting or running.
    """
    free_at_s = [0.0] * slots
    ends_s: list[float] = []
    ttfts_s: list[float | None] = []
    for call in calls:
        while ends_s and ends_s[0] <= call.arrival_s:
            heapq.heappop(ends_s)
        if in_flight_cap is not None and len(ends_s) >= in_flight_cap:
            ttfts_s.append(None)
            continue
        start_s = max(call.arrival_s, free_at_s[0])
        heapq.heapreplace(free_at_s, start_s + call.service_s)
        heapq.heappush(ends_s, start_s + call.service_s)
        ttfts_s.append(start_s + call.prefill_s - call.arrival_s)
    return ttfts_s


def summarise(ttfts_s: Sequence[float | None], slo_s: float) -> SlotSummary:
    """Count the admitted and those within the SLO, and take their p95 TTFT.

    The p95 is the value at rank ``round(0.95 n)``, without interpolation.
    """
    admitted = sorted(ttft_s for ttft_s in ttfts_s if ttft_s is not None)
    if not admitted:
        return SlotSummary(0, None, 0)
    rank = max(1, round(0.95 * len(admitted)))
    met = sum(ttft_s <= slo_s for ttft_s in admitted)
    return SlotSummary(len(admitted), admitted[rank - 1], met)
