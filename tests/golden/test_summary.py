"""The whole summary of one small run, byte for byte.

After a change that is meant, run with ``LOADGEN_UPDATE_GOLDEN=1`` and read the diff.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from loadgen.analysis.summary import encode
from loadgen.model import Outcome, RequestRecord, TokenSource
from tests.runs import answered, judged, record, refused

GOLDEN = Path(__file__).parent / "summary.json"


def small_run() -> list[RequestRecord]:
    """Twelve requests, one a way to end that the summary tells apart."""
    usage: dict[str, Any] = {
        "prompt_tokens": 31,
        "prompt_tokens_source": TokenSource.USAGE,
    }
    counted: dict[str, Any] = {
        "prompt_tokens": 2000,
        "prompt_tokens_source": TokenSource.TOKENIZE,
    }
    return [
        answered(0, events_ms=[100, 110, 120], end_ms=125, model="m", **usage),
        answered(1, due_ms=150, events_ms=[400, 440], end_ms=445, model="m", **usage),
        answered(2, due_ms=300, events_ms=[2700], end_ms=2701, tenant="a", **usage),
        answered(
            3, due_ms=450, events_ms=[600, 605, 605, 620], model="other", tenant="b",
            token_exact=[True, False, False, True], end_ms=621, **usage,
        ),
        refused(4, due_ms=600, group="long-document", tenant="b", **counted),
        refused(5, due_ms=750, group="long-document", at_ms=3, **counted),
        refused(
            6, due_ms=900, status=200, outcome=Outcome.IN_STREAM_REJECT,
            group="long-document", at_ms=7, **counted,
        ),
        answered(
            7, due_ms=1050, events_ms=[1200, 1210], end_ms=1300,
            outcome=Outcome.IN_STREAM_ERROR, finish_reason=None, output_tokens=None,
        ),
        record(8, scheduled_ns=1_200_000_000, outcome=Outcome.CONNECT_ERROR),
        answered(
            9, due_ms=1350, events_ms=[1400, 1410], end_ms=61_410,
            outcome=Outcome.STALLED, finish_reason=None,
        ),
        answered(10, due_ms=1500, events_ms=[1490], findings=["stale_connection"]),
    ]  # fmt: skip


def test_the_summary_is_as_it_was() -> None:
    summary = judged(
        small_run(),
        offered=12,
        slo="ttft=2s,tpot=50ms",
        model="m",
        warmup=[answered(0, events_ms=[5])],
        flaws=["requests-0.jsonl: the last line (12) is torn and was left out"],
        files={"requests.jsonl": "sha256:00"},
        reconciliation={"engine": {"success": 6}, "difference": 0},
        telemetry={"gpu": {"status": "no library", "devices": []}},
    )
    found = encode(summary)
    if os.environ.get("LOADGEN_UPDATE_GOLDEN"):
        GOLDEN.write_bytes(found)
    assert found.decode() == GOLDEN.read_text("utf-8")
