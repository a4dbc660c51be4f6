"""One run as a page."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from loadgen.report.escape import safe
from loadgen.report.facts import Facts, Made, read_manifest, read_summary
from loadgen.report.headline import offered, refused, slo_words
from loadgen.report.health import client_table
from loadgen.report.html.blocks import (
    Block,
    Commands,
    Number,
    Page,
    Prose,
    Remarks,
    Section,
    TableBlock,
)
from loadgen.report.html.blocks import Facts as FactsBlock
from loadgen.report.html.made_of import what_was_run
from loadgen.report.html.run_figures import ecdf_figures, timeline_figure
from loadgen.report.inside import inside_table
from loadgen.report.losses import layers_table, tenants_table
from loadgen.report.model import Remark, ReportModel, build
from loadgen.report.numbers import count, interval, rate, seconds, share
from loadgen.report.reduce import Reduced
from loadgen.report.tables import goodput_table, latency_table, outcome_table
from loadgen.report.tracks import Track

__all__ = ["Pictured", "run_page"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pictured:
    """What is drawn of a run beside its summary.

    Attributes:
        reduced: its requests; None where they cannot be read.
        tracks: what was seen of engine and GPUs.
        not_measured: what was not, in words.
    """

    reduced: Reduced | None
    tracks: Sequence[Track] = ()
    not_measured: Sequence[str] = ()


def run_page(
    summary: Mapping[str, Any] | msgspec.Struct,
    manifest: Mapping[str, Any] | msgspec.Struct | None,
    pictured: Pictured,
    folder: str | None = None,
) -> Page:
    """Compute the page of one run.

    Args:
        summary: just judged, or the JSON of a stored one.
        manifest: the same of the manifest; None leaves out what was run.
        pictured: what is drawn.
        folder: the run's folder as a person would type it; None: not kept.

    Raises:
        RunDirError: summary or manifest is not what it should be.
    """
    report = build(summary, manifest, folder)
    facts = read_summary(summary)
    made = Made() if manifest is None else read_manifest(manifest)
    sections = (
        Section("Over time", tuple(_over_time(facts, pictured))),
        Section("Outcomes and causes", tuple(_ends(facts))),
        Section("Latency", tuple(_times(facts, pictured))),
        Section("Can these numbers be believed?", tuple(_doubts(facts, report))),
        Section("What was run", tuple(_made_of(facts, made, report, folder))),
        Section("Try next", _steps(report)),
        Section("How it was counted", tuple(_definitions(facts))),
    )
    states: dict[bool | None, Literal["good", "bad", "unknown"]]
    states = {True: "good", False: "bad", None: "unknown"}
    return Page(
        kind="Load test of one run",
        title=report.title,
        basis_tag=report.tag,
        verdict=report.verdict,
        state=states[report.valid],
        headline=report.headline,
        numbers=tuple(_numbers(facts)),
        sections=tuple(section for section in sections if section.blocks),
        foot=_foot(facts, made),
    )


def _numbers(facts: Facts) -> Iterator[Number]:
    good, total = facts.goodput, offered(facts)
    within = f"{count(good.good)} of {count(total)}"
    if good.ci95 is not None:
        within += f"; 95% interval {interval(good.ci95)}"
    label = "answered within target" if good.slo else "answered"
    yield Number(label, share(good.good, total), within)
    ttft, limit_s = facts.latency.ttft_s, good.slo.get("ttft_s")
    note = f"of {count(ttft.n)} answers"
    if limit_s is not None:
        note += f"; target {seconds(limit_s)}"
    yield Number("first token, p95", seconds(ttft.p95), note)
    said_no = refused(facts)
    yield Number(
        "refused", share(said_no, total), f"{count(said_no)} of {count(total)}"
    )
    pace = f"{count(total)} in {seconds(facts.offered.duration_s)}"
    yield Number("offered", rate(facts.offered.rate_rps), pace)


def _ends(facts: Facts) -> Iterator[Block]:
    yield TableBlock(outcome_table(facts))
    layers = layers_table(facts)
    if layers is not None:
        yield TableBlock(layers)
    yield TableBlock(goodput_table(facts))
    tenants = tenants_table(facts)
    if tenants is not None:
        yield TableBlock(tenants)


def _over_time(facts: Facts, pictured: Pictured) -> Iterator[Block]:
    if pictured.reduced is not None:
        yield timeline_figure(
            pictured.reduced,
            pictured.tracks,
            pictured.not_measured,
            facts.goodput.slo.get("ttft_s"),
        )
    inside = inside_table(facts)
    if inside is not None:
        yield TableBlock(inside)


def _times(facts: Facts, pictured: Pictured) -> Iterator[Block]:
    if pictured.reduced is not None:
        yield from ecdf_figures(pictured.reduced, facts.goodput.slo)
    yield TableBlock(latency_table(facts))


def _doubts(facts: Facts, report: ReportModel) -> Iterator[Block]:
    yield Prose((f"Verdict: {report.verdict}.",))
    if report.reasons:
        yield Remarks(report.reasons)
    if report.warnings:
        yield Remarks(
            tuple(Remark(f"Warning: {r.text}", r.remedy) for r in report.warnings)
        )
    if report.findings:
        yield FactsBlock("Noticed", ())
        yield Remarks(tuple(Remark(text) for text in report.findings))
    if report.reconciliation:
        yield FactsBlock("The engine's own counters", ())
        yield Remarks(tuple(Remark(text) for text in report.reconciliation))
    yield TableBlock(client_table(facts))


def _made_of(
    facts: Facts, made: Made, report: ReportModel, folder: str | None
) -> Iterator[Block]:
    yield from what_was_run(facts, made)
    steps = []
    if made.command:
        steps.append(("It was called", safe(shlex.join(made.command), 1000)))
    if folder is not None:
        path = shlex.quote(f"{folder.rstrip('/')}/schedule.jsonl")
        again = f"loadgen replay {path} --url http://HOST:PORT"
        steps.append(("The same bytes at the same times again", safe(again, 1000)))
        steps.append(
            (
                f"The schedule is the one above if this prints its digest "
                f"({slo_words(facts.goodput.slo) or 'no target'})",
                safe(f"head -n -1 {path} | sha256sum", 1000),
            )
        )
    if steps:
        yield Commands(tuple(steps))


def _steps(report: ReportModel) -> tuple[Block, ...]:
    if not report.steps:
        return ()
    return (Commands(tuple((step.why, step.command) for step in report.steps)),)


def _definitions(facts: Facts) -> Iterator[Block]:
    if facts.definitions:
        yield FactsBlock(
            "",
            tuple(
                (safe(name, 40), safe(words, 300))
                for name, words in facts.definitions.items()
            ),
        )


def _foot(facts: Facts, made: Made) -> str:
    version = safe(facts.run.loadgen_version or made.loadgen_version, 24)
    started = safe(facts.run.started_utc or made.started_utc, 40)
    parts = [f"loadgen {version}".strip(), f"run of {started}" if started else ""]
    return ", ".join(part for part in parts if part) + "; this page needs no network"
