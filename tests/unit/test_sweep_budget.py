"""What fits into a time, and what is promised of it."""

from __future__ import annotations

from typing import Any

import pytest

from loadgen.control.budget import Wanted, expected_precision, fit
from loadgen.errors import UsageError
from loadgen.units import NS_PER_S

MINUTE = 60 * NS_PER_S


def wanted(**fields: Any) -> Wanted:
    given: dict[str, Any] = {
        "rates": None,
        "schedules": None,
        "run_ns": None,
        "budget_ns": None,
    }
    return Wanted(**(given | fields))


def test_without_a_budget_it_takes_what_it_takes() -> None:
    found = fit(wanted())
    assert (found.rates, found.schedules) == (9, 3)
    assert found.run_ns == 30 * NS_PER_S
    assert found.takes_ns > 27 * 30 * NS_PER_S


def test_a_budget_is_kept() -> None:
    for minutes in (5, 10, 20, 60, 480):
        found = fit(wanted(budget_ns=minutes * MINUTE))
        assert found.takes_ns <= minutes * MINUTE
        assert found.schedules >= 3
        assert found.rates >= 5


def test_more_time_makes_more_schedules_then_longer_runs() -> None:
    short, long = (fit(wanted(budget_ns=m * MINUTE)) for m in (8, 120))
    assert short.schedules < long.schedules == 5
    assert long.run_ns > 2 * short.run_ns


def test_what_the_user_fixed_stays() -> None:
    found = fit(wanted(rates=4, schedules=7, budget_ns=30 * MINUTE))
    assert (found.rates, found.schedules) == (4, 7)
    fixed = fit(wanted(run_ns=10 * NS_PER_S, budget_ns=60 * MINUTE))
    assert fixed.run_ns == 10 * NS_PER_S


def test_a_budget_too_short_is_refused_with_what_it_would_take() -> None:
    with pytest.raises(UsageError, match="the smallest sweep"):
        fit(wanted(budget_ns=MINUTE))


def test_a_step_past_capacity_and_a_search_cost_time() -> None:
    plain = fit(wanted())
    assert fit(wanted(extra_runs=3)).takes_ns > plain.takes_ns
    assert fit(wanted(searching=True)).takes_ns > plain.takes_ns


def test_more_requests_promise_more_precision() -> None:
    few = expected_precision((2.0, 3.0, 4.0), 3, 10 * NS_PER_S)
    many = expected_precision((2.0, 3.0, 4.0), 5, 600 * NS_PER_S)
    assert few is not None
    assert "100 % or more" in few
    assert many is not None
    assert "100" not in many


def test_nothing_is_promised_of_rates_not_known_or_of_one_schedule() -> None:
    assert expected_precision((), 3, MINUTE) is None
    assert expected_precision((2.0,), 1, MINUTE) == "no interval from one schedule"


def test_coarse_rates_are_told() -> None:
    found = expected_precision((1.0, 4.0), 3, MINUTE)
    assert found is not None
    assert "apart" in found
