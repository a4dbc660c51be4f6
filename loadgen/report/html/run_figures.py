"""The pictures of one run: what happened when, and how long things took."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate

from loadgen.report.escape import safe
from loadgen.report.html.blocks import Figure, Key, Panel
from loadgen.report.numbers import aligned, count, percent, seconds
from loadgen.report.plots.chart import (
    Axis,
    Bars,
    Chart,
    Curve,
    Dots,
    Mark,
    Rule,
    Tone,
    group_tone,
)
from loadgen.report.plots.scales import top_above
from loadgen.report.plots.tones import layer_tone
from loadgen.report.reduce import GOOD, LATE, Ecdf, Reduced
from loadgen.report.table import Column, Row, Table
from loadgen.report.tracks import Track
from loadgen.report.words import layer_words, plural

__all__ = ["ecdf_figures", "timeline_figure"]

NAME_CELLS = 18
TABLE_ROWS = 24
MARKED = 60
_LEVELS_HEIGHT = 96
_ANSWERED = {GOOD: Tone.GOOD, LATE: Tone.LATE}


def timeline_figure(
    run: Reduced,
    tracks: Sequence[Track],
    not_measured: Sequence[str],
    slo_s: float | None,
) -> Figure:
    """Requests, engine and GPU on one axis of time."""
    x = Axis(0.0, run.extent_s, "s")
    panels = [_fates_panel(run, x), _open_panel(run, tracks, x)]
    if any(run.ttft[name].n for name in run.groups):
        panels.append(_waits_panel(run, x, slo_s))
    panels += _level_panels(tracks, x)
    titled = panels[-1]
    last = Chart(
        Axis(0.0, run.extent_s, "s", "since the first request could be due (t0)"),
        titled.chart.y,
        titled.chart.marks,
        titled.chart.height,
    )
    panels[-1] = Panel(titled.heading, last, titled.keys)
    return Figure(
        panels=panels,
        notes=tuple(_timeline_notes(run, not_measured)),
        table=_fates_table(run),
    )


def _timeline_notes(run: Reduced, not_measured: Sequence[str]) -> Iterator[str]:
    if run.extent_s > run.duration_s:
        yield (
            f"the schedule ends at {seconds(run.duration_s)}, the last answer at "
            f"{seconds(run.extent_s)}"
        )
    if not_measured:
        yield f"not measured: {'; '.join(not_measured)}"
    if run.fates.undated:
        lost = plural(run.fates.undated, "request")
        yield f"{lost} without a record not drawn: when they were due is not known"
    if run.groups_left_out:
        yield f"the {len(run.groups)} largest groups drawn, {run.groups_left_out} not"


def _ends(run: Reduced, label: str = "") -> list[Mark]:
    """Where the offering ends, unless that is where the picture ends anyhow."""
    drained = run.extent_s > 1.02 * run.duration_s
    return [Rule(run.duration_s, label, upright=True)] if drained else []


def _tone(fate: str) -> Tone:
    return _ANSWERED.get(fate) or layer_tone(fate)


def _fate_words(fate: str) -> str:
    if fate == GOOD:
        return "answered within target"
    if fate == LATE:
        return "answered too late"
    return f"lost: {layer_words(fate)}"


def _fates_panel(run: Reduced, x: Axis) -> Panel:
    fates = run.fates
    bins = max((len(counts) for counts in fates.counts.values()), default=0)
    stacks = list(accumulate(fates.counts.values(), _sum, initial=(0,) * bins))
    marks: list[Mark] = [
        Bars(0.0, fates.width_s, counts, base, _tone(name))
        for (name, counts), base in zip(fates.counts.items(), stacks, strict=False)
    ]
    marks += _ends(run, "offering ends")
    return Panel(
        f"Requests due in each {seconds(fates.width_s)}, by what became of them",
        Chart(x, Axis(0.0, _room(stacks[-1]), "count"), marks, 130),
        tuple(
            Key(
                _tone(name),
                f"{_fate_words(name)} {count(sum(counts))}",
            )
            for name, counts in fates.counts.items()
        ),
    )


def _sum(one: Sequence[int], other: Sequence[int]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip(one, other, strict=True))


def _room(values: Sequence[float]) -> float:
    return top_above(max([*values, 1]))


def _open_panel(run: Reduced, tracks: Sequence[Track], x: Axis) -> Panel:
    open_ = run.open
    ours = tuple(zip(open_.at_s, map(float, open_.most), strict=True))
    alone = not any(track.term in ("running", "waiting") for track in tracks)
    marks: list[Mark] = [Curve(ours, "" if alone else "open", Tone.PLAIN, step=True)]
    peak = float(max(open_.most))
    for track, tone in zip(
        [t for t in tracks if t.term in ("running", "waiting")],
        (Tone.GOOD, Tone.ADMISSION),
        strict=False,
    ):
        marks.append(Curve(track.points, track.label, tone, True, marked=_few(track)))
        peak = max(peak, track.peak)
    words = "Open requests (sent, not ended)"
    if not alone:
        words += ", and what the engine says it runs and lets wait"
    return Panel(
        words,
        Chart(
            x, Axis(0.0, _room([peak]), "count"), [*marks, *_ends(run)], _LEVELS_HEIGHT
        ),
    )


def _waits_panel(run: Reduced, x: Axis, slo_s: float | None) -> Panel:
    waits = run.waits
    marks: list[Mark] = []
    if waits.dots:
        values = [y for dots in waits.dots.values() for _, y in dots]
        marks += [
            Dots(waits.dots[name], group_tone(number))
            for number, name in enumerate(run.groups)
        ]
        keys = _group_keys(run) if len(run.groups) > 1 else ()
        words = "Time to the first token of each answer, by when it was due"
    else:
        middles = [(i + 0.5) * waits.width_s for i in range(len(waits.middle))]
        slow = tuple(zip(middles, waits.slow, strict=True))
        middle = tuple(zip(middles, waits.middle, strict=True))
        values = [y for y in waits.slow if y is not None]
        marks += [
            Curve(slow, "p95", Tone.SECOND),
            Curve(middle, "p50", Tone.FIRST),
        ]
        keys = ()
        words = "Time to the first token, by when the request was due"
    if slo_s is not None:
        marks.append(Rule(slo_s, f"target {seconds(slo_s)}"))
        values.append(slo_s)
    y = Axis(0.0, top_above(1.02 * max(values)), "s")
    return Panel(words, Chart(x, y, [*marks, *_ends(run)], 130), keys)


def _group_keys(run: Reduced) -> tuple[Key, ...]:
    return tuple(
        Key(group_tone(number), safe(name, NAME_CELLS))
        for number, name in enumerate(run.groups)
    )


def _level_panels(tracks: Sequence[Track], x: Axis) -> Iterator[Panel]:
    kv = [track for track in tracks if track.term == "kv_usage"]
    if kv:
        y = Axis(0.0, 1.0, "share")
        marks = [Curve(t.points, t.label, Tone.GOOD, marked=_few(t)) for t in kv]
        yield Panel("KV cache in use", Chart(x, y, marks, 72))
    memory = [track for track in tracks if track.term == "memory"]
    if memory:
        y = Axis(0.0, top_above(max(track.peak for track in memory)), "gib")
        marks = [
            Curve(t.points, t.label, group_tone(i), marked=_few(t))
            for i, t in enumerate(memory)
        ]
        yield Panel("GPU memory in use", Chart(x, y, marks, 72))


def _few(track: Track) -> bool:
    """Whether each look can be marked."""
    return len(track.points) <= MARKED


def _fates_table(run: Reduced) -> Table:
    """The first panel's numbers, in so few rows that they can be read."""
    fates = run.fates
    bins = max((len(counts) for counts in fates.counts.values()), default=0)
    step = max(1, -(-bins // TABLE_ROWS))
    starts = aligned([at * fates.width_s for at in range(0, bins, step)])
    columns = [
        [sum(counts[at : at + step]) for at in range(0, bins, step)]
        for counts in fates.counts.values()
    ]
    rows = [
        Row(f"from {start} s", tuple(count(column[i]) for column in columns))
        for i, start in enumerate(starts)
        if any(column[i] for column in columns)
    ]
    return Table(
        f"requests due in each {seconds(step * fates.width_s)}",
        tuple(Column(_fate_words(name)) for name in fates.counts),
        tuple(rows),
    )


def ecdf_figures(run: Reduced, slo: Mapping[str, float]) -> Iterator[Figure]:
    """How TTFT and ITL are distributed, by group."""
    if any(curve.n for curve in run.ttft.values()):
        yield _ecdf_figure(
            "Time to the first token (TTFT)",
            run,
            run.ttft,
            slo.get("ttft_s"),
            "target",
            note="over all that were offered: refused ones keep a curve from 100%",
            said=lambda curve: f"{percent(curve.n / curve.of)} got one",
        )
    if run.itl:
        yield _ecdf_figure(
            "Between two tokens (ITL)",
            run,
            run.itl,
            slo.get("tpot_s"),
            "mean target",
            note="over all gaps whose two ends were stamped exactly",
            said=lambda curve: plural(curve.n, "gap"),
        )


def _ecdf_figure(
    heading: str,
    run: Reduced,
    curves: Mapping[str, Ecdf],
    limit_s: float | None,
    limit_words: str,
    *,
    note: str,
    said: Callable[[Ecdf], str],
) -> Figure:
    values = [v for curve in curves.values() for v in curve.values_s if v > 0]
    ends = [*values, *([limit_s] if limit_s else [])] or [1.0]
    x = Axis(min(ends) / 1.15, max(ends) * 1.15, "s", "no longer than", log=True)
    marks: list[Mark] = []
    for number, name in enumerate(run.groups):
        curve = curves.get(name)
        if curve is not None and curve.n:
            words = said(curve)
            several = len(run.groups) > 1
            label = f"{safe(name, NAME_CELLS)}\n{words}" if several else words
            points = _steps(curve, x)
            marks.append(Curve(points, label, group_tone(number), step=True))
    if limit_s is not None:
        words = f"{limit_words} {seconds(limit_s)}"
        marks.append(Rule(limit_s, words, upright=True))
    return Figure(
        panels=[Panel(heading, Chart(x, Axis(0.0, 1.0, "share"), marks, 210))],
        notes=(note,),
        half=True,
    )


def _steps(curve: Ecdf, x: Axis) -> list[tuple[float, float | None]]:
    """From nothing at the left edge to the share that had it at the right one."""
    inner = zip(curve.values_s, curve.shares, strict=True)
    return [
        (x.low, 0.0),
        *((max(v, x.low), s) for v, s in inner),
        (x.high, curve.shares[-1]),
    ]
