"""What voids a run, what only qualifies it, and that each says what to do."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from loadgen.analysis.goodput import Slo
from loadgen.analysis.summary import Summary
from loadgen.analysis.validity import Reason, lag_limit_ns
from loadgen.model import NO_RECORD, Basis, Outcome, RequestRecord
from tests.runs import SOUND, answered, judged, ns, record, refused


def lagging(lag_ms: float) -> list[RequestRecord]:
    return [
        answered(seq, events_ms=[100], sent_ns=ns(lag_ms), started_ns=ns(lag_ms))
        for seq in range(200)
    ]


def reasons(summary: Summary) -> list[str]:
    return _told(summary.verdict.reasons)


def warnings(summary: Summary) -> list[str]:
    return _told(summary.verdict.warnings)


def _told(said: list[Reason]) -> list[str]:
    assert all(reason.text and reason.remedy for reason in said)
    return [reason.code for reason in said]


def test_a_sound_run_is_valid() -> None:
    summary = judged([answered(0, events_ms=[1, 2]), refused(1)], slo="ttft=2s")
    assert summary.verdict.status == "valid"
    assert (reasons(summary), warnings(summary)) == ([], [])


@pytest.mark.parametrize(
    ("slo", "limit_ms"),
    [(Slo(), 10), (Slo(ttft_ns=ns(2000)), 10), (Slo(ttft_ns=ns(200)), 2)],
)
def test_the_lag_limit_is_10_ms_or_a_hundredth_of_the_ttft_target(
    slo: Slo, limit_ms: float
) -> None:
    assert lag_limit_ns(slo) == ns(limit_ms)


@pytest.mark.parametrize(
    ("lag_ms", "slo", "said"),
    [
        (10.0, None, []),
        (10.1, None, ["send_lag"]),
        (5.0, "ttft=500ms", []),
        (5.1, "ttft=500ms", ["send_lag"]),
    ],
)
def test_a_late_client_voids_the_run(
    lag_ms: float, slo: str | None, said: list[str]
) -> None:
    assert reasons(judged(lagging(lag_ms), slo=slo)) == said


def test_a_slow_connect_does_not_void_the_run() -> None:
    records = [
        answered(
            seq, events_ms=[900], started_ns=0, connected_ns=ns(500), sent_ns=ns(501)
        )
        for seq in range(20)
    ]
    summary = judged(records)
    assert reasons(summary) == []
    assert summary.client.send_lag_s.p50 == pytest.approx(0.501)
    assert summary.client.client_lag_s.p50 == pytest.approx(0.001)
    assert summary.client.connect_s.p50 == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("records", "evidence", "said"),
    [
        ([record(0, outcome=Outcome.UNSENT, sent_ns=None)], {}, ["not_fully_issued"]),
        ([answered(events_ms=[1])], {"interrupted": True}, ["not_fully_issued"]),
        (
            [answered(events_ms=[1])],
            {"client": replace(SOUND, stopped="disk full")},
            ["not_fully_issued"],
        ),
        ([record(0, outcome=Outcome.INTERNAL)], {}, ["internal"]),
        (
            [record(0, outcome=Outcome.INTERNAL, detail=NO_RECORD)],
            {},
            ["lost_records"],
        ),
        ([record(0, outcome=Outcome.CLIENT_ERROR)], {}, ["client_errors"]),
        (
            [answered(events_ms=[1])],
            {"client": replace(SOUND, clock_step_ns=-20_001)},
            ["clock_step"],
        ),
        ([answered(events_ms=[1])], {"client": None}, ["no_client_report"]),
        ([answered(events_ms=[1])], {"edits": ["x was changed"]}, ["edited"]),
    ],
)
def test_what_voids_a_run(
    records: list[RequestRecord], evidence: dict[str, Any], said: list[str]
) -> None:
    summary = judged(records, **evidence)
    assert reasons(summary) == said
    assert summary.verdict.status == "invalid"


def test_a_doubled_record_voids_the_run() -> None:
    one = answered(events_ms=[1])
    assert reasons(judged([one, one], offered=1)) == ["surplus_records"]


def test_a_record_that_is_not_there_is_lost_and_counted_as_internal() -> None:
    summary = judged([answered(0, events_ms=[1])], offered=3)
    assert reasons(summary) == ["lost_records"]
    assert summary.verdict.lost_records == 2
    assert summary.outcomes == {"ok": 1, "internal": 2}
    (row,) = summary.rejections
    assert (row.layer, row.count, row.evidence) == ("client", 2, [NO_RECORD])
    assert summary.goodput.ratio == pytest.approx(1 / 3, abs=1e-6)


def test_a_simulated_run_has_no_client_to_answer_for() -> None:
    summary = judged([answered(events_ms=[1])], client=None, basis=Basis.SIMULATED)
    assert summary.verdict.status == "valid"
    assert summary.client.processes is None


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"loop_lag_p99_ns": ns(11)}, "loop_lag"),
        ({"gc_pause_max_ns": ns(80)}, "gc_pause"),
        ({"steal_share": 0.2}, "steal"),
    ],
)
def test_what_only_warns(facts: dict[str, Any], said: str) -> None:
    summary = judged([answered(events_ms=[1])], client=replace(SOUND, **facts))
    assert summary.verdict.status == "valid"
    assert warnings(summary) == [said]


@pytest.mark.parametrize(("coalesced", "said"), [(1, []), (2, ["coalesced"])])
def test_coalesced_stamps_warn_above_one_in_a_hundred(
    coalesced: int, said: list[str]
) -> None:
    """The last token of an answer does not count: its read holds the end as well."""
    exact = [False] * coalesced + [True] * (100 - coalesced) + [False]
    summary = judged([answered(events_ms=range(1, 102), token_exact=exact)])
    assert warnings(summary) == said
    assert summary.client.coalesced_share == coalesced / 100


def test_two_ways_of_counting_tokens_are_never_mixed_silently() -> None:
    counted = answered(0, events_ms=[1, 2])
    guessed = answered(1, events_ms=[1, 2], output_tokens_source="estimate")
    assert warnings(judged([counted, guessed])) == ["mixed_token_sources"]
