"""The pictures of a sweep: offered load against what came of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from loadgen.analysis.curve import Point, PointGoodput, Quantile, SweepSummary
from loadgen.analysis.knee import Knee
from loadgen.report.curve_words import knee_short
from loadgen.report.escape import safe
from loadgen.report.html.blocks import Figure, Panel
from loadgen.report.numbers import percent, rate, seconds
from loadgen.report.plots.chart import (
    Axis,
    Band,
    Chart,
    Curve,
    Mark,
    Rule,
    Span,
    Tone,
    Whiskers,
    group_tone,
)
from loadgen.report.plots.scales import top_above
from loadgen.report.plots.tones import layer_tone
from loadgen.report.words import layer_words

__all__ = [
    "goodput_figure",
    "group_figure",
    "latency_figures",
    "lines_figure",
    "rate_axis",
]

NAME_CELLS = 18
GROUPS_DRAWN = 4
MARKED = 40
LOG_FROM = 20.0
"""Rates that span more than this factor are drawn on a logarithmic axis."""
OFFERED = "offered, per second"

Share = tuple[float, PointGoodput]
Line = Sequence[tuple[float, Quantile]]


def rate_axis(rates_rps: Sequence[float], title: str = OFFERED) -> Axis:
    """An axis that holds all rates; from 0 where they lie close enough together."""
    high, low = max(rates_rps), min(rates_rps)
    if low > 0 and high / low > LOG_FROM:
        return Axis(low / 1.2, high * 1.2, "rate", title, log=True)
    return Axis(0.0, top_above(1.02 * high), "rate", title)


def goodput_figure(summary: SweepSummary) -> Figure:
    """Shares of the offered requests, and what that is per second."""
    curve = summary.curve
    x = rate_axis([point.offered_rps for point in curve])
    shares = Panel(
        "Of the offered requests, the share that was good, and what was lost where",
        Chart(x, Axis(0.0, 1.0, "share"), tuple(_share_marks(summary, x)), 240),
    )
    rates = Panel(
        "Requests per second of schedule",
        Chart(x, _rates_axis(curve), tuple(_rate_marks(curve)), 180),
    )
    return Figure(
        panels=(shares, rates),
        notes=(
            "around the points: 95% interval over schedules; the shaded stretch is the "
            "knee's",
            "what is neither good nor lost was answered too late",
        ),
    )


def _share_marks(summary: SweepSummary, x: Axis) -> Iterator[Mark]:
    yield from _knee_marks(summary.knee, x)
    lost = dict.fromkeys(layer for point in summary.curve for layer in point.shed)
    for layer in lost:
        points = [
            (p.offered_rps, p.shed[layer].share if layer in p.shed else 0.0)
            for p in summary.curve
            if p.goodput.offered
        ]
        words = f"lost: {safe(layer_words(layer), NAME_CELLS)}"
        tone = layer_tone(layer)
        yield Curve(points, words, tone, dashed=True, marked=_few(points))
    good = [(point.offered_rps, point.goodput) for point in summary.curve]
    yield from _share_curve(good, "good", Tone.GOOD)


def _share_curve(shares: Sequence[Share], label: str, tone: Tone) -> Iterator[Mark]:
    ends = [(at, *good.ci95) for at, good in shares if good.ci95 is not None]
    points = [(at, good.ratio) for at, good in shares]
    yield _intervals(ends, tone)
    yield Curve(points, label, tone, marked=_few(points))


def _intervals(ends: Sequence[tuple[float, float, float]], tone: Tone) -> Mark:
    """Whiskers; where they would make a thicket, what lies between them."""
    return Whiskers(ends, tone) if _few(ends) else Band(ends, tone)


def _few(points: Sequence[object]) -> bool:
    """Whether each point can be seen by itself."""
    return len(points) <= MARKED


def _knee_marks(knee: Knee, x: Axis) -> Iterator[Mark]:
    yield Rule(knee.target, f"target {percent(knee.target)}")
    if knee.rate_rps is None:
        return
    if knee.ci95 is not None:
        low, high = knee.ci95
        yield Span(
            x.low if low is None else low, x.high if high is None else high, Tone.GOOD
        )
    yield Rule(knee.rate_rps, f"knee {knee_short(knee)}", upright=True)


def _rates_axis(curve: Sequence[Point]) -> Axis:
    return Axis(0.0, top_above(max(point.offered_rps for point in curve)), "rate")


def _rate_marks(curve: Sequence[Point]) -> Iterator[Mark]:
    every = [(point.offered_rps, point.offered_rps) for point in curve]
    yield Curve(every, "offered", Tone.PLAIN, dashed=True)
    answered = [(point.offered_rps, point.ok_rps.value) for point in curve]
    yield Curve(answered, "answered", Tone.LATE, marked=_few(answered))
    ends = [
        (point.offered_rps, *point.goodput.rate_ci95)
        for point in curve
        if point.goodput.rate_ci95 is not None
    ]
    yield _intervals(ends, Tone.GOOD)
    good = [(point.offered_rps, point.goodput.rate_rps) for point in curve]
    yield Curve(good, "good", Tone.GOOD, marked=_few(good))


def latency_figures(summary: SweepSummary) -> Iterator[Figure]:
    """TTFT and ITL by load, on a logarithmic axis of time."""
    wanted = (
        ("Time to the first token (TTFT)", "ttft_s", ("p50", "p95"), "ttft_s"),
        ("Between two tokens (ITL)", "itl_s", ("p50", "p99"), None),
    )
    for heading, name, levels, limit in wanted:
        found = {level: _quantiles(summary.curve, name, level) for level in levels}
        if not any(q.value for line in found.values() for _, q in line):
            continue
        limit_s = summary.slo.get(limit) if limit else None
        yield _latency_figure(heading, found, limit_s)


def _quantiles(
    curve: Sequence[Point], name: str, level: str
) -> list[tuple[float, Quantile]]:
    return [
        (point.offered_rps, getattr(point.latency[name], level))
        for point in curve
        if name in point.latency
    ]


def _latency_figure(
    heading: str,
    found: Mapping[str, list[tuple[float, Quantile]]],
    limit_s: float | None,
) -> Figure:
    marks: list[Mark] = []
    values = [limit_s] if limit_s else []
    for (level, line), tone in zip(
        found.items(), (Tone.FIRST, Tone.SECOND), strict=True
    ):
        band = [(at, *q.ci95) for at, q in line if q.ci95 is not None]
        marks.append(Band(band, tone))
        points = [(at, q.value or None) for at, q in line]
        marks.append(Curve(points, level, tone, marked=_few(points)))
        values += [value for _, value in points if value is not None]
        values += [end for _, low, high in band for end in (low, high) if end > 0]
    if limit_s is not None:
        marks.append(Rule(limit_s, f"target {seconds(limit_s)}"))
    rates = [at for line in found.values() for at, _ in line]
    y = Axis(min(values) / 1.2, max(values) * 1.2, "s", log=True)
    return Figure(
        panels=(Panel(heading, Chart(rate_axis(rates), y, marks, 210)),),
        notes=tuple(_not_reached(found)),
        half=True,
    )


def _not_reached(found: Mapping[str, Line]) -> Iterator[str]:
    for level, line in found.items():
        at = [(rps, q) for rps, q in line if q.not_reached]
        if at:
            named = ", ".join(f"{rate(rps)} (> {seconds(q.above_s)})" for rps, q in at)
            yield f"{level} not reached, for requests were cut: {named}"


def group_figure(summary: SweepSummary) -> Figure | None:
    """The good share of each group at the same total load; None of a single group."""
    names = list(dict.fromkeys(name for p in summary.curve for name in p.groups))
    if len(names) < 2:
        return None
    lines = {
        name: [
            (point.offered_rps, point.groups[name].goodput)
            for point in summary.curve
            if name in point.groups
        ]
        for name in names[:GROUPS_DRAWN]
    }
    return lines_figure(
        "Of each group's requests, the share that was good",
        lines,
        summary.knee.target,
        "offered in all, per second",
    )


def lines_figure(
    heading: str, lines: Mapping[str, Sequence[Share]], target: float, title: str
) -> Figure:
    """Good shares of several things over the same loads."""
    marks: list[Mark] = [Rule(target, f"target {percent(target)}")]
    for number, (name, shares) in enumerate(lines.items()):
        label = safe(name, NAME_CELLS)
        marks += _share_curve(shares, label, group_tone(number))
    x = rate_axis([at for shares in lines.values() for at, _ in shares], title)
    return Figure(
        panels=(Panel(heading, Chart(x, Axis(0.0, 1.0, "share"), marks, 220)),)
    )
