"""Which rates are offered, in which order, and what is left after a break."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from loadgen.control.rates import (
    Course,
    Done,
    Grid,
    Search,
    Step,
    geometric,
    parse_rates,
)
from loadgen.errors import UsageError


def test_a_list_is_sorted() -> None:
    assert parse_rates("8/s, 2/s,240/min") == (2.0, 4.0, 8.0)


def test_a_range_may_name_its_count() -> None:
    assert parse_rates("2/s..40/s") == (2.0, 40.0, None)
    rates = parse_rates("2/s..32/s:5")
    assert rates == (2.0, 4.0, 8.0, 16.0, 32.0)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("2/s,2/s", "twice"),
        ("8/s..2/s", "does not rise"),
        ("2/s..8/s:1", "no number of rates"),
        ("2/s..8/s:x", "no number of rates"),
        ("2..8", "not a rate"),
        ("", "not a rate"),
        ("2/s,-4/s", "not a rate"),
        ("0/s,4/s", "above zero"),
    ],
)
def test_what_is_no_list_of_rates_is_refused_by_name(text: str, part: str) -> None:
    with pytest.raises(UsageError, match=part) as refused:
        parse_rates(text)
    assert "--rates" in str(refused.value)


def test_a_narrow_range_gives_no_rate_twice() -> None:
    rates = geometric(2.0, 2.001, 9)
    assert rates == (2.0, 2.001) or sorted(set(rates)) == list(rates)


def walk(course: Course, ratio: Callable[[Step], float | None]) -> list[Step]:
    """Make the whole course."""
    done: list[Done] = []
    steps = []
    while (step := course.next(done)) is not None:
        assert len(done) < 300
        assert course.planned(done) > len(done)
        steps.append(step)
        done.append(Done(*step, ratio(step)))
    assert course.planned(done) == len(done)
    return steps


def test_a_grid_is_made_in_rounds_each_shuffled() -> None:
    steps = walk(Grid("", (2.0, 4.0, 8.0, 16.0), 3), lambda _: 1.0)
    rounds = [steps[at : at + 4] for at in (0, 4, 8)]
    for schedule, one in enumerate(rounds):
        assert {step.rate_rps for step in one} == {2.0, 4.0, 8.0, 16.0}
        assert {step.schedule for step in one} == {schedule}
    orders = [tuple(step.rate_rps for step in one) for one in rounds]
    assert len(set(orders)) > 1
    assert any(list(order) != sorted(order) for order in orders)


def test_a_grid_goes_on_where_it_was_interrupted() -> None:
    course = Grid("", (2.0, 4.0), 2)
    whole = walk(course, lambda _: 1.0)
    done = [Done(*step, 1.0) for step in whole[:2]]
    assert course.next(done) == whole[2]


def breaking_at(knee_rps: float) -> Callable[[Step], float]:
    def ratio(step: Step) -> float:
        return 1.0 if step.rate_rps <= knee_rps else 0.95 * knee_rps / step.rate_rps

    return ratio


@pytest.mark.parametrize("knee_rps", [0.3, 1.0, 1.7, 9.0, 100.0, 700.0])
def test_a_search_brackets_the_knee_and_tries_around_it(knee_rps: float) -> None:
    steps = walk(Search("auto", 0.95, 3), breaking_at(knee_rps))
    often = {step.rate_rps for step in steps if step.schedule == 2}
    assert min(often) <= knee_rps <= max(often)
    assert max(often) / min(often) < 8.1
    assert len(often) >= 6


def test_a_search_follows_a_knee_that_one_lucky_run_has_hidden() -> None:
    """Schedule 0 holds to 16/s, the others break below 6/s: the grid grows down."""

    def ratio(step: Step) -> float:
        return breaking_at(16.0 if step.schedule == 0 else 6.0)(step)

    often = {s.rate_rps for s in walk(Search("auto", 0.95, 5), ratio) if s.schedule}
    assert min(often) < 10


def test_a_search_ends_where_the_client_does() -> None:
    def ratio(step: Step) -> float | None:
        return None if step.rate_rps > 30 else 1.0

    steps = walk(Search("auto", 0.95, 2), ratio)
    assert max(step.rate_rps for step in steps) <= 64


def test_a_server_that_always_fails_or_never_does_ends_the_search() -> None:
    assert walk(Search("auto", 0.95, 2), lambda _: 0.0)
    assert walk(Search("auto", 0.95, 2), lambda _: 1.0)


def test_a_search_begins_where_it_is_told() -> None:
    assert Search("auto:8/s", 0.95, 3, 8.0).next([]) == Step(8.0, 0)
