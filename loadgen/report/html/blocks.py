"""A page as data: sections of tables, pictures, sentences and facts.

Every text that a server or a user chose was made harmless by ``safe`` before; that it
stays text and never becomes markup is the renderer's part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from loadgen.report.model import Remark
from loadgen.report.plots.chart import Chart, Tone
from loadgen.report.table import Table

__all__ = [
    "Block",
    "Commands",
    "Facts",
    "Figure",
    "Key",
    "Number",
    "Page",
    "Panel",
    "Prose",
    "Remarks",
    "Section",
    "TableBlock",
]


@dataclass(frozen=True, slots=True)
class Number:
    """One number that is worth large letters, what it is, and what qualifies it."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Key:
    """What a colour stands for in one panel."""

    tone: Tone
    text: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart under its heading."""

    heading: str
    chart: Chart
    keys: Sequence[Key] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Charts below one another with common margins.

    Attributes:
        panels: at least one.
        notes: what to know to read them.
        table: the same in numbers, folded away; None where a table stands beside.
        half: whether two of its kind fit beside each other.
    """

    panels: Sequence[Panel]
    notes: Sequence[str] = ()
    table: Table | None = None
    half: bool = False


@dataclass(frozen=True, slots=True)
class TableBlock:
    """A table, open or folded away."""

    table: Table
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Prose:
    """Sentences, one a line."""

    lines: Sequence[str]


@dataclass(frozen=True, slots=True)
class Remarks:
    """Sentences with what to do about them."""

    remarks: Sequence[Remark]


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and values under a heading; a value may have several lines."""

    heading: str
    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Commands:
    """Commands to be pasted, each with why."""

    steps: Sequence[tuple[str, str]]


Block = Figure | TableBlock | Prose | Remarks | Facts | Commands


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what stands under it."""

    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A whole page.

    Attributes:
        kind: what is shown, above the title.
        title: which run or sweep.
        basis_tag: what follows the headings when no real server was measured.
        verdict: in words.
        state: how the verdict is coloured.
        headline: in words, before any number.
        numbers: the few that matter most.
        sections: the rest.
        foot: who made the page from what.
    """

    kind: str
    title: str
    basis_tag: str
    verdict: str
    state: Literal["good", "bad", "unknown"]
    headline: str
    numbers: Sequence[Number]
    sections: Sequence[Section]
    foot: str
