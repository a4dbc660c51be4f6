"""The reference figures of the slot model."""

from __future__ import annotations

import pytest

from loadgen.sim import slots


@pytest.mark.parametrize(
    ("servers", "cap", "admitted", "p95_s", "met"),
    [
        (4, None, 40, 36.73, 5),
        (4, 12, 13, 11.48, 5),
        (4, 6, 7, 2.27, 6),
        (8, None, 40, 15.60, 9),
        (8, 10, 11, 1.32, 10),
    ],
)
def test_agent_burst_reference_figures(
    servers: int, cap: int | None, admitted: int, p95_s: float, met: int
) -> None:
    calls = slots.agent_burst(calls=40, duration_s=2.0)
    summary = slots.summarise(slots.offer(calls, servers, cap), slo_s=2.0)
    assert summary.admitted == admitted
    assert summary.ttft_p95_s == pytest.approx(p95_s, abs=0.005)
    assert summary.met == met


def test_nobody_admitted_has_no_p95() -> None:
    calls = slots.agent_burst(calls=3, duration_s=1.0)
    ttfts_s = slots.offer(calls, slots=2, in_flight_cap=0)
    assert ttfts_s == [None, None, None]
    assert slots.summarise(ttfts_s, slo_s=2.0) == (0, None, 0)
