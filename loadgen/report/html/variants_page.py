"""Several sweeps side by side as a page."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from loadgen.analysis.curve import Point, PointGoodput
from loadgen.analysis.variants import VariantResult, VariantsSummary
from loadgen.report.curve_words import knee_ends, knee_short
from loadgen.report.escape import safe
from loadgen.report.html.blocks import (
    Block,
    Facts,
    Figure,
    Number,
    Page,
    Remarks,
    Section,
    TableBlock,
)
from loadgen.report.html.sweep_figures import lines_figure
from loadgen.report.model import Remark
from loadgen.report.numbers import count, percent, seconds
from loadgen.report.variants import variants_tables
from loadgen.report.words import BASIS_WORDS, basis_tag

__all__ = ["variants_page"]

MOST_NUMBERS = 4


def variants_page(summary: VariantsSummary) -> Page:
    """Compute the page of variants, or of sweeps that were named together."""
    tables = variants_tables(summary)
    sections = (
        Section("Goodput against offered load", tuple(_figures(summary))),
        Section("In numbers", tuple(map(TableBlock, tables))),
        Section("Can these numbers be believed?", (Remarks(tuple(_doubts(summary))),)),
        Section("What was run", tuple(map(_made_of, summary.variants))),
    )
    whole = all(one.sweep is not None for one in summary.variants)
    words = [*BASIS_WORDS.get(summary.basis, ()), *_headline(summary)]
    return Page(
        kind="Sweeps side by side",
        title=safe(summary.name, 60),
        basis_tag=basis_tag(summary.basis),
        verdict=_verdict(summary),
        state="good" if whole and _all_valid(summary) else "bad",
        headline=" ".join(words),
        numbers=tuple(_numbers(summary)),
        sections=tuple(section for section in sections if section.blocks),
        foot=f"loadgen {safe(summary.loadgen_version, 24)}, "
        f"{safe(summary.started_utc, 40)}; this page needs no network",
    )


def _all_valid(summary: VariantsSummary) -> bool:
    sweeps = [one.sweep for one in summary.variants if one.sweep is not None]
    return all(sweep.verdict.status == "valid" for sweep in sweeps)


def _verdict(summary: VariantsSummary) -> str:
    made = sum(one.sweep is not None for one in summary.variants)
    total = len(summary.variants)
    if made < total:
        return f"INCOMPLETE, {count(made)} of {count(total)} have a result"
    if not _all_valid(summary):
        return "INVALID in part, see below which"
    return f"VALID, all {count(total)}"


def _headline(summary: VariantsSummary) -> Iterator[str]:
    if summary.description:
        yield safe(summary.description, 400)
    parts = [
        f"{safe(one.name, 24)} {knee_short(one.sweep.knee)}"
        for one in summary.variants
        if one.sweep is not None
    ]
    if parts:
        target = next(v.sweep.knee.target for v in summary.variants if v.sweep)
        yield f"Knee at {percent(target)} good: {', '.join(parts)}."


def _numbers(summary: VariantsSummary) -> Iterator[Number]:
    for one in summary.variants[:MOST_NUMBERS]:
        if one.sweep is not None:
            knee = one.sweep.knee
            note = "no interval" if knee.ci95 is None else f"95%: {knee_ends(knee)}"
            yield Number(safe(one.name, 24), knee_short(knee), note)


def _figures(summary: VariantsSummary) -> Iterator[Figure]:
    swept = {
        one.name: one.sweep for one in summary.variants if one.sweep and one.sweep.curve
    }
    if not swept:
        return
    target = next(iter(swept.values())).knee.target
    yield lines_figure(
        "Of all offered requests, the share that was good",
        {name: _shares(sweep.curve, None) for name, sweep in swept.items()},
        target,
        "rate of the whole schedule, per second",
    )
    groups = dict.fromkeys(g for s in swept.values() for p in s.curve for g in p.groups)
    for group in groups if len(groups) > 1 else ():
        lines = {name: _shares(sweep.curve, group) for name, sweep in swept.items()}
        shown: Mapping[str, list[tuple[float, PointGoodput]]]
        shown = {name: line for name, line in lines.items() if line}
        yield lines_figure(
            f"Of the requests of {safe(group, 24)}, the share that was good",
            shown,
            target,
            "rate of the whole schedule, per second",
        )


def _shares(curve: list[Point], group: str | None) -> list[tuple[float, PointGoodput]]:
    if group is None:
        return [(point.offered_rps, point.goodput) for point in curve]
    return [
        (point.offered_rps, point.groups[group].goodput)
        for point in curve
        if group in point.groups
    ]


def _doubts(summary: VariantsSummary) -> Iterator[Remark]:
    clean = True
    for one in summary.variants:
        for remark in _doubts_of(one):
            clean = False
            yield remark
    if clean:
        yield Remark("nothing speaks against them")


def _doubts_of(one: VariantResult) -> Iterator[Remark]:
    name = safe(one.name, 40)
    if one.trouble is not None:
        yield Remark(f"{name}: {safe(one.trouble, 300)}")
    if one.sweep is None:
        return
    if one.sweep.progress.status != "complete":
        yield Remark(f"{name}: {safe(one.sweep.progress.text, 200)}")
    for reason in (*one.sweep.verdict.reasons, *one.sweep.verdict.warnings):
        yield Remark(f"{name}: {safe(reason.text, 300)}", safe(reason.remedy, 300))


def _made_of(one: VariantResult) -> Block:
    pairs = [("folder", safe(one.folder or "none", 120))]
    if one.launch is not None:
        pairs.append(("launched", safe(shlex.join(one.launch), 600)))
    if one.standin is not None:
        pairs.append(("stand-in's flags", safe(one.standin, 300) or "none"))
    pairs.append(("groups offered", safe(", ".join(one.only), 200) or "all"))
    if one.ready_s is not None:
        pairs.append(("ready after", seconds(one.ready_s)))
    if one.sweep is not None:
        sweep = one.sweep.sweep
        pairs += [
            ("workload", safe(sweep.workload, 120)),
            ("model", safe(sweep.model or "not told", 120)),
            ("server", safe(sweep.server_version or "version not told", 120)),
            ("seeds", safe(", ".join(map(str, one.sweep.plan.seeds)), 200)),
            ("called", safe(shlex.join(sweep.command), 600)),
        ]
    return Facts(safe(one.name, 60), tuple(pairs))
