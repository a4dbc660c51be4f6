"""What holds of every judgement, whatever the records say."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from loadgen.analysis.client import ClientFacts
from loadgen.analysis.stats import spread, wilson
from loadgen.analysis.summary import Summary, encode
from loadgen.model import (
    Accepted,
    Attribution,
    Confidence,
    Ending,
    Layer,
    Outcome,
    RequestRecord,
    Resource,
    TokenSource,
)
from tests.runs import judged

MAX_NS = 2**53 - 1
instants = st.none() | st.integers(-MAX_NS, MAX_NS)
counts = st.none() | st.integers(-(10**6), 10**9)
words = st.none() | st.text(max_size=8)

attributions = st.builds(
    Attribution,
    layer=st.sampled_from(Layer),
    limiting_resource=st.sampled_from(Resource),
    accepted=st.sampled_from(Accepted),
    evidence=st.lists(st.text(max_size=8), max_size=3).map(tuple),
    confidence=st.sampled_from(Confidence),
)


@st.composite
def hostile_records(draw: st.DrawFn) -> list[RequestRecord]:
    """Records as no run would write them, each seq once."""
    size = draw(st.integers(0, 12))
    return [draw(_hostile(seq)) for seq in range(size)]


def _hostile(seq: int) -> st.SearchStrategy[RequestRecord]:
    return st.builds(
        RequestRecord,
        seq=st.just(seq),
        request_id=st.text(max_size=4),
        group=st.text(max_size=4),
        tenant=words,
        scheduled_ns=st.integers(-MAX_NS, MAX_NS),
        started_ns=instants,
        connected_ns=instants,
        sent_ns=instants,
        first_token_ns=instants,
        first_answer_ns=instants,
        last_token_ns=instants,
        end_ns=instants,
        token_ns=st.lists(st.integers(-MAX_NS, MAX_NS), max_size=5),
        token_exact=st.lists(st.booleans(), max_size=5),
        status=st.none() | st.integers(-1, 10**6),
        outcome=st.sampled_from(Outcome),
        ending=st.sampled_from(Ending),
        finish_reason=words,
        attribution=st.none() | attributions,
        prompt_tokens=counts,
        planned_prompt_tokens=counts,
        prompt_tokens_source=st.sampled_from(TokenSource),
        output_tokens=counts,
        output_tokens_source=st.sampled_from(TokenSource),
        max_tokens=counts,
        model=words,
        receive_clock=words,
        findings=st.lists(st.text(max_size=4), max_size=3),
    )


def strictly(raw: bytes) -> Any:
    """Decode as RFC 8259 has it: no NaN, no Infinity."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(raw, parse_constant=refuse)


def numbers(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [n for each in value.values() for n in numbers(each)]
    if isinstance(value, list):
        return [n for each in value for n in numbers(each)]
    return [value] if isinstance(value, float) else []


def conserves(summary: Summary, offered: int) -> None:
    lost_by_cause = sum(row.count for row in summary.rejections)
    assert sum(summary.outcomes.values()) == offered
    assert summary.outcomes["ok"] + lost_by_cause == offered
    for row in summary.rejections:
        assert sum(row.by_outcome.values()) == row.count
        assert sum(row.statuses.values()) == row.count
    unrecorded = offered - sum(g.offered for g in summary.groups.values())
    assert 0 <= unrecorded <= summary.verdict.lost_records
    for group in summary.groups.values():
        assert sum(group.outcomes.values()) == group.offered
    assert sum(g.goodput.good for g in summary.groups.values()) == summary.goodput.good


@settings(deadline=None, max_examples=60)
@given(
    records=hostile_records(),
    missing=st.integers(0, 3),
    duration_s=st.sampled_from([0.0, 1.0, 1e6]),
    stream=st.booleans(),
    number=st.floats(),
    facts=st.none()
    | st.builds(ClientFacts, steal_share=st.floats(), loop_lag_max_ns=st.integers()),
)
def test_any_records_conserve_and_give_strict_json(
    records: list[RequestRecord],
    missing: int,
    duration_s: float,
    stream: bool,
    number: float,
    facts: ClientFacts | None,
) -> None:
    offered = len(records) + missing
    summary = judged(
        records,
        offered=offered,
        duration_s=duration_s,
        slo="ttft=2s,tpot=50ms,e2e=30s",
        model="m",
        stream=stream,
        client=facts,
        telemetry={"x": [number, {"y": number}]},
    )
    conserves(summary, offered)
    assert all(map(math.isfinite, numbers(strictly(encode(summary)))))


@settings(deadline=None, max_examples=40)
@given(
    records=hostile_records(),
    limit_ms=st.integers(1, 10**6),
    more_ms=st.integers(0, 10**6),
)
def test_a_longer_limit_never_lowers_goodput(
    records: list[RequestRecord], limit_ms: int, more_ms: int
) -> None:
    def good(ms: int) -> int:
        return judged(records, slo=f"ttft={ms}ms,e2e={ms}ms").goodput.good

    assert good(limit_ms) <= good(limit_ms + more_ms)


@settings(deadline=None, max_examples=40)
@given(records=hostile_records())
def test_one_more_refusal_never_raises_the_share(records: list[RequestRecord]) -> None:
    more = replace(_refusal(), seq=len(records))
    before = judged(records).goodput.ratio
    after = judged([*records, more]).goodput.ratio
    assert after is not None
    assert before is None or after <= before


def _refusal() -> RequestRecord:
    return RequestRecord(
        seq=0,
        request_id="",
        group="g",
        scheduled_ns=0,
        outcome=Outcome.HTTP_REJECT,
        ending=Ending.COMPLETE,
    )


@settings(deadline=None)
@given(st.lists(st.none() | st.floats(-1e15, 1e15), max_size=30))
def test_a_spread_lies_within_its_values(values: list[float | None]) -> None:
    found = spread(np.array(values, dtype=np.float64))
    present = [v for v in values if v is not None]
    assert (found.n, found.n_missing) == (len(present), len(values) - len(present))
    if present:
        levels = [found.p50, found.p90, found.p95, found.p99, found.max]
        assert all(level is not None for level in levels)
        assert levels == sorted(levels, key=float)  # type: ignore[arg-type]
        slack = 1e-6 + 1e-12 * max(map(abs, present))
        assert min(present) - slack <= (found.p50 or 0.0) <= max(present) + slack


@settings(deadline=None)
@given(st.integers(1, 10**7), st.data())
def test_wilson_holds_the_share(trials: int, data: st.DataObject) -> None:
    hits = data.draw(st.integers(0, trials))
    interval = wilson(hits, trials)
    assert interval is not None
    assert 0 <= interval[0] <= hits / trials <= interval[1] <= 1
