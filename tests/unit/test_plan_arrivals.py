"""Arrival processes: golden bytes, asked counts, and what is refused."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from loadgen.errors import UsageError
from loadgen.plan.arrivals import ARRIVALS, Arrivals, offsets
from loadgen.units import NS_PER_MS, NS_PER_S


def spec(process: str = "poisson", **fields: object) -> Arrivals:
    known: dict[str, object] = {"rate_rps": 20.0, "duration_ns": 2 * NS_PER_S}
    if process == "on-off":
        known |= {"on_ns": 200 * NS_PER_MS, "off_ns": 800 * NS_PER_MS}
    if process == "ramp":
        known |= {"end_rate_rps": 60.0}
    return Arrivals(process=process, **(known | fields))  # type: ignore[arg-type]


def test_golden_offsets() -> None:
    """Pinned: another digest means other schedules for every seed in the world."""
    digests = {
        process: hashlib.sha256(
            offsets(spec(process, rate_rps=500.0), 7).astype("<i8").tobytes()
        ).hexdigest()[:16]
        for process in ARRIVALS
    }
    bursty = offsets(spec("gamma", rate_rps=500.0, burstiness=0.25), 7)
    digests["bursty"] = hashlib.sha256(bursty.astype("<i8").tobytes()).hexdigest()[:16]
    assert digests == GOLDEN


def test_constant_is_an_even_grid() -> None:
    due = offsets(spec("constant"), 7)
    assert due.tolist() == [index * 50 * NS_PER_MS for index in range(40)]
    thirds = offsets(spec("constant", rate_rps=1 / 3, duration_ns=9 * NS_PER_S), 7)
    assert thirds.tolist() == [0, 3 * NS_PER_S, 6 * NS_PER_S]


def test_a_long_schedule_is_one_sequence() -> None:
    """It is drawn in chunks of 65,536."""
    due = offsets(spec("poisson", rate_rps=100_000.0), 7)
    assert len(due) == pytest.approx(200_000, rel=0.01)
    assert (np.diff(due) >= 0).all()


def test_burstiness_is_the_shape_of_the_gaps() -> None:
    for shape in (0.25, 1.0, 4.0):
        asked = spec("gamma", burstiness=shape, duration_ns=1000 * NS_PER_S)
        gaps = np.diff(offsets(asked, 7))
        assert gaps.mean() == pytest.approx(NS_PER_S / 20, rel=0.05)
        assert gaps.std() / gaps.mean() == pytest.approx(shape**-0.5, rel=0.05)
    poisson = offsets(spec("poisson"), 7)
    assert np.array_equal(poisson, offsets(spec("gamma", burstiness=1.0), 7))


def test_on_off_is_silent_while_off_and_keeps_the_mean() -> None:
    asked = spec("on-off", duration_ns=int(100.1 * NS_PER_S), fixed_count=True)
    due = offsets(asked, 7)
    assert (due % NS_PER_S < 200 * NS_PER_MS).all()
    assert len(due) == round(asked.expected) == 2002
    assert set((due // NS_PER_S).tolist()) == set(range(101))


@pytest.mark.parametrize(("start", "end"), [(10.0, 30.0), (30.0, 10.0), (20.0, 20.0)])
def test_ramp_goes_from_start_to_end(start: float, end: float) -> None:
    seconds = 400
    asked = spec(
        "ramp", rate_rps=start, end_rate_rps=end, duration_ns=seconds * NS_PER_S
    )
    due = offsets(asked, 7)
    assert asked.mean_rate_rps == 20
    quarters = np.histogram(due, 4, (0, seconds * NS_PER_S))[0] / (seconds / 4)
    middles = [start + (end - start) * (part + 0.5) / 4 for part in range(4)]
    assert quarters == pytest.approx(middles, rel=0.1)


def test_a_header_tells_the_process_whole() -> None:
    facts = spec("on-off", burstiness=0.5).describe()
    assert facts == {
        "process": "on-off",
        "rate_rps": 20.0,
        "duration_ns": 2 * NS_PER_S,
        "burstiness": 0.5,
        "on_ns": 200 * NS_PER_MS,
        "off_ns": 800 * NS_PER_MS,
    }
    assert spec("poisson").describe()["burstiness"] == 1
    assert "burstiness" not in spec("constant").describe()


@pytest.mark.parametrize(
    ("process", "fields", "says"),
    [
        ("uniform", {}, "no arrival process 'uniform'"),
        ("poisson", {"rate_rps": 0.0}, "rate must be above zero"),
        ("poisson", {"rate_rps": -1.0}, "rate must be above zero"),
        ("poisson", {"rate_rps": float("nan")}, "rate must be above zero"),
        ("poisson", {"rate_rps": float("inf")}, "rate must be above zero"),
        ("poisson", {"duration_ns": 0}, "duration must be above zero"),
        ("poisson", {"rate_rps": 1e9}, "more than a schedule holds"),
        ("poisson", {"rate_rps": 1e-3}, "no request falls into the schedule"),
        ("poisson", {"burstiness": 2.0}, "poisson arrivals have no burstiness"),
        ("gamma", {"burstiness": 0.0}, "burstiness 0.0 is outside"),
        ("gamma", {"burstiness": float("nan")}, "burstiness nan is outside"),
        ("gamma", {"end_rate_rps": 2.0}, "only a ramp has one"),
        ("gamma", {"on_ns": 5}, "only it has them"),
        ("ramp", {"end_rate_rps": None}, "a ramp needs an end rate"),
        ("ramp", {"end_rate_rps": 0.0}, "end rate must be above zero"),
        ("on-off", {"off_ns": None}, "on-off needs an on-time"),
        ("on-off", {"off_ns": 0}, "must be above zero"),
    ],
)
def test_refusals(process: str, fields: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        offsets(spec(process, **fields), 7)


GOLDEN = {
    "constant": "f085c77b01cec012",
    "poisson": "90fd32e3b38c8000",
    "gamma": "90fd32e3b38c8000",
    "on-off": "b365eee3f780ca95",
    "ramp": "fe9b3d437fd2cd4e",
    "bursty": "b350664fd78d8ad7",
}
