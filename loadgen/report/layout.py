"""Text set in columns and paragraphs, measured in terminal cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from loadgen.report.escape import cells, clip
from loadgen.report.screen import Screen
from loadgen.report.table import Column, Row, Table

__all__ = ["Line", "paragraph", "set_table"]

GAP = "  "
INDENT = "  "
MIN_LABEL_CELLS = 12
MAX_CELLS = 45
"""Widest cell or label; beside it the shortest label fits the narrowest screen."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of output and how it is drawn: ``strong``, ``faint`` or as it is."""

    text: str
    style: str = ""


def paragraph(
    text: str, screen: Screen, *, indent: str = "", hanging: str | None = None
) -> list[str]:
    """Break a text into lines that fit; only words longer than a line are cut.

    Args:
        text: what to set.
        screen: where.
        indent: before the first line.
        hanging: before the others; None: the same.
    """
    hanging = indent if hanging is None else hanging
    lines: list[str] = []
    line, empty = indent, True
    for word in _words(screen.text(text), screen.width - cells(hanging)):
        if not empty and cells(line) + 1 + cells(word) > screen.width:
            lines.append(line)
            line, empty = hanging, True
        line += word if empty else f" {word}"
        empty = False
    return [*lines, line]


def _words(text: str, room: int) -> Iterator[str]:
    for word in text.split():
        while cells(word) > room:
            head = word
            while head and cells(head) > room:
                head = head[:-1]
            if not head:
                break
            yield head
            word = word[len(head) :]
        yield word


def set_table(table: Table, tag: str, screen: Screen) -> list[Line]:
    """The table in lines; if too wide, in several pieces below each other."""
    table = _as_shown(table, screen)
    title = screen.text(table.title + tag)
    headings = [column.heading for column in table.columns]
    labels = [INDENT * (1 + row.depth) + row.label for row in table.rows]
    wide = max((*map(cells, labels), MIN_LABEL_CELLS))
    widths = [
        max(map(cells, (heading, *(row.cells[at] for row in table.rows))))
        for at, heading in enumerate(headings)
    ]
    lines: list[Line] = []
    headed = max(wide, cells(title)) if any(headings) else wide
    kept = _kept(table.columns, widths, screen.width - headed)
    pieces = _pieces(kept, widths, screen.width - wide)
    for number, chosen in enumerate(pieces):
        room = screen.width - sum(widths[at] + len(GAP) for at in chosen)
        beside = cells(title) <= room
        label_cells = min(max(wide, cells(title) if beside else 0), room)
        piece = _Piece(table.columns, chosen, widths, label_cells)
        if beside:
            lines.append(Line(piece.line(title, headings), "strong"))
        else:
            lines += [Line(text, "strong") for text in paragraph(title, screen)]
            if any(headings):
                lines.append(Line(piece.line("", headings), "faint"))
        for label, row in zip(labels, table.rows, strict=True):
            lines.append(Line(piece.line(label, row.cells)))
            if number == 0:
                lines += _below(row, screen)
    for note in table.notes:
        lines += [
            Line(text, "faint")
            for text in paragraph(note, screen, indent=INDENT, hanging=INDENT * 2)
        ]
    return lines


def _as_shown(table: Table, screen: Screen) -> Table:
    """The table with its texts as the screen can show them, ready to be measured."""

    def shown(text: str) -> str:
        return clip(screen.text(text), MAX_CELLS)

    return replace(
        table,
        columns=tuple(
            replace(column, heading=shown(column.heading)) for column in table.columns
        ),
        rows=tuple(
            replace(row, label=shown(row.label), cells=tuple(map(shown, row.cells)))
            for row in table.rows
        ),
    )


@dataclass(frozen=True, slots=True)
class _Piece:
    """The columns that are set beside each other."""

    columns: Sequence[Column]
    chosen: Sequence[int]
    widths: Sequence[int]
    label_cells: int

    def line(self, label: str, texts: Sequence[str]) -> str:
        label = _fitted(label, self.label_cells)
        parts = [label + " " * (self.label_cells - cells(label))]
        for at in self.chosen:
            room = " " * (self.widths[at] - cells(texts[at]))
            numeric = self.columns[at].numeric
            parts.append(room + texts[at] if numeric else texts[at] + room)
        return GAP.join(parts).rstrip(" ")


def _fitted(label: str, room: int) -> str:
    """The label with its indent, cut where it must be."""
    if cells(label) <= room:
        return label
    indent = label[: len(label) - len(label.lstrip(" "))]
    return indent + clip(label.lstrip(" "), max(0, room - len(indent)))


def _kept(columns: Sequence[Column], widths: Sequence[int], room: int) -> list[int]:
    """All columns where they fit beside their labels, else all but the spare ones."""
    fits = sum(width + len(GAP) for width in widths) <= room
    return [at for at, column in enumerate(columns) if fits or not column.spare]


def _pieces(
    kept: Sequence[int], widths: Sequence[int], room: int
) -> Iterator[list[int]]:
    """Which columns go beside each other: as many as fit."""
    piece: list[int] = []
    used = 0
    for at in kept:
        used += widths[at] + len(GAP)
        if piece and used > room:
            yield piece
            piece, used = [], widths[at] + len(GAP)
        piece.append(at)
    yield piece


def _below(row: Row, screen: Screen) -> Iterator[Line]:
    indent = INDENT * (2 + row.depth)
    for sentence in row.below:
        for text in paragraph(sentence, screen, indent=indent, hanging=indent + INDENT):
            yield Line(text, "faint")
