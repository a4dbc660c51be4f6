"""Records and runs made by hand, for tests of what is judged from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from loadgen.analysis.client import ClientFacts
from loadgen.analysis.goodput import Slo, parse_slo
from loadgen.analysis.summary import Evidence, Summary, Terms, judge
from loadgen.model import (
    Accepted,
    Attribution,
    Basis,
    Confidence,
    Ending,
    Layer,
    Manifest,
    Outcome,
    RequestRecord,
    Resource,
    TokenSource,
)
from loadgen.units import NS_PER_MS, NS_PER_S

SOUND = ClientFacts(
    loop_lag_p50_ns=20_000,
    loop_lag_p99_ns=100_000,
    loop_lag_max_ns=200_000,
    clock_step_ns=0,
    gc_collections=0,
)
"""A client with nothing to hide."""

QUEUE_FULL = Attribution(
    layer=Layer.ENGINE_ADMISSION,
    limiting_resource=Resource.QUEUED_REQUESTS,
    accepted=Accepted.NO,
    evidence=("the body says the queue is full",),
    confidence=Confidence.HIGH,
)


def ns(milliseconds: float) -> int:
    return round(milliseconds * NS_PER_MS)


def record(seq: int = 0, **fields: Any) -> RequestRecord:
    """An ok request that was sent when it was due; give the fields that matter."""
    due = fields.setdefault("scheduled_ns", 0)
    fields.setdefault("request_id", f"r-{seq}")
    fields.setdefault("group", "short-question")
    fields.setdefault("started_ns", due)
    fields.setdefault("sent_ns", due)
    fields.setdefault("outcome", Outcome.OK)
    fields.setdefault("ending", Ending.COMPLETE)
    return RequestRecord(seq=seq, **fields)


def answered(
    seq: int = 0,
    *,
    events_ms: Sequence[float],
    output_tokens: int | None = None,
    end_ms: float | None = None,
    due_ms: float = 0,
    **fields: Any,
) -> RequestRecord:
    """A streamed answer with a token event at each instant, ms since t0."""
    stamps = [ns(at) for at in events_ms]
    tokens = len(stamps) if output_tokens is None else output_tokens
    return record(
        seq,
        **{
            "scheduled_ns": ns(due_ms),
            "status": 200,
            "first_token_ns": stamps[0] if stamps else None,
            "first_answer_ns": stamps[0] if stamps else None,
            "last_token_ns": stamps[-1] if stamps else None,
            "end_ns": ns(end_ms) if end_ms is not None else (stamps or [0])[-1],
            "token_ns": stamps,
            "token_exact": [True] * len(stamps),
            "finish_reason": "stop",
            "output_tokens": tokens,
            "output_tokens_source": TokenSource.USAGE,
            "receive_clock": "kernel",
            **fields,
        },
    )


def refused(
    seq: int = 0, *, at_ms: float = 1, due_ms: float = 0, **fields: Any
) -> RequestRecord:
    """A 503 from the engine's admission."""
    return record(
        seq,
        **{
            "scheduled_ns": ns(due_ms),
            "status": 503,
            "outcome": Outcome.HTTP_REJECT,
            "end_ns": ns(due_ms + at_ms),
            "attribution": QUEUE_FULL,
            **fields,
        },
    )


def manifest(
    offered: int, *, duration_s: float = 2.0, basis: Basis = Basis.MEASURED
) -> Manifest:
    return Manifest(
        loadgen_version="0",
        python_version="3.11",
        host={},
        command=[],
        started_utc="2026-11-30T10:00:00Z",
        name="by-hand",
        basis=basis,
        config={},
        target={},
        schedule_digest="sha256:00",
        offered_requests=offered,
        duration_ns=round(duration_s * NS_PER_S),
        clock={},
    )


def judged(
    records: Iterable[RequestRecord],
    *,
    offered: int | None = None,
    duration_s: float = 2.0,
    slo: str | None = None,
    basis: Basis = Basis.MEASURED,
    model: str | None = None,
    stream: bool = True,
    **evidence: Any,
) -> Summary:
    """Judge records as a sound run, unless the evidence says otherwise."""
    records = list(records)
    return judge(
        manifest(
            len(records) if offered is None else offered,
            duration_s=duration_s,
            basis=basis,
        ),
        records,
        Terms(slo=parse_slo(slo) if slo else Slo(), model=model, stream=stream),
        Evidence(**{"client": SOUND, **evidence}),
    )
