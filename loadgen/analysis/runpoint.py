"""One run as it stands behind a point of the curve."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np

from loadgen.analysis.columns import RunData
from loadgen.analysis.curve import RunPart, RunPoint, RunQuantiles, Settle
from loadgen.analysis.latency import gaps_of, times_of
from loadgen.analysis.summary import Summary
from loadgen.analysis.survival import survival
from loadgen.model import Outcome
from loadgen.units import NS_PER_S

__all__ = ["EngineTold", "Place", "engine_told", "run_point"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a run stands in its sweep; ``folder`` is relative to the sweep's."""

    folder: str
    rate_rps: float
    schedule: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineTold:
    """What the engine said of itself over the run; None: it did not say."""

    preemptions: int | None = None
    prefix_hit_rate: float | None = None
    restarted: bool | None = None


def engine_told(summary: Summary) -> EngineTold:
    """What the run's telemetry holds of it."""
    server = (summary.telemetry or {}).get("server") or {}
    if server.get("status") != "ok":
        return EngineTold()
    counted = (server.get("series") or {}).get("preemptions") or {}
    delta = counted.get("delta")
    return EngineTold(
        preemptions=None if delta is None else round(delta),
        prefix_hit_rate=server.get("prefix_hit_rate"),
        restarted=bool(server.get("restarts")),
    )


def run_point(
    place: Place,
    summary: Summary,
    data: RunData,
    settle: Settle | None,
    engine: EngineTold | None = None,
) -> RunPoint:
    """Take from a judged run what the curve needs of it.

    Args:
        place: rate, schedule and folder.
        summary: the judgement.
        data: the run's records, for the quantiles of times that were cut.
        settle: how the engine was brought to rest before it.
        engine: what the engine's metrics told; None: what the summary has of it.
    """
    engine = engine or engine_told(summary)
    why_not = _why_not(summary, engine)
    latency = partial(survival, data, times_of(data), gaps_of(data))
    return RunPoint(
        folder=place.folder,
        rate_rps=place.rate_rps,
        schedule=place.schedule,
        seed=place.seed,
        started_utc=summary.run.started_utc,
        schedule_digest=summary.offered.schedule_digest,
        duration_s=summary.offered.duration_s,
        verdict=summary.verdict.status,
        usable=why_not is None,
        why_not=why_not,
        reasons=summary.verdict.reasons,
        warnings=summary.verdict.warnings,
        all=_whole(summary, latency()),
        groups={
            name: _group(summary, name, latency(data.group.where(name)))
            for name in summary.groups
        },
        output_tokens_per_s=summary.throughput.output_tokens_per_s_over_schedule,
        drain_s=_drain_s(data, summary.offered.duration_s),
        preemptions=engine.preemptions,
        prefix_hit_rate=engine.prefix_hit_rate,
        engine_restarted=engine.restarted,
        settle=settle,
    )


def _why_not(summary: Summary, engine: EngineTold) -> str | None:
    if summary.verdict.status != "valid":
        return "; ".join(reason.text for reason in summary.verdict.reasons)
    if engine.restarted:
        return "the engine restarted during the run"
    if not summary.offered.requests:
        return "nothing was offered"
    return None


def _whole(summary: Summary, latency: dict[str, RunQuantiles]) -> RunPart:
    lost = [(row, row.count) for row in summary.rejections]
    return RunPart(
        offered=summary.offered.requests,
        good=summary.goodput.good,
        ok=summary.outcomes[Outcome.OK.value],
        outcomes=summary.outcomes,
        shed=_sums((row.layer.value, count) for row, count in lost),
        resources=_sums((row.limiting_resource.value, count) for row, count in lost),
        latency=latency,
    )


def _group(summary: Summary, name: str, latency: dict[str, RunQuantiles]) -> RunPart:
    group = summary.groups[name]
    lost = [(row, row.by_group.get(name, 0)) for row in summary.rejections]
    return RunPart(
        offered=group.offered,
        good=group.goodput.good,
        ok=group.outcomes[Outcome.OK.value],
        outcomes=group.outcomes,
        shed=_sums((row.layer.value, count) for row, count in lost),
        resources=_sums((row.limiting_resource.value, count) for row, count in lost),
        latency=latency,
    )


def _sums(counted: Iterable[tuple[str, int]]) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for name, count in counted:
        sums[name] += count
    return {name: count for name, count in sums.most_common() if count}


def _drain_s(data: RunData, duration_s: float) -> float | None:
    """From the schedule's end to the last end of a request; 0 if all ended before."""
    if not np.isfinite(data.end_ns).any():
        return None
    return round(max(0.0, float(np.nanmax(data.end_ns)) / NS_PER_S - duration_s), 6)
