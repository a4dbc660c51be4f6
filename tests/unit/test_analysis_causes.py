"""The limiting-layers table, fairness among tenants, and what is odd."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from loadgen.analysis.causes import MAX_EVIDENCE
from loadgen.analysis.findings import Finding
from loadgen.analysis.summary import Summary
from loadgen.model import (
    Accepted,
    Attribution,
    Confidence,
    Layer,
    Outcome,
    RequestRecord,
    Resource,
    TokenSource,
)
from tests.runs import QUEUE_FULL, answered, judged, record, refused

GATEWAY = Attribution(
    layer=Layer.GATEWAY,
    limiting_resource=Resource.RATE_LIMIT_REQUESTS,
    accepted=Accepted.NO,
    evidence=("x-envoy-ratelimited",),
    confidence=Confidence.MEDIUM,
)


def test_one_row_a_cause_with_all_that_was_said_for_it() -> None:
    records = [
        answered(0, events_ms=[1]),
        refused(1, group="long-document"),
        refused(2, status=200, outcome=Outcome.IN_STREAM_REJECT),
        refused(3, attribution=replace(QUEUE_FULL, confidence=Confidence.MEDIUM)),
        refused(4, status=429, attribution=GATEWAY),
        record(5, outcome=Outcome.RESET, sent_ns=1),
    ]
    first, second, third = judged(records).rejections
    assert (first.layer, first.limiting_resource) == (
        Layer.ENGINE_ADMISSION,
        Resource.QUEUED_REQUESTS,
    )
    assert (first.unit, first.count, first.accepted) == ("requests", 3, Accepted.NO)
    assert first.by_outcome == {"http_reject": 2, "in_stream_reject": 1}
    assert first.by_group == {"long-document": 1, "short-question": 2}
    assert first.statuses == {"200": 1, "503": 2}
    assert first.confidence is Confidence.MEDIUM
    assert first.evidence == list(QUEUE_FULL.evidence)
    assert (second.layer, second.statuses) == (Layer.GATEWAY, {"429": 1})
    assert (third.layer, third.statuses) == (Layer.UNKNOWN, {"none": 1})
    assert third.confidence is Confidence.LOW


def test_evidence_that_differs_each_time_is_kept_short() -> None:
    records = [
        refused(seq, attribution=replace(QUEUE_FULL, evidence=(f"request {seq}",)))
        for seq in range(50)
    ]
    (row,) = judged(records).rejections
    assert len(row.evidence) == MAX_EVIDENCE + 1
    assert row.evidence[-1] == "more of the kind, not listed"


def test_a_cause_tells_how_long_the_refused_prompts_were() -> None:
    records = [
        refused(seq, prompt_tokens=tokens, prompt_tokens_source=TokenSource.TOKENIZE)
        for seq, tokens in enumerate([100, 300])
    ]
    (row,) = judged([*records, refused(2)]).rejections
    found = row.prompt_tokens.by_source["tokenize"]
    assert (found.min, found.per_request.mean, found.total) == (100, 200.0, 400)
    assert row.prompt_tokens.n_missing == 1


def test_tenants_are_held_against_their_part_of_the_load() -> None:
    records = [
        *(answered(seq, events_ms=[1], tenant="a") for seq in range(3)),
        *(refused(seq, tenant="b") for seq in range(3, 5)),
        answered(5, events_ms=[1], tenant="b"),
        answered(6, events_ms=[1]),
    ]
    found = judged(records).fairness
    assert found is not None
    assert list(found.tenants) == ["a", "b"]
    a, b = found.tenants["a"], found.tenants["b"]
    assert (a.offered, a.refused, a.good, a.goodput_ratio) == (3, 0, 3, 1.0)
    assert (b.offered, b.refused, b.offered_share, b.refused_share) == (3, 2, 0.5, 1.0)
    ratios = (1, 1 / 3)
    jain = sum(ratios) ** 2 / (2 * sum(r * r for r in ratios))
    assert found.jain_index == pytest.approx(jain, abs=1e-6)


def test_no_tenant_no_fairness() -> None:
    assert judged([answered(events_ms=[1])]).fairness is None


def finding(summary: Summary, code: str) -> Finding | None:
    return next((f for f in summary.findings if f.code == code), None)


def test_another_model_than_the_one_asked_for_is_told() -> None:
    records = [
        answered(0, events_ms=[1], model="big"),
        answered(1, events_ms=[1], model="small"),
        refused(2),
    ]
    told = finding(judged(records, model="big"), "model_fallback")
    assert told is not None
    assert (told.count, told.first_seq) == (1, 1)
    assert told.text == "asked for big, answered by small"
    assert finding(judged(records), "model_fallback") is None


@pytest.mark.parametrize(
    ("one", "code"),
    [
        (
            answered(events_ms=[1], output_tokens=10, max_tokens=64),
            "reply_shorter_than_asked",
        ),
        (
            answered(
                events_ms=[1], output_tokens=10, max_tokens=64, finish_reason="length"
            ),
            "reply_cut_below_max_tokens",
        ),
        (
            answered(
                events_ms=[1],
                planned_prompt_tokens=8000,
                prompt_tokens=2048,
                prompt_tokens_source=TokenSource.USAGE,
            ),
            "prompt_truncated",
        ),
        (answered(events_ms=[1], findings=["stale_connection"]), "stale_connection"),
    ],
)
def test_what_is_odd_about_an_answer(one: RequestRecord, code: str) -> None:
    told = finding(judged([one]), code)
    assert told is not None
    assert (told.count, told.first_seq) == (1, 0)


@pytest.mark.parametrize(
    "one",
    [
        answered(events_ms=[1, 2], output_tokens=3),  # the end sign is counted
        answered(events_ms=[1, 2], output_tokens=9, output_tokens_source="estimate"),
        answered(events_ms=[], output_tokens=5),
    ],
)
def test_events_may_differ_from_tokens_for_a_known_cause(one: RequestRecord) -> None:
    assert finding(judged([one]), "events_ne_tokens") is None


def test_a_finding_of_the_reading_is_not_told_twice() -> None:
    records = [
        answered(seq, events_ms=[1, 2], output_tokens=9, findings=["events_ne_tokens"])
        for seq in range(2)
    ]
    told = [f for f in judged(records).findings if f.code == "events_ne_tokens"]
    assert [f.count for f in told] == [2]


def test_damaged_lines_are_findings() -> None:
    told = finding(judged([answered(events_ms=[1])], flaws=["line 3 is torn"]), "flaw")
    assert told is not None
    assert told.text == "line 3 is torn"
