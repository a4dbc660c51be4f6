"""The checks as a table for people: check, found, and below it meaning and remedy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from loadgen.doctor.check import Check, Status
from loadgen.report.escape import cells, clip, safe
from loadgen.report.layout import INDENT, Line, paragraph
from loadgen.report.screen import Screen
from loadgen.report.terminal import drawn

__all__ = ["Part", "table_text"]

MAX_NAME_CELLS = 32
MAX_TEXT_CELLS = 480
_WORDS = {
    Status.OK: "ok",
    Status.WARN: "warn",
    Status.FAIL: "FAIL",
    Status.UNKNOWN: "?",
}
_STATUS_CELLS = max(map(len, _WORDS.values()))
_STYLES = {Status.FAIL: "bad", Status.WARN: "strong"}


class Part(NamedTuple):
    """The checks of one thing looked at."""

    title: str
    checks: Sequence[Check]


def table_text(parts: Sequence[Part], screen: Screen) -> str:
    """All parts as one string that ends in a newline, made safe to print."""
    names = [_name(check, screen) for part in parts for check in part.checks]
    name_cells = min(max(map(cells, ("check", *names))), MAX_NAME_CELLS)
    lines: list[Line] = []
    for part in parts:
        lines += _heading(part, name_cells, screen)
        for check in part.checks:
            lines += _row(check, name_cells, screen)
        lines.append(Line(""))
    lines += [Line(line) for line in paragraph(_sum(parts), screen)]
    return drawn(lines, screen)


def _heading(part: Part, name_cells: int, screen: Screen) -> Iterator[Line]:
    for line in paragraph(safe(part.title), screen):
        yield Line(line, "strong")
    indent = _beside("", "check", name_cells)
    hanging = " " * cells(indent)
    words = "found / meaning / what to do"
    for line in paragraph(words, screen, indent=indent, hanging=hanging):
        yield Line(line, "faint")


def _row(check: Check, name_cells: int, screen: Screen) -> Iterator[Line]:
    name = clip(_name(check, screen), name_cells)
    first = _beside(_WORDS[check.status], name, name_cells)
    found = safe(check.found, MAX_TEXT_CELLS)
    style = _STYLES.get(check.status, "")
    hanging = " " * cells(first)
    for line in paragraph(found, screen, indent=first, hanging=hanging):
        yield Line(line, style)
    if check.meaning:
        yield from _below(check.meaning, screen)
    if check.do:
        yield from _below(f"to do: {check.do}", screen)


def _below(text: str, screen: Screen) -> Iterator[Line]:
    indent = " " * (_STATUS_CELLS + 3 * len(INDENT))
    words = safe(text, MAX_TEXT_CELLS)
    for line in paragraph(words, screen, indent=indent, hanging=indent + INDENT):
        yield Line(line, "faint")


def _name(check: Check, screen: Screen) -> str:
    return screen.text(safe(check.name))


def _beside(status: str, name: str, name_cells: int) -> str:
    room = " " * (name_cells - cells(name))
    return f"{INDENT}{status:<{_STATUS_CELLS}}{INDENT}{name}{room}{INDENT}"


def _sum(parts: Sequence[Part]) -> str:
    checks = [check for part in parts for check in part.checks]
    counts = {status: sum(c.status is status for c in checks) for status in Status}
    told = {
        Status.FAIL: "failed",
        Status.WARN: "to know before a run",
        Status.UNKNOWN: "could not be found out",
        Status.OK: "in order",
    }
    words = [f"{counts[status]} {said}" for status, said in told.items()]
    return f"{len(checks)} checks: {', '.join(words)}."
