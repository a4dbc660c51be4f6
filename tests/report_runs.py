"""A run with something of everything, judged or stored, for tests of what is shown."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from loadgen.analysis.attribution import Attributor
from loadgen.analysis.columns import RunData
from loadgen.analysis.goodput import parse_slo
from loadgen.analysis.signatures import load_signatures
from loadgen.analysis.summary import Evidence, Terms, judge_data
from loadgen.control.judging import Judge
from loadgen.model import (
    Basis,
    Manifest,
    Outcome,
    RequestRecord,
    ServerError,
    TokenSource,
)
from loadgen.report.exports.run import Exported
from loadgen.report.reduce import Reduced, reduce_run
from loadgen.store import RunDir
from loadgen.units import NS_PER_S
from tests.runs import SOUND, answered, manifest, record, refused

SLO = "ttft=200ms,tpot=50ms"
SHORT, LONG = "short-question", "long-document"
DURATION_S = 2.0


def mixed(requests: int = 40) -> list[RequestRecord]:
    """Half short, half long; early ones good, later ones late, refused or reset."""
    return [_one(seq, DURATION_S * 1000 * seq / requests) for seq in range(requests)]


def _one(seq: int, due_ms: float) -> RequestRecord:
    group = SHORT if seq % 2 else LONG
    named: dict[str, Any] = {
        "group": group,
        "prompt_tokens": 20 if seq % 2 else 1000,
        "prompt_tokens_source": TokenSource.USAGE,
        "due_ms": due_ms,
    }
    if seq % 8 == 7:
        error = ServerError(message='=1+1 <b>"busy"</b>', type=None, code=503)
        return refused(seq, at_ms=4 + seq % 3, error=error, **named)
    if seq % 13 == 12:
        due_ns = round(due_ms * 1e6)
        named.pop("due_ms")
        return record(
            seq,
            scheduled_ns=due_ns,
            outcome=Outcome.RESET,
            end_ns=due_ns + 50_000_000,
            **named,
        )
    first = due_ms + 40 + 9 * seq + (60 if group == LONG else 0)
    return answered(seq, events_ms=[first + 21 * at for at in range(6)], **named)


def made_manifest(requests: int, **fields: Any) -> Manifest:
    values: dict[str, Any] = {
        "name": "by-hand",
        "command": ["loadgen", "burst", "--rate", "20/s"],
        "config": {
            "slo": SLO,
            "model": "tiny",
            "stream": True,
            "api": "openai-chat",
            "path": "/v1/chat/completions",
            "workload": "mixed",
            "seed": 7,
            "arrivals": {"process": "constant", "burstiness": None},
        },
        "target": {
            "url": "http://127.0.0.1:8000",
            "models": ["tiny"],
            "version": "0.33.0",
        },
    }
    whole = manifest(requests, duration_s=DURATION_S, basis=Basis.MEASURED)
    return msgspec.structs.replace(whole, **(values | fields))


def exported(
    records: Sequence[RequestRecord] | None = None,
    *,
    gate: float | None = None,
    offered: int | None = None,
    **evidence: Any,
) -> Exported:
    """The run judged, with what exports and pictures are made from."""
    found = mixed() if records is None else list(records)
    total = len(found) if offered is None else offered
    made = made_manifest(total)
    terms = Terms(slo=parse_slo(SLO), model="tiny")
    data = RunData.collect(iter(found), total)
    summary = judge_data(made, data, terms, Evidence(**{"client": SOUND, **evidence}))
    return Exported(
        summary=summary,
        manifest=made,
        data=data,
        terms=terms,
        records=found,
        gate=gate,
    )


def reduced(run: Exported) -> Reduced:
    """What is drawn of it."""
    duration_ns = round(DURATION_S * NS_PER_S)
    return reduce_run(run.data, duration_ns, run.terms.slo, stream=True)


def stored(
    out: Path,
    records: Sequence[RequestRecord] | None = None,
    *,
    name: str = "by-hand",
    offered: int | None = None,
    finish: bool = True,
    **fields: Any,
) -> RunDir:
    """The run's folder; without ``finish`` as a killed process leaves it."""
    found = mixed() if records is None else list(records)
    total = len(found) if offered is None else offered
    run = RunDir.create(out, name, datetime(2026, 12, 1, 10, tzinfo=UTC))
    made = made_manifest(total, name=name, **fields)
    run.write_manifest(made)
    encode = msgspec.json.encode
    run.shard_path(0).write_bytes(b"".join(encode(one) + b"\n" for one in found))
    if finish:
        attribute = Attributor(load_signatures(None, name=""))
        Judge(attribute=attribute, slo=parse_slo(SLO)).finish(run, made, SOUND)
    return run
