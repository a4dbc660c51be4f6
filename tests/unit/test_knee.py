"""The knee of curves made by hand, and what is flagged about them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from loadgen.analysis.knee import Flag, Knee, Sample, find_knee


def knee(*curve: tuple[float, Sequence[float]], target: float = 0.95) -> Knee:
    """Of rates with the ratios of schedules 0, 1, 2, …"""
    return find_knee(
        [
            Sample(rate, schedule, ratio)
            for rate, ratios in curve
            for schedule, ratio in enumerate(ratios)
        ],
        target,
    )


def test_it_lies_where_the_target_is_crossed() -> None:
    found = knee((4, [1.0] * 3), (8, [1.0] * 3), (10, [0.9] * 3))
    assert found.rate_rps == pytest.approx(9.0)
    assert found.between_rps == (8.0, 10.0)
    assert found.at_least_rps is None
    assert found.below_rps is None
    assert found.flags == []


def test_a_rate_that_meets_the_target_to_the_bit_counts_as_met() -> None:
    assert knee((4, [0.95]), (8, [0.85])).rate_rps == pytest.approx(4.0)


def test_the_highest_rate_still_passing_is_a_bound_and_no_capacity() -> None:
    found = knee((1, [1.0] * 3), (2, [1.0] * 3), (4, [0.99] * 3))
    assert found.rate_rps is None
    assert found.at_least_rps == 4
    assert Flag.NEVER_SATURATED in found.flags
    assert found.text == ">= 4 (not reached)"


def test_the_lowest_rate_failing_is_a_bound_too() -> None:
    found = knee((4, [0.9] * 3), (8, [0.5] * 3))
    assert found.rate_rps is None
    assert found.below_rps == 4
    assert Flag.FAILS_AT_LOWEST in found.flags
    assert found.text.startswith("< 4")


def test_no_run_gives_no_knee_and_says_so() -> None:
    found = find_knee([], 0.95, known=[Flag.CLIENT_LIMITED])
    assert found.rate_rps is None
    assert found.flags == [Flag.CLIENT_LIMITED]
    assert "no run" in found.text


def test_a_dip_by_chance_is_smoothed_over_and_not_flagged() -> None:
    found = knee((2, [1.0, 0.9, 1.0]), (4, [0.98, 0.99, 0.97]), (8, [0.5, 0.6, 0.4]))
    assert Flag.NOT_MONOTONE not in found.flags
    assert found.rate_rps is not None
    assert 4 <= found.rate_rps <= 8


def test_a_rise_beyond_chance_is_flagged() -> None:
    found = knee((2, [0.80, 0.81, 0.79]), (4, [0.99, 0.98, 0.99]), (8, [0.5] * 3))
    assert Flag.NOT_MONOTONE in found.flags


def test_one_pair_of_runs_cannot_show_a_rise() -> None:
    found = knee((2, [0.80]), (4, [0.99, 0.98]), (8, [0.5]))
    assert Flag.NOT_MONOTONE not in found.flags


def test_a_fall_from_good_to_bad_in_one_step_is_a_cliff() -> None:
    steep = knee((8, [1.0] * 3), (10, [0.3] * 3))
    gentle = knee((8, [1.0] * 3), (10, [0.9] * 3))
    assert Flag.CLIFF in steep.flags
    assert Flag.CLIFF not in gentle.flags


def test_one_schedule_gives_no_interval() -> None:
    found = knee((4, [1.0]), (8, [0.5]))
    assert found.ci95 is None
    assert Flag.FEW_SCHEDULES in found.flags
    assert "no interval" in found.text


def test_schedules_that_agree_give_a_narrow_interval_that_holds_the_knee() -> None:
    found = knee(
        *(
            (rate, [1.0 - rate / 200 + d for d in (0, 0.001, -0.001)])
            for rate in range(2, 20, 2)
        )
    )
    assert found.rate_rps is not None
    assert found.ci95 is not None
    low, high = found.ci95
    assert low is not None
    assert high is not None
    assert low < found.rate_rps < high
    assert high - low < 2


def test_an_end_beyond_the_rates_is_open() -> None:
    """One schedule breaks far below the others: the upper end is anybody's guess."""
    found = knee((4, [1.0] * 3), (8, [1.0, 1.0, 0.7]))
    assert found.rate_rps is not None
    assert found.ci95 is not None
    assert found.ci95[1] is None


def test_few_schedules_widen_the_interval() -> None:
    """The same spread from three schedules and from nine."""
    spread = (-0.05, 0.0, 0.05)
    rates = range(2, 40, 2)
    three = knee(*((r, [1 - r / 300 + d / 4 for d in spread]) for r in rates))
    nine = knee(*((r, [1 - r / 300 + d / 4 for d in spread * 3]) for r in rates))
    assert three.ci95 is not None
    assert nine.ci95 is not None
    assert width(three) > 2 * width(nine)


def width(found: Knee) -> float:
    assert found.ci95 is not None
    low, high = found.ci95
    assert low is not None
    assert high is not None
    return high - low


def test_many_schedules_are_drawn_at_random_but_always_alike() -> None:
    rates = range(2, 20, 2)
    curve = [(r, [1 - r / 150 + (s % 5 - 2) / 100 for s in range(9)]) for r in rates]
    assert knee(*curve) == knee(*curve)
    assert knee(*curve).ci95 is not None


def test_a_schedule_missing_at_some_rates_still_counts_at_the_others() -> None:
    samples = [
        Sample(rate, schedule, 1.0 - rate / 100)
        for rate in (2.0, 4.0, 8.0)
        for schedule in range(3)
        if (rate, schedule) != (4.0, 1)
    ]
    found = find_knee(samples, 0.95)
    assert found.rate_rps == pytest.approx(5.0)
    assert found.schedules == 3
