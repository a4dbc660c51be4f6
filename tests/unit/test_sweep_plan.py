"""From flags to a plan, and from a plan back to the flags."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from loadgen.cli.options import (
    EvidenceFlags,
    OfferFlags,
    OutputFlags,
    PlanFlags,
    TargetFlags,
)
from loadgen.cli.sweep import SweepFlags
from loadgen.cli.sweep_plan import Asked, course_of, make_sweep_plan, resumed
from loadgen.cli.sweep_source import Schedules
from loadgen.control.journal import SweepPlan
from loadgen.control.rates import Grid, Search
from loadgen.errors import RunDirError, UsageError
from loadgen.units import NS_PER_S


def asked(to: TargetFlags | None = None, **what: Any) -> Asked:
    return Asked(
        what=SweepFlags(**what),
        plan=PlanFlags(),
        to=to or TargetFlags(),
        how=OfferFlags(drain="1m", warmup=4),
        evidence=EvidenceFlags(),
        output=OutputFlags(),
    )


def plan_of(given: Asked) -> SweepPlan:
    schedules = Schedules(flags=given.plan, endpoint=None, model="m")
    return make_sweep_plan(given, schedules, datetime(2026, 12, 1, tzinfo=UTC)).plan


def test_a_list_of_rates() -> None:
    found = plan_of(asked(rates="4/s,2/s"))
    assert found.rates_rps == [2.0, 4.0]
    assert found.schedules == 3
    assert found.seeds == [7, 8, 9]
    assert found.run_ns == 30 * NS_PER_S
    assert found.target == 0.95
    assert isinstance(course_of(found), Grid)


def test_a_range_gets_as_many_rates_as_fit() -> None:
    assert len(plan_of(asked(rates="2/s..40/s")).rates_rps) == 9
    assert len(plan_of(asked(rates="2/s..40/s:6")).rates_rps) == 6
    short = plan_of(asked(rates="2/s..40/s", budget="5m"))
    assert len(short.rates_rps) < 9


def test_rates_to_be_found() -> None:
    found = plan_of(asked(rates="auto:0.5/s"))
    assert found.rates_rps == []
    course = course_of(found)
    assert isinstance(course, Search)
    first = course.next([])
    assert first is not None
    assert first.rate_rps == 0.5


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        ({"target": "x"}, "--target"),
        ({"target": "0%"}, "--target"),
        ({"target": "101%"}, "--target"),
        ({"settle": "5"}, "--settle"),
        ({"budget": "soon"}, "--budget"),
        ({"rates": "auto:fast"}, "--rates"),
        ({"rates": "fast"}, "--rates"),
    ],
)
def test_a_flag_that_cannot_be_used_is_named(flags: dict[str, Any], part: str) -> None:
    with pytest.raises(UsageError, match=part):
        plan_of(asked(**flags))


def test_targets_as_people_type_them() -> None:
    assert plan_of(asked(target="90%")).target == pytest.approx(0.9)
    assert plan_of(asked(target="0.9")).target == pytest.approx(0.9)


SECRET = TargetFlags(
    url="http://127.0.0.1:1",
    header=["X-Key: hush"],
    metrics_url=["http://h/metrics?token=hush"],
    api_key_env="KEY",
    ca_file=Path("/ca.pem"),
)


def test_no_secret_is_in_the_plan() -> None:
    raw = msgspec.json.encode(plan_of(asked(SECRET, rates="2/s,4/s")))
    assert b"hush" not in raw
    assert b"X-Key" in raw
    assert b'"KEY"' in raw


def again(plan: SweepPlan, **given: Any) -> Asked:
    """The flags after a detour through the journal's JSON."""
    kept = msgspec.json.decode(msgspec.json.encode(plan.flags))
    found = asked(given.pop("to", None), resume=Path("x"), **given)
    return resumed(found, kept)


def test_a_resume_begins_with_the_first_flags() -> None:
    first = asked(rates="2/s,4/s", budget="20m")
    back = again(plan_of(first))
    assert back == replace(first, what=replace(first.what, resume=Path("x")))


def test_a_resume_takes_what_the_journal_could_not_keep_from_now() -> None:
    first = asked(SECRET, rates="2/s,4/s")
    now = TargetFlags(
        header=["X-Key: hush2"], metrics_url=["http://h/metrics?token=hush2"]
    )
    back = again(plan_of(first), to=now)
    assert back.to.header == ["X-Key: hush2"]
    assert back.to.metrics_url == ["http://h/metrics?token=hush2"]
    assert back.to.url == SECRET.url
    assert back.to.ca_file == SECRET.ca_file
    with pytest.raises(UsageError, match="X-Key"):
        again(plan_of(first))


def test_a_resume_does_not_change_a_sweep() -> None:
    first = plan_of(asked(rates="2/s,4/s"))
    assert again(first, rates="2/s,4/s").what.rates == "2/s,4/s"
    with pytest.raises(UsageError, match="--rates 2/s,4/s"):
        again(first, rates="2/s,8/s")


def test_flags_of_another_version_are_refused_in_one_line() -> None:
    first = plan_of(asked(rates="2/s,4/s"))
    first.flags["plan"]["seed"] = "seven"
    with pytest.raises(RunDirError, match="cannot be read"):
        again(first)
