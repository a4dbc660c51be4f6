"""CSV, a row a request (RFC 4180), harmless to a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import BinaryIO

from loadgen.report.exports.rows import COLUMNS, Cell, rows
from loadgen.report.exports.run import Exported

__all__ = ["csv_line", "write_csv"]

_ACTS = ("=", "+", "-", "@")
"""What makes a spreadsheet take a text for a formula."""


def write_csv(run: Exported, out: BinaryIO) -> None:
    """Names first, then the requests; an empty cell where there is no value."""
    out.write(csv_line(column.name for column in COLUMNS))
    for _, cells in rows(run):
        out.write(csv_line(cells))


def csv_line(cells: Iterable[Cell]) -> bytes:
    """One line in UTF-8, ended as the RFC asks."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\r\n").writerow(map(_shown, cells))
    return buffer.getvalue().encode()


def _shown(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float):
        return _plain(cell)
    text = str(cell)
    acts = isinstance(cell, str) and text.startswith(_ACTS)
    return f"'{text}" if acts else text


def _plain(value: float) -> str:
    """Without an exponent, which not every reader knows."""
    return f"{value:.9f}".rstrip("0").rstrip(".")
