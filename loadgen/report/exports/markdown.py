"""A summary in Markdown, for a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

from loadgen.report.exports.run import Exported
from loadgen.report.model import ReportModel, build
from loadgen.report.table import Table

__all__ = ["markdown", "markdown_table", "write_markdown"]

_SPECIAL = re.compile(r"([\\`*_\[\]<>|~&$#]|^[-+=]|^\d+(?=[.)]))")
_LINKS = re.compile(r"(@|www\.|:(?=//))", re.IGNORECASE)
_NOT_JOINED = "\N{ZERO WIDTH SPACE}"
"""In what would become a link or call somebody by what a server said."""


def write_markdown(run: Exported, out: BinaryIO) -> None:
    """Verdict and headline, the tables that matter, the rest folded away."""
    report = build(run.summary, run.manifest)
    out.write("\n".join(_lines(report)).encode() + b"\n")


def markdown(text: str) -> str:
    """Text that Markdown takes for text: no mark-up, link, mention or HTML."""
    return _LINKS.sub(rf"\1{_NOT_JOINED}", _SPECIAL.sub(_escaped, text))


def _escaped(special: re.Match[str]) -> str:
    """Behind a backslash; of the number of a list it is the dot that counts."""
    text = special[1]
    return f"{text}\\" if text[0].isdigit() else f"\\{text}"


def _lines(report: ReportModel) -> Iterator[str]:
    yield f"### {markdown(report.title + report.tag)}"
    yield ""
    yield f"**Verdict: {markdown(report.verdict)}**"
    yield ""
    yield markdown(report.headline)
    for name, remarks in (("because", report.reasons), ("warning", report.warnings)):
        if remarks:
            yield ""
        for remark in remarks:
            todo = f" (to do: {remark.remedy})" if remark.remedy else ""
            yield f"- {markdown(f'{name}: {remark.text}{todo}')}"
    first, rest = report.tables[:4], report.tables[4:]
    for table in first:
        yield ""
        yield from markdown_table(table)
    yield from _folded("Client, server and findings", _more(report, rest))


def _more(report: ReportModel, tables: Sequence[Table]) -> Iterator[str]:
    for table in tables:
        yield ""
        yield from markdown_table(table)
    for heading, lines in (
        ("The engine's own counters", report.reconciliation),
        ("Noticed", report.findings),
    ):
        if lines:
            yield ""
            yield f"**{heading}**"
            yield ""
            yield from (f"- {markdown(line)}" for line in lines)


def _folded(title: str, lines: Iterable[str]) -> Iterator[str]:
    inside = list(lines)
    if inside:
        yield ""
        yield f"<details><summary>{title}</summary>"
        yield from inside
        yield ""
        yield "</details>"


def markdown_table(table: Table) -> Iterator[str]:
    """The table, then what stood below its rows, then its notes."""
    yield f"**{markdown(table.title)}**"
    yield ""
    yield _row("", (column.heading for column in table.columns))
    yield "| --- |" + "".join(
        " ---: |" if column.numeric else " --- |" for column in table.columns
    )
    for row in table.rows:
        yield _row(("&nbsp;&nbsp;" if row.depth else ""), row.cells, label=row.label)
    said = [*(line for row in table.rows for line in row.below), *table.notes]
    if said:
        yield ""
        yield from (f"- {markdown(line)}" for line in said)


def _row(indent: str, cells: Iterable[str], label: str = "") -> str:
    shown = " | ".join(map(markdown, cells))
    return f"| {indent}{markdown(label)} | {shown} |"
