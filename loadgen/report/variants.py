"""Variants side by side: goodput, waits and losses by rate, and who hurts whom."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from loadgen.analysis.curve import Point
from loadgen.analysis.variants import VariantResult, VariantsSummary
from loadgen.report.curve import lost_share, quantile_cell
from loadgen.report.curve_words import knee_ends, knee_short
from loadgen.report.escape import safe
from loadgen.report.layout import INDENT, Line, paragraph, set_table
from loadgen.report.numbers import NOTHING, percent, rate, seconds
from loadgen.report.screen import Screen
from loadgen.report.table import NAME_CELLS, Column, Row, Table
from loadgen.report.terminal import drawn
from loadgen.report.words import BASIS_WORDS, basis_tag

__all__ = ["variants_tables", "variants_text"]


def variants_text(summary: VariantsSummary, screen: Screen) -> str:
    """The whole comparison as one string that ends in a newline."""
    return drawn(list(_lines(summary, screen)), screen)


def _lines(summary: VariantsSummary, screen: Screen) -> Iterator[Line]:
    tag = basis_tag(summary.basis)
    yield from _prose(f"{safe(summary.name, 60)}{tag}", screen, "strong")
    words = [*BASIS_WORDS.get(summary.basis, ()), safe(summary.description, 300)]
    yield from _prose(" ".join(filter(None, words)), screen)
    for table in variants_tables(summary):
        yield Line("")
        yield from set_table(table, tag, screen)
    yield Line("")
    for variant in summary.variants:
        for line in _doubts(variant):
            yield from _prose(line, screen, indent=INDENT)


def _prose(
    text: str, screen: Screen, style: str = "", *, indent: str = ""
) -> Iterator[Line]:
    hanging = indent + INDENT if indent else ""
    for line in paragraph(text, screen, indent=indent, hanging=hanging):
        yield Line(line, style)


def _doubts(variant: VariantResult) -> Iterator[str]:
    name = safe(variant.name, NAME_CELLS)
    if variant.trouble is not None:
        yield f"{name}: {safe(variant.trouble, 300)}"
    if variant.sweep is None:
        return
    if variant.sweep.progress.status != "complete":
        yield f"{name}: {safe(variant.sweep.progress.text, 200)}"
    for reason in [*variant.sweep.verdict.reasons, *variant.sweep.verdict.warnings]:
        yield f"{name}: {safe(reason.text, 300)}"


def variants_tables(summary: VariantsSummary) -> list[Table]:
    """Everything that is a table, in reading order."""
    tables = [
        _knees(summary.variants),
        _by_rate(summary.variants, "Good", lambda p: percent(p.goodput.ratio)),
        _by_rate(
            summary.variants,
            "TTFT p95",
            lambda p: quantile_cell(p.latency, "ttft_s", "p95"),
        ),
    ]
    tables += [
        _by_rate(
            summary.variants,
            f"Good, {safe(group, NAME_CELLS)}",
            lambda p, group=group: _group_good(p, group),  # type: ignore[misc]
        )
        for group in _groups(summary.variants)
    ]
    tables.append(_by_rate(summary.variants, "Lost", lambda p: percent(lost_share(p))))
    if summary.interference:
        tables.append(_interference(summary))
    return tables


def _knees(variants: Sequence[VariantResult]) -> Table:
    rows = []
    for variant in variants:
        knee = None if variant.sweep is None else variant.sweep.knee
        cells = (
            (NOTHING, NOTHING, _differs(variant))
            if knee is None
            else (knee_short(knee), knee_ends(knee), _differs(variant))
        )
        rows.append(Row(safe(variant.name, NAME_CELLS), cells))
    return Table(
        "Knee by variant",
        (
            Column("knee"),
            Column("95% interval"),
            Column("what differs", numeric=False, spare=True),
        ),
        tuple(rows),
        ("rates are of the whole schedule; where groups are left out, less is offered",)
        if any(variant.only for variant in variants)
        else (),
    )


def _differs(variant: VariantResult) -> str:
    parts = [f"only {', '.join(variant.only)}"] if variant.only else []
    if variant.standin is not None:
        parts.append(variant.standin)
    if variant.launch is not None:
        parts.append(" ".join(variant.launch))
    return safe("; ".join(parts), 60)


def _by_rate(
    variants: Sequence[VariantResult], title: str, cell: Callable[[Point], str]
) -> Table:
    found = [
        {} if one.sweep is None else {p.offered_rps: p for p in one.sweep.curve}
        for one in variants
    ]
    rates = sorted({one for points in found for one in points})
    return Table(
        title,
        tuple(Column(safe(variant.name, NAME_CELLS)) for variant in variants),
        tuple(
            Row(
                rate(at),
                tuple(
                    cell(points[at]) if at in points else NOTHING for points in found
                ),
            )
            for at in rates
        ),
    )


def _groups(variants: Sequence[VariantResult]) -> list[str]:
    names = {
        name: None
        for variant in variants
        if variant.sweep is not None
        for point in variant.sweep.curve
        for name in point.groups
    }
    return list(names) if len(names) > 1 else []


def _group_good(point: Point, group: str) -> str:
    part = point.groups.get(group)
    return NOTHING if part is None else percent(part.goodput.ratio)


def _interference(summary: VariantsSummary) -> Table:
    return Table(
        "What the others do to a group",
        (
            Column("at"),
            Column("alone"),
            Column("mixed"),
            Column("goodput lost"),
            Column("95% interval"),
            Column("TTFT p95 alone", spare=True),
            Column("mixed", spare=True),
        ),
        tuple(
            Row(
                f"{safe(one.group, NAME_CELLS)} in {safe(one.mixed, NAME_CELLS)}",
                (
                    rate(one.rate_rps),
                    percent(one.goodput_alone),
                    percent(one.goodput_mixed),
                    _points(one.goodput_lost.value),
                    _points_interval(one.goodput_lost.ci95),
                    seconds(one.ttft_p95_alone_s),
                    seconds(one.ttft_p95_mixed_s),
                ),
            )
            for one in summary.interference
        ),
        (
            "the same requests at the same instants, once with and once without the "
            "other groups; differences are of one schedule each, interval over "
            "schedules",
        ),
    )


def _points(lost: float | None) -> str:
    return NOTHING if lost is None else f"{100 * lost:.3g} pp"


def _points_interval(ends: tuple[float, float] | None) -> str:
    return NOTHING if ends is None else f"{100 * ends[0]:.3g} to {100 * ends[1]:.3g}"
