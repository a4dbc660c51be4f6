"""The report on a terminal, or in a file: the same words, with or without bold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loadgen.report.layout import INDENT, Line, paragraph, set_table
from loadgen.report.model import Remark, ReportModel
from loadgen.report.screen import Screen, to_text
from loadgen.report.strips import set_strip

__all__ = ["drawn", "report_text"]

_STYLES = {
    "": "",
    "strong": "bold",
    "faint": "dim",
    "good": "bold green",
    "bad": "bold red",
}
_FILE_CELLS = 16


def report_text(report: ReportModel, screen: Screen) -> str:
    """The whole report as one string that ends in a newline."""
    return drawn(_lines(report, screen), screen)


def drawn(lines: Sequence[Line], screen: Screen) -> str:
    """Lines that were laid out, in bold and colour where the screen has them."""
    from rich.console import Group
    from rich.text import Text

    styled = [
        Text(line.text, style=_STYLES[line.style], no_wrap=True, overflow="ignore")
        for line in lines
    ]
    return to_text(Group(*styled), screen)


def _lines(report: ReportModel, screen: Screen) -> list[Line]:
    lines = [
        *_prose(report.title + report.tag, screen, style="strong"),
        *_prose(report.headline, screen),
    ]
    first, *rest = report.tables
    lines += [Line(""), *set_table(first, report.tag, screen)]
    for strip in report.strips:
        lines += [Line(""), *set_strip(strip, report.tag, screen)]
    for table in rest:
        lines += [Line(""), *set_table(table, report.tag, screen)]
    lines += [
        *_reconciliation(report, screen),
        *_verdict(report, screen),
        *_findings(report, screen),
        *_files(report, screen),
        *_steps(report, screen),
    ]
    return lines


def _prose(
    text: str, screen: Screen, *, style: str = "", indent: str = ""
) -> list[Line]:
    hanging = indent + INDENT if indent else ""
    return [
        Line(line, style)
        for line in paragraph(text, screen, indent=indent, hanging=hanging)
    ]


def _reconciliation(report: ReportModel, screen: Screen) -> Iterator[Line]:
    if report.reconciliation:
        yield Line("")
        yield from _prose(
            f"The engine's own counters{report.tag}", screen, style="strong"
        )
        for line in report.reconciliation:
            yield from _prose(line, screen, indent=INDENT)


def _verdict(report: ReportModel, screen: Screen) -> Iterator[Line]:
    yield Line("")
    style = {True: "good", False: "bad", None: "strong"}[report.valid]
    yield from _prose(f"Verdict{report.tag}: {report.verdict}", screen, style=style)
    yield from _remarks("because", report.reasons, screen)
    yield from _remarks("warning:", report.warnings, screen)


def _remarks(word: str, remarks: tuple[Remark, ...], screen: Screen) -> Iterator[Line]:
    for remark in remarks:
        yield from _prose(f"{word} {remark.text}", screen, indent=INDENT)
        if remark.remedy:
            yield from _prose(f"to do: {remark.remedy}", screen, indent=INDENT * 2)


def _findings(report: ReportModel, screen: Screen) -> Iterator[Line]:
    if report.findings:
        yield Line("")
        yield from _prose(f"Noticed{report.tag}", screen, style="strong")
        for finding in report.findings:
            yield from _prose(finding, screen, indent=INDENT)


def _files(report: ReportModel, screen: Screen) -> Iterator[Line]:
    if report.folder is None:
        return
    yield Line("")
    yield from _prose(f"Files in {report.folder}", screen, style="strong")
    for file in report.files:
        name = screen.text(f"{INDENT}{file.name:<{_FILE_CELLS}}")
        for line in paragraph(file.holds, screen, indent=name, hanging=" " * len(name)):
            yield Line(line)


def _steps(report: ReportModel, screen: Screen) -> Iterator[Line]:
    if not report.steps:
        return
    yield Line("")
    yield Line("Try next", "strong")
    for step in report.steps:
        yield from _prose(f"{step.why}:", screen, indent=INDENT)
        yield Line(screen.text(f"{INDENT * 2}{step.command}"))
