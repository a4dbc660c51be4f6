"""Several sweeps side by side: what a server's flags do, and what groups do to others.

All variants are offered the same schedules, so they are compared schedule by
schedule: what one draw of arrivals does to both cancels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from loadgen.analysis.curve import Mean, RunPoint, SweepSummary
from loadgen.analysis.points import mean_of
from loadgen.model import Basis

__all__ = ["SCHEMA", "Interference", "VariantResult", "VariantsSummary", "interference"]

SCHEMA = "loadgen.variants/1"
_DIGITS = 6


class VariantResult(msgspec.Struct, frozen=True, kw_only=True):
    """One variant.

    ``launch`` is its server's command without keys, ``standin`` the stand-in's
    flags; ``only`` are the groups offered, none: all. ``sweep`` is None and
    ``trouble`` says why where there is no result; ``ready_s`` is how long the
    server took to be healthy.
    """

    name: str
    folder: str | None
    launch: list[str] | None
    standin: str | None
    only: list[str]
    ready_s: float | None
    sweep: SweepSummary | None
    trouble: str | None


class Interference(msgspec.Struct, frozen=True, kw_only=True):
    """What the other groups do to one group at one load.

    ``rate_rps`` is of the whole schedule; alone, only this group's part of it was
    offered. ``goodput_lost`` is alone - mixed, ``ttft_p95_times`` mixed / alone
    (a geometric mean), both over schedules; None where a quantile was not reached.
    """

    group: str
    alone: str
    mixed: str
    rate_rps: float
    goodput_alone: float | None
    goodput_mixed: float | None
    goodput_lost: Mean
    ttft_p95_alone_s: float | None
    ttft_p95_mixed_s: float | None
    ttft_p95_times: Mean


class VariantsSummary(msgspec.Struct, frozen=True, kw_only=True):
    """All variants. Absent values are null, never 0 or NaN."""

    schema: str = SCHEMA
    basis: Basis
    name: str
    started_utc: str
    loadgen_version: str
    file: str
    description: str
    variants: list[VariantResult]
    interference: list[Interference]


def interference(variants: Sequence[VariantResult]) -> list[Interference]:
    """Each group that was offered alone, against each variant that mixed it."""
    found: list[Interference] = []
    for alone in variants:
        if len(alone.only) != 1 or alone.sweep is None:
            continue
        for mixed in variants:
            if mixed.sweep is not None and _mixes(mixed, alone.only[0]):
                found += _between(alone.only[0], alone, mixed)
    return found


def _mixes(variant: VariantResult, group: str) -> bool:
    if variant.sweep is None or len(variant.only) == 1:
        return False
    groups = {name for point in variant.sweep.curve for name in point.groups}
    return group in groups and len(groups) > 1


def _between(
    group: str, alone: VariantResult, mixed: VariantResult
) -> Iterator[Interference]:
    assert alone.sweep is not None
    assert mixed.sweep is not None
    first, second = _by_place(alone.sweep.runs), _by_place(mixed.sweep.runs)
    rates = dict.fromkeys(rate for rate, _ in first)
    for rate in sorted(rates):
        pairs = [
            (run, second[place])
            for place, run in first.items()
            if place[0] == rate and place in second
        ]
        if pairs:
            yield _at(group, alone.name, mixed.name, rate, pairs)


def _by_place(runs: Sequence[RunPoint]) -> Mapping[tuple[float, int], RunPoint]:
    return {(run.rate_rps, run.schedule): run for run in runs if run.usable}


def _at(
    group: str,
    alone: str,
    mixed: str,
    rate_rps: float,
    pairs: Sequence[tuple[RunPoint, RunPoint]],
) -> Interference:
    good = [(_ratio(a, group), _ratio(m, group)) for a, m in pairs]
    p95 = [(_p95(a, group), _p95(m, group)) for a, m in pairs]
    logs = [
        math.log(m / a)
        for a, m in p95
        if a is not None and m is not None and a > 0 and m > 0
    ]
    times = mean_of(logs if len(logs) == len(pairs) else [], digits=15)
    return Interference(
        group=group,
        alone=alone,
        mixed=mixed,
        rate_rps=rate_rps,
        goodput_alone=mean_of([a for a, _ in good]).value,
        goodput_mixed=mean_of([m for _, m in good]).value,
        goodput_lost=mean_of(
            [a - m for a, m in good if a is not None and m is not None]
        ),
        ttft_p95_alone_s=_geometric([a for a, _ in p95]),
        ttft_p95_mixed_s=_geometric([m for _, m in p95]),
        ttft_p95_times=Mean(
            value=None if times.value is None else _exp(times.value),
            ci95=times.ci95 and (_exp(times.ci95[0]), _exp(times.ci95[1])),
            n=times.n,
        ),
    )


def _ratio(run: RunPoint, group: str) -> float | None:
    part = run.groups.get(group)
    return part.good / part.offered if part is not None and part.offered else None


def _p95(run: RunPoint, group: str) -> float | None:
    part = run.groups.get(group)
    return None if part is None else part.latency["ttft_s"].p95.value


def _geometric(values: Sequence[float | None]) -> float | None:
    """None where one of them is not known or not reached."""
    have = [value for value in values if value is not None and value > 0]
    if not have or len(have) < len(values):
        return None
    return _exp(math.fsum(math.log(value) for value in have) / len(have))


def _exp(value: float) -> float:
    return round(math.exp(min(value, 700.0)), _DIGITS)
