"""A sweep judged as a whole: flags, doubts and the contract of its JSON."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from loadgen.analysis.knee import Flag
from loadgen.model import Basis
from tests.sweeps import (
    DONE,
    PLAN,
    RESTED,
    as_json,
    grid,
    part,
    point_run,
    quantiles,
    spoilt,
    swept,
)

GOOD = {2.0: [100, 100, 100], 4.0: [99, 98, 100], 8.0: [60, 50, 55]}


def codes(summary: Any) -> list[str]:
    return [reason.code for reason in summary.verdict.warnings]


def test_the_json_has_the_keys_that_other_programs_rely_on() -> None:
    found = as_json(swept(grid(GOOD)))
    assert found["schema"] == "loadgen.sweep/1"
    assert found["basis"] == "measured"
    assert found["knee"]["target"] == 0.95
    assert 4.0 < found["knee"]["rate_rps"] < 8.0
    assert len(found["knee"]["ci95"]) == 2
    assert found["knee"]["flags"] == ["cliff"]
    point = found["curve"][0]
    assert point["offered_rps"] == 2.0
    assert set(point) >= {"goodput", "outcomes", "latency", "groups", "shed"}
    assert set(point["goodput"]) >= {"ratio", "rate_rps", "ci95"}
    assert set(point["latency"]) == {"ttft_s", "itl_s", "tpot_s", "e2e_s"}
    assert len(found["runs"]) == 9
    assert found["verdict"]["status"] == "valid"


def test_the_json_is_strict() -> None:
    summary = swept([*grid(GOOD), spoilt(16.0)], basis=Basis.STAND_IN)

    def refuse(word: str) -> None:
        raise AssertionError(word)

    json.loads(msgspec.json.encode(summary), parse_constant=refuse)


def test_nothing_usable_is_invalid_and_has_no_capacity() -> None:
    found = swept([spoilt(2.0), spoilt(4.0)])
    assert found.verdict.status == "invalid"
    assert found.knee.rate_rps is None
    assert Flag.CLIENT_LIMITED in found.knee.flags


def test_a_run_made_once_more_clears_the_client() -> None:
    spoilt_then_made = [*grid(GOOD), spoilt(8.0, 0)]
    assert Flag.CLIENT_LIMITED not in swept(spoilt_then_made).knee.flags
    assert codes(swept(spoilt_then_made)) == ["run_left_out"]
    never = swept([*grid(GOOD), spoilt(16.0, 0)])
    assert Flag.CLIENT_LIMITED in never.knee.flags


def test_runs_left_out_alike_are_one_doubt() -> None:
    out = [spoilt(16.0, at) for at in range(6)]
    (doubt,) = swept([*grid(GOOD), *out]).verdict.warnings
    assert "6 of 15 runs" in doubt.text
    assert "and 2 more" in doubt.text


def test_an_engine_that_restarted_is_flagged() -> None:
    found = swept([*grid(GOOD), point_run(16.0, 0, engine_restarted=True)])
    assert Flag.ENGINE_RESTARTED in found.knee.flags
    assert Flag.ENGINE_RESTARTED in swept(grid(GOOD), restarted=True).knee.flags


def test_an_unfinished_sweep_says_so() -> None:
    progress = msgspec.structs.replace(
        DONE, status="interrupted", text="5 of 9 runs made: interrupted by the user"
    )
    found = swept(grid({2.0: [100, 100]}), progress=progress)
    (doubt,) = [r for r in found.verdict.warnings if r.code == "not_complete"]
    assert "5 of 9" in doubt.text
    assert "--resume" in doubt.remedy


def test_a_rate_with_one_run_is_doubted_but_not_where_rates_are_sought() -> None:
    runs = [*grid(GOOD), point_run(1.0, 100)]
    assert "one_run" in codes(swept(runs))
    sought = msgspec.structs.replace(PLAN, rates="auto", rates_rps=[])
    assert "one_run" not in codes(swept(runs, plan=sought))


def test_a_run_begun_before_the_engine_was_at_rest_is_doubted() -> None:
    busy = msgspec.structs.replace(RESTED, how="not empty", note="3 were still open")
    found = swept([*grid(GOOD), point_run(2.0, 100, 3, settle=busy)])
    assert "not_settled" in codes(found)


def test_answers_cut_after_a_first_token_in_time_are_noticed_below_the_knee() -> None:
    waits = dict.fromkeys(("ttft_s", "itl_s", "tpot_s", "e2e_s"), quantiles())
    cut = waits | {"e2e_s": quantiles(n_cut=7)}
    runs = [point_run(2.0, 0, at, all=part(100, latency=cut)) for at in range(3)]
    found = swept([*runs, *grid({8.0: [10, 10, 10]})])
    assert any("raise --drain" in words for words in found.findings)


def test_runs_short_beside_their_answers_are_noticed() -> None:
    slow = dict.fromkeys(("ttft_s", "itl_s", "tpot_s", "e2e_s"), quantiles(p50=9.0))
    runs = [point_run(2.0, 0, at, all=part(100, latency=slow)) for at in range(3)]
    assert any("short beside answers" in words for words in swept(runs).findings)
    assert swept(grid(GOOD)).findings == []


def test_each_group_has_a_knee_of_its_own() -> None:
    runs = [
        point_run(rate, 90, at, groups={"short": part(100), "long": part(long)})
        for rate, long in ((2.0, 100), (4.0, 50))
        for at in range(3)
    ]
    found = swept(runs)
    assert found.group_knees["short"].at_least_rps == 4.0
    assert found.group_knees["long"].rate_rps == pytest.approx(2.2)


def test_one_group_alone_needs_no_knee_beside_the_whole() -> None:
    runs = [point_run(2.0, 90, groups={"short": part(90)})]
    assert swept(runs).group_knees == {}
