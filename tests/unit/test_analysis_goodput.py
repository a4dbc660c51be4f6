"""Goodput: over all that were offered, each judged by its own record."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from loadgen.analysis.goodput import Slo, parse_slo
from loadgen.errors import UsageError
from loadgen.model import Outcome, RequestRecord
from tests.runs import answered, judged, refused


def test_limits_are_read_with_their_units() -> None:
    slo = parse_slo("ttft=2s, TPOT=50ms,e2el=1m30s")
    assert slo == Slo(ttft_ns=2 * 10**9, tpot_ns=50 * 10**6, e2e_ns=90 * 10**9)
    assert slo.limits_s() == {"ttft_s": 2.0, "tpot_s": 0.05, "e2e_s": 90.0}
    assert parse_slo("ttft=2s").limits_s() == {"ttft_s": 2.0}


@pytest.mark.parametrize(
    "text",
    ["", "ttft", "ttft=", "ttft=2", "itl=5ms", "ttft=0s", "ttft=1s,ttft=2s", "=2s",
     "ttft=nan", "ttft=-1s", "e2e=1s,e2el=2s"],
)  # fmt: skip
def test_what_is_no_limit_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_slo(text)


def good(*records: RequestRecord, slo: str | None, stream: bool = True) -> int:
    return judged(records, slo=slo, stream=stream).goodput.good


def test_without_limits_good_means_ok() -> None:
    found = judged([answered(0, events_ms=[1]), refused(1)]).goodput
    assert (found.good, found.ratio, found.slo) == (1, 0.5, {})
    assert found.scope == "this schedule"


@pytest.mark.parametrize(
    "outcome", [each for each in Outcome if each is not Outcome.OK]
)
def test_only_ok_is_good_however_fast(outcome: Outcome) -> None:
    assert good(answered(events_ms=[1, 2], outcome=outcome), slo="ttft=1s") == 0


def test_a_streamed_answer_without_a_token_misses_a_ttft_limit() -> None:
    silent = answered(events_ms=[], end_ms=5)
    assert good(silent, slo="ttft=1s") == 0
    assert good(silent, slo="tpot=1s,e2e=1s") == 1


def test_an_answer_that_is_not_streamed_has_its_first_token_at_its_end() -> None:
    whole = answered(events_ms=[], end_ms=900)
    assert good(whole, slo="ttft=1s", stream=False) == 1
    assert good(whole, slo="ttft=500ms", stream=False) == 0


def test_tpot_without_streaming_is_met_by_nobody_and_the_verdict_warns() -> None:
    summary = judged([answered(events_ms=[5])], slo="tpot=1s", stream=False)
    assert summary.goodput.good == 0
    assert [w.code for w in summary.verdict.warnings] == ["slo_not_measurable"]


def test_tokens_that_came_at_once_have_no_tpot_to_fail() -> None:
    assert good(answered(events_ms=[5, 5, 5]), slo="tpot=1ms") == 1


def test_an_unknown_tpot_is_a_miss_and_the_verdict_warns() -> None:
    unknown = replace(answered(events_ms=[5, 6]), output_tokens=None)
    summary = judged([unknown], slo="tpot=1s")
    assert summary.goodput.good == 0
    assert [w.code for w in summary.verdict.warnings] == ["tpot_unknown"]


def test_contradicting_stamps_are_a_miss() -> None:
    assert good(answered(events_ms=[50], end_ms=40), slo="ttft=1s") == 0


def test_rates_are_per_second_of_schedule_and_none_without_one() -> None:
    records = [answered(seq, events_ms=[9000]) for seq in range(6)]
    assert judged(records, duration_s=2).goodput.rate_rps == 3.0
    assert judged(records, duration_s=0).goodput.rate_rps is None
    assert judged(records, duration_s=0).throughput.ok_rps_over_schedule is None


def test_nothing_offered_is_no_ratio() -> None:
    found = judged([], offered=0, slo="ttft=1s").goodput
    assert found.ratio is None
    assert found.ci95 is None
    assert found.attainment == {"ttft_s": None}
