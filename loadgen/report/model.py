"""The report as data: computed here, drawn by the renderers.

Every text in it is harmless already: one line, bounded, nothing that acts. A
renderer still writes it as text of its own format.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from loadgen.model import Outcome
from loadgen.report.advice import Step, steps
from loadgen.report.escape import safe
from loadgen.report.facts import (
    Facts,
    Finding,
    Made,
    Reason,
    read_manifest,
    read_summary,
)
from loadgen.report.headline import headline, offered
from loadgen.report.health import client_table
from loadgen.report.inside import inside_table
from loadgen.report.losses import layers_table, tenants_table
from loadgen.report.numbers import count, share
from loadgen.report.reduce import Reduced
from loadgen.report.strips import Strip, strips_of
from loadgen.report.table import Table
from loadgen.report.tables import goodput_table, latency_table, outcome_table
from loadgen.report.words import basis_tag, plural

__all__ = ["FileNote", "Remark", "ReportModel", "build"]

FINDINGS_SHOWN = 8
COUNTERS_SHOWN = 6
DIGEST_CHARS = len("sha256:") + 12


@dataclass(frozen=True, slots=True)
class Remark:
    """A sentence, and what to do about it; the latter may be empty."""

    text: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class FileNote:
    """A file of the run's folder and what is in it."""

    name: str
    holds: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportModel:
    """One run, ready to be drawn.

    Attributes:
        title: which run, and to whom it was offered.
        tag: what follows each line that matters; empty when a server was measured.
        headline: the run in words.
        tables: what became of it, in reading order.
        strips: small pictures of it; none where the requests were not read.
        reconciliation: the engine's own counters against ours; empty: not looked at.
        valid: the verdict; None when nobody judged.
        verdict: the verdict in words.
        reasons: why it is invalid.
        warnings: what to bear in mind.
        findings: what was odd about the answers.
        folder: where the files are; None when there are none.
        files: the files in it.
        steps: what to try next.
    """

    title: str
    tag: str
    headline: str
    tables: tuple[Table, ...]
    strips: tuple[Strip, ...]
    reconciliation: tuple[str, ...]
    valid: bool | None
    verdict: str
    reasons: tuple[Remark, ...]
    warnings: tuple[Remark, ...]
    findings: tuple[str, ...]
    folder: str | None
    files: tuple[FileNote, ...]
    steps: tuple[Step, ...]


def build(
    summary: Mapping[str, Any] | msgspec.Struct,
    manifest: Mapping[str, Any] | msgspec.Struct | None = None,
    folder: str | None = None,
    reduced: Reduced | None = None,
) -> ReportModel:
    """Compute the report of one run.

    Args:
        summary: just judged, or the JSON of a stored one.
        manifest: the same of the manifest; None leaves out where it went.
        folder: the run's folder as a person would type it; None: not kept.
        reduced: what can be drawn of its requests.

    Raises:
        RunDirError: either is not what it should be.
    """
    facts = read_summary(summary)
    made = Made() if manifest is None else read_manifest(manifest)
    verdict = facts.verdict
    tables = (
        outcome_table(facts),
        latency_table(facts),
        goodput_table(facts),
        layers_table(facts),
        tenants_table(facts),
        inside_table(facts),
        client_table(facts),
    )
    return ReportModel(
        title=_title(facts, made),
        tag=basis_tag(facts.basis),
        headline=headline(facts),
        tables=tuple(table for table in tables if table is not None),
        strips=() if reduced is None else strips_of(reduced, facts.goodput.slo),
        reconciliation=_reconciliation(facts),
        valid=None if verdict.status is None else verdict.status == "valid",
        verdict=_verdict(verdict.status),
        reasons=_remarks(verdict.reasons),
        warnings=_remarks(verdict.warnings),
        findings=_findings(facts),
        folder=None if folder is None else safe(folder),
        files=() if folder is None else _files(facts),
        steps=steps(facts, made, folder),
    )


def _title(facts: Facts, made: Made) -> str:
    name = safe(facts.run.name or made.name or "run", 40)
    url = made.target.get("url")
    return (
        f"{name}, offered to {safe(url, 80)}" if url and isinstance(url, str) else name
    )


def _reconciliation(facts: Facts) -> tuple[str, ...]:
    """What it comes to, then the counts, then what they leave out."""
    told = facts.reconciliation or {}
    lines = []
    finding, status = told.get("finding"), told.get("status")
    if isinstance(finding, str):
        state = f"{safe(status, 20)}: " if isinstance(status, str) else ""
        lines.append(f"{state}{safe(finding, 300)}")
    engine = told.get("engine")
    if isinstance(engine, dict) and engine:
        counted = ", ".join(
            f"{safe(str(name).replace('_', ' '), 40)} {_number(value)}"
            for name, value in list(engine.items())[:COUNTERS_SHOWN]
        )
        lines.append(f"it counted {counted}{_difference(told.get('difference'))}")
    notes = told.get("findings")
    if isinstance(notes, list):
        lines += [safe(str(note), 300) for note in notes[:FINDINGS_SHOWN]]
    return tuple(lines)


def _difference(value: object) -> str:
    if not isinstance(value, int | float):
        return ""
    return f"; difference to our count {value:+g}" if value else "; no difference"


def _number(value: object) -> str:
    return count(value) if isinstance(value, int) else safe(str(value), 24)


def _verdict(status: str | None) -> str:
    if status is None:
        return "NOT JUDGED"
    if status == "valid":
        return "VALID, the client kept the schedule, nothing is missing"
    return f"{safe(status, 20).upper()}, do not use these numbers"


def _remarks(reasons: list[Reason]) -> tuple[Remark, ...]:
    return tuple(
        Remark(safe(reason.text, 400), safe(reason.remedy, 400)) for reason in reasons
    )


def _findings(facts: Facts) -> tuple[str, ...]:
    total = offered(facts)
    lines = [_finding(finding, total) for finding in facts.findings]
    hidden = len(lines) - FINDINGS_SHOWN
    more = [f"{hidden} more in summary.json"] if hidden > 0 else []
    return tuple(lines[:FINDINGS_SHOWN] + more)


def _finding(finding: Finding, total: int) -> str:
    text = safe(finding.text, 240)
    if finding.first_seq is None:  # of a file or of moments, not of requests
        return f"{finding.count:,} times: {text}" if finding.count > 1 else text
    code = f", {safe(finding.code, 40)}" if finding.code else ""
    return (
        f"{plural(finding.count, 'request')} ({share(finding.count, total)}){code}: "
        f"{text}"
    )


def _files(facts: Facts) -> tuple[FileNote, ...]:
    digest = safe(facts.offered.schedule_digest, DIGEST_CHARS + 3)
    ok = facts.outcomes.get(Outcome.OK, 0)
    watched = FileNote("telemetry.jsonl", "the server, GPUs and client, look by look")
    return (
        FileNote("summary.json", "this report as numbers"),
        FileNote(
            "requests.jsonl",
            f"one line a request: {ok:,} ok, {offered(facts) - ok:,} not",
        ),
        FileNote(
            "schedule.jsonl",
            f"what was sent and when, sealed{f' ({digest})' if digest else ''}",
        ),
        *((watched,) if facts.telemetry else ()),
    )
