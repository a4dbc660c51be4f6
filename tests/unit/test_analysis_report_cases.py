"""The handed report and stats cases that speak of one run's judgement."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from loadgen.analysis.knee import Sample, find_knee
from loadgen.analysis.stats import MIN_SAMPLES_P99, spread
from loadgen.analysis.summary import encode
from loadgen.analysis.validity import Reason
from loadgen.model import Outcome
from tests.cases import Case, cases
from tests.runs import answered, judged, ns, record
from tests.sweeps import run_of, swept

Observed = dict[str, Any]

OUR_WORD = {"client could not keep the schedule": "send_lag"}
"""The cases' words, where ours are others."""

NOT_OURS = {"why", "not", "verdict"}
"""Described, or said by another name."""


def few_samples(given: Case) -> Observed:
    found = spread(np.arange(given["n"], dtype=np.float64))
    enough = spread(np.arange(MIN_SAMPLES_P99, dtype=np.float64))
    assert enough.flag is None
    return {"flag": found.flag, "need_at_least": MIN_SAMPLES_P99}


def no_number(given: Case) -> Observed:
    nan = float(given["p99"].removeprefix("float "))
    summary = judged([answered(events_ms=[1])], telemetry={"p99": nan})

    def refuse(word: str) -> None:
        raise AssertionError(word)

    decoded = json.loads(encode(summary), parse_constant=refuse)
    return {
        "json": json.dumps(decoded["telemetry"]["p99"]),
        "strict_parser_ok": True,
    }


def nobody_knows(given: Case) -> Observed:
    one = record(status=given["status"], outcome=Outcome.HTTP_REJECT)
    (row,) = judged([one]).rejections
    return {"layer": row.layer}


def far_behind(given: Case) -> Observed:
    late_s = given["max_send_delay_s"]
    records = [
        answered(
            seq,
            events_ms=[late_s * 1e3],
            sent_ns=ns(late_s * 1e3 * seq / 50),
            started_ns=ns(late_s * 1e3 * seq / 50),
        )
        for seq in range(50)
    ]
    summary = judged(records)
    run = run_of(summary, records, rate_rps=given["planned_rps"])
    knee = swept([run]).knee
    assert "client_limited" in knee.flags
    return {
        "run_valid": summary.verdict.status == "valid",
        "reason": next(_codes(summary.verdict.reasons)),
        "capacity_rps": knee.rate_rps,
    }


def still_passes(given: Case) -> Observed:
    samples = [
        Sample(rate, 0, ratio)
        for rate, ratio in zip(given["rates"], given["goodput_fraction"], strict=True)
    ]
    knee = find_knee(samples, 0.95)
    assert "never_saturated" in knee.flags
    return {"capacity_rps": knee.rate_rps, "text": knee.text}


def _codes(reasons: list[Reason]) -> Any:
    return (reason.code for reason in reasons)


PLAYS: dict[str, Callable[[Case], Observed]] = {
    "rep-04-never-saturated": still_passes,
    "rep-06-json-nan": no_number,
    "rep-08-unknown-layer": nobody_knows,
    "rep-09-client-limited-run": far_behind,
    "sta-20-p99-of-few": few_samples,
}
CASES = cases("report") | cases("stats")


def test_every_case_is_played() -> None:
    assert set(PLAYS) == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_report_case(name: str) -> None:
    case = CASES[name]
    observed = PLAYS[name](case["input"])
    if "verdict" in case["expect"]:
        assert observed["flag"] == case["expect"]["verdict"]
    for key, value in case["expect"].items():
        if key not in NOT_OURS:
            wanted = OUR_WORD.get(value, value) if isinstance(value, str) else value
            assert observed[key] == wanted, key
