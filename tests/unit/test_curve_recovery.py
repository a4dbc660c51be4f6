"""A step past capacity and back, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loadgen.analysis.recovery import Phases, RunRecovery, overload_of, recovery
from loadgen.analysis.stats import Floats
from loadgen.units import NS_PER_S

PHASES = Phases(
    base_ends_ns=10 * NS_PER_S, peak_ends_ns=20 * NS_PER_S, ends_ns=30 * NS_PER_S
)
DUE = np.arange(0, 30, 0.1) * NS_PER_S


def took(*steps: tuple[float, float]) -> Floats:
    """How long requests take from each instant on, in seconds."""
    seconds = np.zeros(DUE.size)
    for since_s, length_s in steps:
        seconds[since_s * NS_PER_S <= DUE] = length_s
    return seconds


def figures(seconds: Floats) -> dict[str, Any]:
    return recovery(PHASES, DUE, DUE + seconds * NS_PER_S, seconds <= 2.0)


def test_an_engine_that_never_noticed() -> None:
    found = figures(took((0, 0.5)))
    assert found["before"] == found["during"] == found["after"] == 1.0
    assert found["drain_s"] == 0.0
    assert found["recovery_s"] == 0.0


def test_one_that_recovers_after_a_while() -> None:
    found = figures(took((0, 0.5), (10, 5.0), (22, 0.5)))
    assert found["during"] == 0.0
    assert found["after"] == 1.0
    assert found["recovery_s"] == pytest.approx(2.5)
    assert 2.0 < found["drain_s"] < 7.1


def test_one_that_stays_down_has_no_time_of_recovery() -> None:
    found = figures(took((0, 0.5), (10, 5.0)))
    assert found["after"] == 0.0
    assert found["recovery_s"] is None


def test_a_request_without_an_end_leaves_the_drain_unknown() -> None:
    seconds = took((0, 0.5))
    seconds[-1] = np.nan
    assert figures(seconds)["drain_s"] is None


def test_nothing_offered_before_leaves_recovery_unknown() -> None:
    late = DUE[DUE > 15 * NS_PER_S]
    found = recovery(PHASES, late, late + NS_PER_S, np.ones(late.size, dtype=np.bool_))
    assert found["before"] is None
    assert found["recovery_s"] is None


def run(schedule: int, **fields: Any) -> RunRecovery:
    given: dict[str, Any] = {
        "folder": f"overload-{schedule + 1}",
        "schedule": schedule,
        "base_rps": 5.0,
        "peak_rps": 16.0,
        "phase_s": (10.0, 10.0, 10.0),
        "usable": True,
        "why_not": None,
        "before": 1.0,
        "during": 0.2,
        "after": 0.9,
        "drain_s": 4.0,
        "recovery_s": 3.0,
    }
    return RunRecovery(**(given | fields))


def test_runs_are_taken_together_over_schedules() -> None:
    found = overload_of([run(0), run(1, recovery_s=None), run(2, usable=False)])
    assert found is not None
    assert found.before.n == 2
    assert found.hysteresis.value == pytest.approx(0.1)
    assert found.recovery_s.value == pytest.approx(3.0)
    assert found.not_recovered == 1
    assert found.not_drained == 0
    assert len(found.runs) == 3


def test_no_usable_run_is_no_overload() -> None:
    assert overload_of([]) is None
    assert overload_of([run(0, usable=False)]) is None
