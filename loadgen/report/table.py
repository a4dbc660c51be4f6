"""A table as data; each renderer draws it in its own way."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["NAME_CELLS", "Column", "Row", "Table"]

NAME_CELLS = 20
"""Room for a name that a user or a server chose."""


@dataclass(frozen=True, slots=True)
class Column:
    """A heading; numbers stand right, words left, spare columns go if room lacks."""

    heading: str
    numeric: bool = True
    spare: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A label and one cell a column; ``below`` are sentences that belong to it."""

    label: str
    cells: tuple[str, ...]
    depth: int = 0
    below: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """A title over the labels, columns, rows, and sentences under them."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
