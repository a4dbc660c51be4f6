"""From runs to the points of a curve: means over schedules, with their intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache

from loadgen.analysis.curve import (
    Mean,
    Part,
    Point,
    PointGoodput,
    Quantile,
    Quantiles,
    RunPart,
    RunPoint,
    RunQuantile,
    RunQuantiles,
    Shed,
)
from loadgen.analysis.knee import Sample
from loadgen.analysis.stats import wilson

__all__ = ["mean_of", "points", "samples_of"]

_DIGITS = 6
_TIME_DIGITS = 9


def points(runs: Iterable[RunPoint]) -> list[Point]:
    """One point a rate, from the lowest up; a rate whose runs all failed has one too.

    Args:
        runs: usable or not; those that are not are only counted.
    """
    by_rate: dict[float, list[RunPoint]] = {}
    for run in runs:
        by_rate.setdefault(run.rate_rps, []).append(run)
    return [_point(rate, by_rate[rate]) for rate in sorted(by_rate)]


def samples_of(runs: Iterable[RunPoint], group: str | None = None) -> list[Sample]:
    """What a knee is estimated from: usable runs, of all requests or of a group's."""
    samples = []
    for run in runs:
        part = run.all if group is None else run.groups.get(group)
        if run.usable and part is not None and part.offered:
            ratio = part.good / part.offered
            samples.append(Sample(run.rate_rps, run.schedule, ratio))
    return samples


def _point(rate_rps: float, runs: Sequence[RunPoint]) -> Point:
    usable = [run for run in runs if run.usable]
    seconds = [run.duration_s for run in usable]
    whole = _part([run.all for run in usable], seconds)
    names = dict.fromkeys(name for run in usable for name in run.groups)
    return Point(
        offered_rps=rate_rps,
        realised_rps=_ratio(sum(run.all.offered for run in usable), sum(seconds)),
        runs=len(usable),
        left_out=len(runs) - len(usable),
        goodput=whole.goodput,
        outcomes=whole.outcomes,
        shed=whole.shed,
        resources=whole.resources,
        ok_rps=whole.ok_rps,
        output_tokens_per_s=_tokens(usable),
        latency=whole.latency,
        drain_s=mean_of([run.drain_s for run in usable]),
        preemptions=mean_of([run.preemptions for run in usable]),
        groups={
            name: _part(
                [run.groups[name] for run in usable if name in run.groups],
                [run.duration_s for run in usable if name in run.groups],
            )
            for name in names
        },
    )


def _tokens(runs: Sequence[RunPoint]) -> dict[str, Mean]:
    sources = dict.fromkeys(name for run in runs for name in run.output_tokens_per_s)
    return {
        name: mean_of([run.output_tokens_per_s.get(name) for run in runs])
        for name in sources
    }


def _part(parts: Sequence[RunPart], seconds: Sequence[float]) -> Part:
    quantities = dict.fromkeys(name for part in parts for name in part.latency)
    return Part(
        goodput=_goodput(parts, seconds),
        outcomes=_summed(part.outcomes for part in parts),
        shed=_shed(parts),
        resources=_summed(part.resources for part in parts),
        ok_rps=mean_of(
            [_ratio(part.ok, s) for part, s in zip(parts, seconds, strict=True)]
        ),
        latency={
            name: _quantiles([p.latency[name] for p in parts if name in p.latency])
            for name in quantities
        },
    )


def _goodput(parts: Sequence[RunPart], seconds: Sequence[float]) -> PointGoodput:
    good, offered = sum(p.good for p in parts), sum(p.offered for p in parts)
    ratio = mean_of([_ratio(part.good, part.offered) for part in parts])
    rate = mean_of(
        [_ratio(part.good, s) for part, s in zip(parts, seconds, strict=True)]
    )
    return PointGoodput(
        ratio=ratio.value,
        ci95=_share_interval(ratio, good, offered),
        rate_rps=rate.value,
        rate_ci95=rate.ci95 and (max(0.0, rate.ci95[0]), rate.ci95[1]),
        good=good,
        offered=offered,
        runs=ratio.n,
    )


def _share_interval(share: Mean, hits: int, offered: int) -> tuple[float, float] | None:
    """Student's interval over runs, never narrower than Wilson's over requests.

    Runs that are alike by luck (all good, say) have no spread of their own; the
    requests alone leave at least so much open.
    """
    least = wilson(hits, offered)
    if share.ci95 is None or least is None:
        return None
    low, high = min(share.ci95[0], least[0]), max(share.ci95[1], least[1])
    return round(max(0.0, low), _DIGITS), round(min(1.0, high), _DIGITS)


def _shed(parts: Sequence[RunPart]) -> dict[str, Shed]:
    found = {}
    offered = sum(part.offered for part in parts)
    for layer, count in _summed(part.shed for part in parts).items():
        share = mean_of([_ratio(p.shed.get(layer, 0), p.offered) for p in parts])
        found[layer] = Shed(
            count=count,
            share=share.value,
            ci95=_share_interval(share, count, offered),
        )
    return found


def _quantiles(runs: Sequence[RunQuantiles]) -> Quantiles:
    return Quantiles(
        n=sum(run.n for run in runs),
        n_cut=sum(run.n_cut for run in runs),
        p50=_quantile([run.p50 for run in runs]),
        p90=_quantile([run.p90 for run in runs]),
        p95=_quantile([run.p95 for run in runs]),
        p99=_quantile([run.p99 for run in runs]),
    )


def _quantile(runs: Sequence[RunQuantile]) -> Quantile:
    values = [run.value for run in runs if run.value is not None]
    beyond = [run.above_s for run in runs if run.above_s is not None]
    if beyond:
        return Quantile(
            value=None,
            runs=len(values),
            not_reached=len(beyond),
            above_s=min([*beyond, *values]),
        )
    if not values:
        return Quantile(value=None)
    if min(values) <= 0:
        return Quantile(value=_mean(values, _TIME_DIGITS), runs=len(values))
    logs = mean_of([math.log(value) for value in values], digits=15)
    assert logs.value is not None
    return Quantile(
        value=round(math.exp(logs.value), _TIME_DIGITS),
        ci95=logs.ci95
        and (
            round(math.exp(logs.ci95[0]), _TIME_DIGITS),
            round(math.exp(min(logs.ci95[1], 700.0)), _TIME_DIGITS),
        ),
        runs=len(values),
    )


def mean_of(values: Iterable[float | None], *, digits: int = _DIGITS) -> Mean:
    """Mean and Student's 95 % interval of what runs have; None where they have not."""
    have = [value for value in values if value is not None]
    n = len(have)
    if not n:
        return Mean(value=None, ci95=None, n=0)
    mean = math.fsum(have) / n
    if n < 2:
        return Mean(value=round(mean, digits), ci95=None, n=n)
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in have) / (n - 1))
    half = _t975(n - 1) * spread / math.sqrt(n)
    return Mean(
        value=round(mean, digits),
        ci95=(round(mean - half, digits), round(mean + half, digits)),
        n=n,
    )


@cache
def _t975(freedom: int) -> float:
    from scipy.stats import t

    return float(t.ppf(0.975, freedom))


def _mean(values: Sequence[float], digits: int) -> float:
    return round(math.fsum(values) / len(values), digits)


def _ratio(part: float, whole: float) -> float | None:
    return round(part / whole, 12) if whole else None


def _summed(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for one in counts:
        for name, count in one.items():
            sums[name] = sums.get(name, 0) + count
    return sums
