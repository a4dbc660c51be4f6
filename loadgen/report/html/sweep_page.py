"""A sweep as a page: the curve, the knee, and what it stands on."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace

from loadgen.analysis.curve import RunPoint, SweepSummary
from loadgen.report.curve import sweep_tables
from loadgen.report.curve_words import (
    flag_words,
    knee_ends,
    knee_short,
    overload_words,
    sweep_headline,
)
from loadgen.report.escape import safe
from loadgen.report.headline import slo_words
from loadgen.report.html.blocks import (
    Block,
    Commands,
    Facts,
    Number,
    Page,
    Remarks,
    Section,
    TableBlock,
)
from loadgen.report.html.sweep_figures import (
    goodput_figure,
    group_figure,
    latency_figures,
)
from loadgen.report.model import Remark
from loadgen.report.numbers import count, interval, percent, rate, seconds, share
from loadgen.report.screen import Screen
from loadgen.report.table import Column, Row, Table
from loadgen.report.words import basis_tag, plural

__all__ = ["sweep_page"]

RUNS_SHOWN = 400
ROWS_OPEN = 16
NOT_TOLD = "not told"


def sweep_page(summary: SweepSummary, folder: str | None = None) -> Page:
    """Compute the page of one sweep.

    Args:
        summary: the judgement.
        folder: the sweep's folder as a person would type it; None: not kept.
    """
    valid = summary.verdict.status == "valid"
    sections = (
        Section("Goodput against offered load", tuple(_curve(summary))),
        Section("Latency against offered load", tuple(_latency(summary))),
        Section("By group", tuple(_groups(summary))),
        Section("Past capacity and back", tuple(_overload(summary))),
        Section("Can these numbers be believed?", tuple(_doubts(summary))),
        Section("What was run", tuple(_made_of(summary, folder))),
        Section("How it was counted", (_definitions(summary),)),
    )
    url = summary.sweep.url
    name = _name(summary)
    return Page(
        kind="Sweep over offered loads",
        title=f"{name}, offered to {safe(url, 80)}" if url else name,
        basis_tag=basis_tag(summary.basis),
        verdict="VALID" if valid else "INVALID, do not use these numbers",
        state="good" if valid else "bad",
        headline=sweep_headline(summary),
        numbers=tuple(_numbers(summary)),
        sections=tuple(section for section in sections if section.blocks),
        foot=f"loadgen {safe(summary.sweep.loadgen_version, 24)}, sweep of "
        f"{safe(summary.sweep.started_utc, 40)}; this page needs no network",
    )


def _name(summary: SweepSummary) -> str:
    variant = summary.sweep.variant
    name = safe(summary.sweep.name, 40)
    return name if variant is None else f"{name}, variant {safe(variant, 40)}"


def _numbers(summary: SweepSummary) -> Iterator[Number]:
    knee = summary.knee
    ends = "no interval" if knee.ci95 is None else f"95% interval {knee_ends(knee)}"
    yield Number(f"knee at {percent(knee.target)} good", knee_short(knee), ends)
    if summary.curve:
        best = max(summary.curve, key=lambda point: point.goodput.rate_rps or 0.0)
        yield Number(
            "most good per second",
            rate(best.goodput.rate_rps),
            f"at {rate(best.offered_rps)} offered",
        )
        last = summary.curve[-1]
        yield Number(
            f"good at {rate(last.offered_rps)}",
            percent(last.goodput.ratio),
            f"95% interval {interval(last.goodput.ci95)}",
        )
    used = sum(run.usable for run in summary.runs)
    yield Number("runs used", f"{used} of {len(summary.runs)}", _loads(summary))


def _loads(summary: SweepSummary) -> str:
    return (
        f"{plural(len(summary.curve), 'rate')}, "
        f"{plural(summary.plan.schedules, 'schedule')} each"
    )


def _curve(summary: SweepSummary) -> Iterator[Block]:
    if any(point.goodput.offered for point in summary.curve):
        yield goodput_figure(summary)
    flags = tuple(Remark(words) for words in flag_words(summary.knee.flags))
    if flags:
        yield Remarks(flags)
    for table in _tables(summary, ("Goodput", "Lost, by layer")):
        yield TableBlock(table, folded=len(table.rows) > ROWS_OPEN)


def _latency(summary: SweepSummary) -> Iterator[Block]:
    yield from latency_figures(summary)
    for table in _tables(summary, ("Latency",)):
        yield TableBlock(table, folded=len(table.rows) > ROWS_OPEN)


def _groups(summary: SweepSummary) -> Iterator[Block]:
    figure = group_figure(summary)
    if figure is not None:
        yield figure
        for table in _tables(summary, ("By group: good, TTFT p95", "Knee by group")):
            yield TableBlock(table, folded=len(table.rows) > ROWS_OPEN)


def _tables(summary: SweepSummary, titles: tuple[str, ...]) -> Iterator[Table]:
    """The terminal's tables, without the bars that a picture shows better."""
    for table in sweep_tables(summary, Screen()):
        if table.title in titles:
            drawn = [at for at, column in enumerate(table.columns) if column.heading]
            yield replace(
                table,
                columns=tuple(table.columns[at] for at in drawn),
                rows=tuple(
                    replace(row, cells=tuple(row.cells[at] for at in drawn))
                    for row in table.rows
                ),
            )


def _overload(summary: SweepSummary) -> Iterator[Block]:
    if summary.overload is not None:
        yield Remarks(tuple(Remark(w) for w in overload_words(summary.overload)))


def _doubts(summary: SweepSummary) -> Iterator[Block]:
    verdict = summary.verdict
    remarks = [
        Remark(safe(reason.text, 400), safe(reason.remedy, 400))
        for reason in (*verdict.reasons, *verdict.warnings)
    ]
    remarks += [Remark(safe(finding, 400)) for finding in summary.findings]
    yield Remarks(tuple(remarks) or (Remark("nothing speaks against them"),))
    yield TableBlock(_runs_table(summary), folded=len(summary.runs) > ROWS_OPEN)


def _runs_table(summary: SweepSummary) -> Table:
    shown = summary.runs[:RUNS_SHOWN]
    hidden = len(summary.runs) - len(shown)
    notes = ["rest: how the engine was brought to rest before the run"]
    if hidden:
        notes.append(f"{plural(hidden, 'run')} more in summary.json")
    return Table(
        "The runs",
        (
            Column("schedule"),
            Column("good"),
            Column("of"),
            Column("share"),
            Column("drain"),
            Column("rest", numeric=False),
            Column("folder", numeric=False),
        ),
        tuple(map(_run_row, shown)),
        tuple(notes),
    )


def _run_row(run: RunPoint) -> Row:
    rest = "not told" if run.settle is None else safe(run.settle.how, 24)
    below = () if run.usable else (f"left out: {safe(run.why_not or '', 300)}",)
    return Row(
        rate(run.rate_rps),
        (
            count(run.schedule + 1),
            count(run.all.good),
            count(run.all.offered),
            share(run.all.good, run.all.offered),
            seconds(run.drain_s),
            rest,
            safe(run.folder, 80),
        ),
        below=below,
    )


def _made_of(summary: SweepSummary, folder: str | None) -> Iterator[Block]:
    sweep, plan = summary.sweep, summary.plan
    yield Facts(
        "Server",
        (
            ("address", _said(sweep.url)),
            ("model", _said(sweep.model)),
            ("version", _said(sweep.server_version)),
            ("variant", "none" if sweep.variant is None else _said(sweep.variant)),
            ("basis of the numbers", safe(summary.basis)),
        ),
    )
    yield Facts(
        "Load",
        (
            ("workload", _said(sweep.workload)),
            ("rates", ", ".join(map(rate, plan.rates_rps)) or safe(plan.rates, 80)),
            (
                "schedules",
                f"{plan.schedules} at each rate, seeds "
                f"{safe(', '.join(map(str, plan.seeds)), 200)}",
            ),
            ("each run", f"{seconds(plan.duration_s)}; open loop, each request once"),
            ("target (SLO)", slo_words(summary.slo) or "none"),
            ("budget", "none" if plan.budget_s is None else seconds(plan.budget_s)),
            ("precision expected", _said(plan.expected)),
            ("progress", safe(summary.progress.text, 200)),
        ),
    )
    yield Facts(
        "Client",
        (
            ("started", _said(sweep.started_utc)),
            ("loadgen", _said(sweep.loadgen_version)),
            (
                "machine",
                safe(", ".join(f"{k} {v}" for k, v in sweep.host.items()), 400),
            ),
            ("retries", "0"),
        ),
    )
    steps = [("It was called", safe(shlex.join(sweep.command), 1000))]
    if folder is not None and summary.runs:
        closest = _closest(summary)
        run = shlex.quote(f"{folder.rstrip('/')}/{closest.folder}")
        again = f"loadgen replay {run}/schedule.jsonl --url http://HOST:PORT"
        look = f"loadgen report {run} --html run.html"
        steps.append(("One run seen closely, here the one next to the knee", look))
        steps.append(("The same bytes at the same times again", again))
    yield Commands(tuple((why, safe(command, 1000)) for why, command in steps))


def _closest(summary: SweepSummary) -> RunPoint:
    knee = summary.knee.rate_rps or summary.knee.at_least_rps or 0.0
    return min(summary.runs, key=lambda run: abs(run.rate_rps - knee))


def _said(value: str | None) -> str:
    return NOT_TOLD if value is None else safe(value, 200)


def _definitions(summary: SweepSummary) -> Block:
    return Facts(
        "",
        tuple(
            (safe(name, 40), safe(words, 300))
            for name, words in summary.definitions.items()
        ),
    )
