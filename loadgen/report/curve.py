"""A sweep's report for a terminal: the curve, its groups, the losses, the doubts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from loadgen.analysis.curve import Part, Point, Quantile, SweepSummary
from loadgen.report.curve_words import (
    flag_words,
    knee_ends,
    knee_short,
    overload_words,
    sweep_headline,
)
from loadgen.report.escape import safe
from loadgen.report.layout import INDENT, Line, paragraph, set_table
from loadgen.report.numbers import (
    NOTHING,
    aligned,
    count,
    interval,
    percent,
    rate,
    seconds,
)
from loadgen.report.screen import Screen
from loadgen.report.table import NAME_CELLS, Column, Row, Table
from loadgen.report.terminal import drawn
from loadgen.report.words import basis_tag, layer_words, plural

__all__ = ["lost_share", "quantile_cell", "sweep_tables", "sweep_text"]

BAR_CELLS = 14
GROUPS_SHOWN = 6
DOUBTS_SHOWN = 12


def sweep_text(summary: SweepSummary, screen: Screen) -> str:
    """The whole report as one string that ends in a newline."""
    return drawn(list(_lines(summary, screen)), screen)


def _lines(summary: SweepSummary, screen: Screen) -> Iterator[Line]:
    tag = basis_tag(summary.basis)
    yield from _prose(_title(summary) + tag, screen, "strong")
    yield from _prose(sweep_headline(summary), screen)
    for flag in flag_words(summary.knee.flags):
        yield from _prose(flag, screen, indent=INDENT)
    for table in sweep_tables(summary, screen):
        yield Line("")
        yield from set_table(table, tag, screen)
    if summary.overload is not None:
        yield Line("")
        yield from _prose(f"Past capacity and back{tag}", screen, "strong")
        for words in overload_words(summary.overload):
            yield from _prose(words, screen, indent=INDENT)
    yield from _doubts(summary, tag, screen)


def _title(summary: SweepSummary) -> str:
    name = safe(summary.sweep.name, 40)
    if summary.sweep.variant is not None:
        name += f", variant {safe(summary.sweep.variant, 40)}"
    url = summary.sweep.url
    return f"{name}, offered to {safe(url, 80)}" if url else name


def _prose(
    text: str, screen: Screen, style: str = "", *, indent: str = ""
) -> Iterator[Line]:
    hanging = indent + INDENT if indent else ""
    for line in paragraph(text, screen, indent=indent, hanging=hanging):
        yield Line(line, style)


def sweep_tables(summary: SweepSummary, screen: Screen) -> list[Table]:
    """Everything that is a table, in reading order."""
    tables = [curve_table(summary, screen), _latency_table(summary.curve)]
    names = _groups(summary)
    if names:
        tables += [_group_table(summary, names), _knee_table(summary, names)]
    if any(point.shed for point in summary.curve):
        tables.append(_loss_table(summary.curve))
    return tables


def curve_table(summary: SweepSummary, screen: Screen) -> Table:
    """One line a rate: how much was good, how much was lost, and how often tried."""
    curve = summary.curve
    rates = aligned([point.goodput.rate_rps for point in curve])
    rows = []
    for point, good_rate in zip(curve, rates, strict=True):
        good = point.goodput
        rows.append(
            Row(
                rate(point.offered_rps),
                (
                    _bar(good.ratio, screen),
                    percent(good.ratio),
                    interval(good.ci95),
                    good_rate,
                    percent(lost_share(point)),
                    f"{point.runs}/{point.runs + point.left_out}",
                ),
            )
        )
    knee = summary.knee
    notes = [
        f"knee at {percent(knee.target)}: {knee_short(knee)}"
        + (f" ({knee_ends(knee)})" if knee.ci95 is not None else ""),
        "good: ok and within every target, of all offered; interval over schedules",
        "runs: used of those made",
    ]
    return Table(
        "Goodput",
        (
            Column("", numeric=False, spare=True),
            Column("good"),
            Column("95% interval"),
            Column("good/s"),
            Column("lost"),
            Column("runs"),
        ),
        tuple(rows),
        tuple(notes),
    )


def _bar(ratio: float | None, screen: Screen) -> str:
    if ratio is None:
        return ""
    filled, empty = ("\N{FULL BLOCK}", "\N{LIGHT SHADE}") if screen.utf8 else "#."
    full = round(ratio * BAR_CELLS)
    return filled * full + empty * (BAR_CELLS - full)


def lost_share(point: Point) -> float | None:
    """Requests that any layer lost, of all offered; None where nothing was."""
    offered = point.goodput.offered
    return sum(s.count for s in point.shed.values()) / offered if offered else None


def _latency_table(curve: Sequence[Point]) -> Table:
    keys = (("ttft_s", "p50"), ("ttft_s", "p95"), ("itl_s", "p50"), ("itl_s", "p99"))
    cut = any(q.n_cut for point in curve for q in point.latency.values())
    beyond = any(
        getattr(point.latency[name], level).not_reached
        for point in curve
        for name, level in keys
        if name in point.latency
    )
    notes = ["in brackets: 95% interval over schedules"]
    if cut:
        notes.append("requests that a limit of ours cut count as longer than that")
    if beyond:
        notes.append("> 9 s: not reached, so many were cut; it is longer than this")
    return Table(
        "Latency",
        (
            Column("TTFT p50"),
            Column("p95"),
            Column("ITL p50"),
            Column("p99"),
            Column("E2E p50", spare=True),
        ),
        tuple(
            Row(
                rate(point.offered_rps),
                (
                    quantile_cell(point.latency, "ttft_s", "p50"),
                    quantile_cell(point.latency, "ttft_s", "p95", interval_too=True),
                    quantile_cell(point.latency, "itl_s", "p50"),
                    quantile_cell(point.latency, "itl_s", "p99"),
                    quantile_cell(point.latency, "e2e_s", "p50"),
                ),
            )
            for point in curve
        ),
        tuple(notes),
    )


def quantile_cell(
    latency: Mapping[str, object], name: str, level: str, *, interval_too: bool = False
) -> str:
    """A quantile for a table, or what it is longer than where it was not reached."""
    quantiles = latency.get(name)
    if quantiles is None:
        return NOTHING
    quantile: Quantile = getattr(quantiles, level)
    if quantile.not_reached:
        return f"> {seconds(quantile.above_s)}"
    if interval_too and quantile.ci95 is not None:
        low, high = quantile.ci95
        return f"{seconds(quantile.value)} ({seconds(low)} to {seconds(high)})"
    return seconds(quantile.value)


def _groups(summary: SweepSummary) -> list[str]:
    """Groups worth a column: none when there is but one."""
    names = dict.fromkeys(name for point in summary.curve for name in point.groups)
    return list(names)[:GROUPS_SHOWN] if len(names) > 1 else []


def _group_table(summary: SweepSummary, names: Sequence[str]) -> Table:
    rows = [
        Row(
            rate(point.offered_rps),
            tuple(_group_cell(point.groups.get(name)) for name in names),
        )
        for point in summary.curve
    ]
    return Table(
        "By group: good, TTFT p95",
        tuple(Column(safe(name, NAME_CELLS)) for name in names),
        tuple(rows),
    )


def _group_cell(part: Part | None) -> str:
    if part is None:
        return NOTHING
    return (
        f"{percent(part.goodput.ratio)}, {quantile_cell(part.latency, 'ttft_s', 'p95')}"
    )


def _knee_table(summary: SweepSummary, names: Sequence[str]) -> Table:
    return Table(
        "Knee by group",
        (Column("knee"), Column("95% interval")),
        tuple(
            Row(
                safe(name, NAME_CELLS),
                (
                    knee_short(summary.group_knees[name]),
                    knee_ends(summary.group_knees[name]),
                ),
            )
            for name in names
            if name in summary.group_knees
        ),
        ("the rate of all requests together at which this group's goodput breaks",),
    )


def _loss_table(curve: Sequence[Point]) -> Table:
    layers = dict.fromkeys(layer for point in curve for layer in point.shed)
    told = any(point.preemptions.value is not None for point in curve)
    return Table(
        "Lost, by layer",
        (
            *(Column(safe(layer_words(layer), 24)) for layer in layers),
            Column("preemptions", spare=True),
            Column("most often for want of", numeric=False),
        ),
        tuple(
            Row(
                rate(point.offered_rps),
                (
                    *(
                        percent(point.shed[layer].share if layer in point.shed else 0.0)
                        for layer in layers
                    ),
                    NOTHING
                    if point.preemptions.value is None
                    else f"{point.preemptions.value:.4g}",
                    ", ".join(safe(name, 24) for name in list(point.resources)[:2]),
                ),
            )
            for point in curve
        ),
        ("shares of the offered requests; retries: 0, always",)
        + (("preemptions: mean a run, as the engine counts them",) if told else ()),
    )


def _doubts(summary: SweepSummary, tag: str, screen: Screen) -> Iterator[Line]:
    yield Line("")
    valid = summary.verdict.status == "valid"
    words = "VALID" if valid else "INVALID, do not use these numbers"
    yield from _prose(f"Verdict{tag}: {words}", screen, "good" if valid else "bad")
    reasons = [("because", r) for r in summary.verdict.reasons]
    reasons += [("warning:", r) for r in summary.verdict.warnings]
    for word, reason in reasons[:DOUBTS_SHOWN]:
        yield from _prose(f"{word} {safe(reason.text, 300)}", screen, indent=INDENT)
        if reason.remedy:
            todo = f"to do: {safe(reason.remedy, 300)}"
            yield from _prose(todo, screen, indent=INDENT * 2)
    if len(reasons) > DOUBTS_SHOWN:
        more = plural(len(reasons) - DOUBTS_SHOWN, "doubt")
        yield from _prose(f"{more} more in summary.json", screen, indent=INDENT)
    for finding in summary.findings:
        yield from _prose(f"noticed: {safe(finding, 300)}", screen, indent=INDENT)
    yield from _prose(_made(summary), screen, indent=INDENT)


def _made(summary: SweepSummary) -> str:
    offered = sum(run.all.offered for run in summary.runs)
    words = (
        f"{plural(len(summary.runs), 'run')} of {seconds(summary.plan.duration_s)}, "
        f"{count(offered)} requests"
    )
    if summary.plan.expected:
        words += f"; expected was {safe(summary.plan.expected, 200)}"
    return words
