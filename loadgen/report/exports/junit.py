"""JUnit XML: the verdict, the engine's counters and the gate as test cases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO, NamedTuple
from xml.sax.saxutils import escape, quoteattr

from loadgen.report.escape import safe
from loadgen.report.exports.run import Exported
from loadgen.report.headline import slo_words
from loadgen.report.numbers import percent, share

__all__ = ["Case", "write_cases", "write_junit"]

TEXT_CELLS = 600


class Case(NamedTuple):
    """One test case: failed with a reason, skipped with one, or passed."""

    name: str
    failed: str = ""
    skipped: str = ""
    said: str = ""


def write_junit(run: Exported, out: BinaryIO) -> None:
    """One suite with the run's name; a run that is not valid fails every gate."""
    summary = run.summary
    wall_s = summary.throughput.wall_s or summary.offered.duration_s
    write_cases(summary.run.name, summary.basis, wall_s, list(_cases(run)), out)


def _cases(run: Exported) -> Iterator[Case]:
    summary = run.summary
    verdict = summary.verdict
    said = "; ".join(f"warning: {one.text}" for one in verdict.warnings)
    failed = ""
    if verdict.status != "valid":
        failed = "; ".join(
            f"{one.text} (to do: {one.remedy})" for one in verdict.reasons
        )
    yield Case("the run is valid", failed=failed, said=said)
    yield _reconciled(run)
    slo = slo_words(summary.goodput.slo) or "answered in full"
    parts = {"": summary.goodput}
    if len(summary.groups) > 1:
        parts |= {name: group.goodput for name, group in summary.groups.items()}
    for name, goodput in parts.items():
        whose = f" of {name}" if name else ""
        fact = (
            f"{goodput.good} of {goodput.offered} "
            f"({share(goodput.good, goodput.offered)}){whose} are good: {slo}"
        )
        if run.gate is None:
            yield Case(f"goodput{whose}", skipped="no gate was asked", said=fact)
            continue
        missed = goodput.ratio is None or goodput.ratio < run.gate
        asked = f"{fact}; asked for {percent(run.gate)}"
        if verdict.status != "valid":
            asked = f"the run is invalid, so nothing was shown. {asked}"
            missed = True
        yield Case(
            f"goodput{whose} is at least {percent(run.gate)}",
            failed=asked if missed else "",
            said=fact,
        )


def _reconciled(run: Exported) -> Case:
    """Whether the engine's own counters tell of the same requests."""
    name, told = "the engine's counters agree", run.summary.reconciliation
    if told is None:
        return Case(name, skipped="the engine's counters were not looked at")
    finding = str(told.get("finding", ""))
    difference = told.get("difference")
    if difference is None:
        return Case(name, skipped=finding or "no difference could be told")
    return Case(name, failed=finding if difference else "", said=finding)


def write_cases(
    suite: str, basis: str, time_s: float, cases: Sequence[Case], out: BinaryIO
) -> None:
    """The document; every text in it is one visible line."""
    failures = sum(bool(case.failed) for case in cases)
    skipped = sum(bool(case.skipped) for case in cases)
    counts = f'tests="{len(cases)}" failures="{failures}" errors="0"'
    name = quoteattr(safe(suite))
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites name="loadgen" {counts} time="{time_s:.3f}">',
        f'<testsuite name={name} {counts} skipped="{skipped}" time="{time_s:.3f}">',
        f'<properties><property name="basis" value={quoteattr(safe(basis))}/>'
        "</properties>",
        *(_element(suite, case) for case in cases),
        "</testsuite>",
        "</testsuites>",
    ]
    out.write("\n".join(lines).encode() + b"\n")


def _element(suite: str, case: Case) -> str:
    inside = ""
    if case.failed:
        text = safe(case.failed, TEXT_CELLS)
        inside += f"<failure message={quoteattr(text)}>{escape(text)}</failure>"
    if case.skipped:
        inside += f"<skipped message={quoteattr(safe(case.skipped, TEXT_CELLS))}/>"
    if case.said:
        inside += f"<system-out>{escape(safe(case.said, TEXT_CELLS))}</system-out>"
    where = f"classname={quoteattr(f'loadgen.{safe(suite, 60)}')}"
    return f"<testcase {where} name={quoteattr(safe(case.name))}>{inside}</testcase>"
