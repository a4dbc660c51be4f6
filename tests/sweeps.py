"""Runs and sweeps made by hand, for tests of what is judged from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from loadgen.analysis.columns import RunData
from loadgen.analysis.curve import (
    Planned,
    Progress,
    RunPart,
    RunPoint,
    RunQuantile,
    RunQuantiles,
    Settle,
    SweepRun,
    SweepSummary,
)
from loadgen.analysis.runpoint import Place, run_point
from loadgen.analysis.summary import Summary
from loadgen.analysis.sweep import SweepFacts, judge_sweep
from loadgen.analysis.validity import Reason
from loadgen.model import Basis, RequestRecord

RESTED = Settle(how="queue empty", waited_s=0.5, note=None)


def run_of(
    summary: Summary,
    records: Sequence[RequestRecord],
    *,
    rate_rps: float,
    schedule: int = 0,
) -> RunPoint:
    """A judged run as it stands behind a curve."""
    place = Place(
        folder=f"{rate_rps:g}rps-{schedule + 1}",
        rate_rps=rate_rps,
        schedule=schedule,
        seed=schedule,
    )
    data = RunData.collect(iter(records), len(records))
    return run_point(place, summary, data, RESTED)


def quantiles(
    p50: float | None = 0.1, p95: float | None = 0.5, **fields: Any
) -> RunQuantiles:
    """A run's quantiles; those that are not given are as p95."""
    return RunQuantiles(
        n=fields.pop("n", 100),
        p50=RunQuantile(value=p50),
        p90=RunQuantile(value=p95),
        p95=RunQuantile(value=p95),
        p99=RunQuantile(value=p95),
        **fields,
    )


def part(
    good: int, offered: int = 100, *, shed: Mapping[str, int] | None = None, **more: Any
) -> RunPart:
    """What came of some requests: the rest of them were late, but for the shed."""
    lost = dict(shed or {})
    ok = offered - sum(lost.values())
    waits = quantiles()
    fields: dict[str, Any] = {
        "offered": offered,
        "good": good,
        "ok": ok,
        "outcomes": {"ok": ok} | ({"http_reject": offered - ok} if lost else {}),
        "shed": lost,
        "resources": {"queued_requests": offered - ok} if lost else {},
        "latency": dict.fromkeys(("ttft_s", "itl_s", "tpot_s", "e2e_s"), waits),
    }
    return RunPart(**(fields | more))


def point_run(rate_rps: float, good: int, schedule: int = 0, **fields: Any) -> RunPoint:
    """A usable run of 100 requests, so many of them good."""
    whole = fields.pop("all", None) or part(good)
    values: dict[str, Any] = {
        "folder": f"{rate_rps:g}rps-{schedule + 1}",
        "rate_rps": rate_rps,
        "schedule": schedule,
        "seed": schedule,
        "started_utc": "2026-12-01T00:00:00+00:00",
        "schedule_digest": "sha256:00",
        "duration_s": whole.offered / rate_rps,
        "verdict": "valid",
        "usable": True,
        "why_not": None,
        "reasons": [],
        "warnings": [],
        "all": whole,
        "groups": {},
        "output_tokens_per_s": {"usage": 100.0},
        "drain_s": 1.0,
        "preemptions": None,
        "prefix_hit_rate": None,
        "engine_restarted": None,
        "settle": RESTED,
    }
    return RunPoint(**(values | fields))


def spoilt(rate_rps: float, schedule: int = 0, code: str = "send_lag") -> RunPoint:
    """A run that cannot be used."""
    return point_run(
        rate_rps,
        0,
        schedule,
        verdict="invalid",
        usable=False,
        why_not="the client could not keep the schedule",
        reasons=[Reason(code=code, text="late", remedy="another machine")],
    )


PLAN = Planned(
    rates="2/s,4/s,8/s",
    rates_rps=[2.0, 4.0, 8.0],
    schedules=3,
    seeds=[7, 8, 9],
    duration_s=30.0,
    budget_s=None,
    expected=None,
)
DONE = Progress(
    status="complete",
    planned_runs=9,
    done_runs=9,
    resumed_utc=[],
    abandoned=[],
    text="9 of 9 runs made",
)
WHICH = SweepRun(
    name="sweep-mixed",
    started_utc="2026-12-01T00:00:00+00:00",
    loadgen_version="0.1.0",
    command=["loadgen", "sweep"],
    workload="mixed",
    model="m",
    url="http://127.0.0.1:8000",
    server_version="0.33.0",
    variant=None,
    host={},
)


def swept(runs: Sequence[RunPoint], **fields: Any) -> SweepSummary:
    """The judgement of these runs."""
    given: dict[str, Any] = {
        "basis": Basis.MEASURED,
        "sweep": WHICH,
        "progress": DONE,
        "plan": PLAN,
        "slo": {"ttft_s": 2.0},
        "target": 0.95,
        "runs": runs,
        "overloads": [],
    }
    return judge_sweep(SweepFacts(**(given | fields)))


def grid(goods: Mapping[float, Sequence[int]]) -> list[RunPoint]:
    """One run a rate and schedule, by how many of its 100 requests were good."""
    return [
        point_run(rate, good, schedule)
        for rate, row in goods.items()
        for schedule, good in enumerate(row)
    ]


def as_json(summary: SweepSummary) -> Any:
    """What another program reads."""
    return msgspec.json.decode(msgspec.json.encode(summary))
