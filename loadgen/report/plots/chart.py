"""A picture as data: axes, and what is drawn on them. Nothing here knows of SVG.

Values are in the units of their axis; a point whose value is not known is None and
leaves a gap, never a zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

__all__ = [
    "Axis",
    "Band",
    "Bars",
    "Chart",
    "Curve",
    "Dots",
    "Mark",
    "Rule",
    "Span",
    "Tone",
    "Whiskers",
    "group_tone",
]

Point = tuple[float, float | None]


class Tone(StrEnum):
    """What a colour stands for; the style sheet says which it is."""

    GOOD = "good"
    LATE = "late"
    ADMISSION = "admission"
    GATEWAY = "gateway"
    ROUTER = "router"
    PROVIDER = "provider"
    FAILED = "failed"
    NETWORK = "network"
    OWN = "own"
    UNKNOWN = "unknown"
    FIRST = "first"
    SECOND = "second"
    THIRD = "third"
    FOURTH = "fourth"
    PLAIN = "plain"


_GROUP_TONES = (Tone.FIRST, Tone.SECOND, Tone.THIRD, Tone.FOURTH)


def group_tone(number: int) -> Tone:
    """The colour of the ``number``-th of several alike; they come round again."""
    return _GROUP_TONES[number % len(_GROUP_TONES)]


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis.

    Attributes:
        low: where it begins.
        high: where it ends.
        kind: how its values are written: ``s`` durations, ``share`` ratios,
            ``rate`` per second, ``count`` whole numbers, ``gib`` memory.
        log: whether it is logarithmic; then ``low`` is above 0.
        title: what it measures.
    """

    low: float
    high: float
    kind: Literal["s", "share", "rate", "count", "gib"]
    title: str = ""
    log: bool = False


@dataclass(frozen=True, slots=True)
class Curve:
    """Points joined by a line; the label stands at its end, in its colour."""

    points: Sequence[Point]
    label: str = ""
    tone: Tone = Tone.PLAIN
    step: bool = False
    dashed: bool = False
    marked: bool = False


@dataclass(frozen=True, slots=True)
class Dots:
    """Points by themselves."""

    points: Sequence[tuple[float, float]]
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Band:
    """What lies between two values, from one point to the next."""

    points: Sequence[tuple[float, float, float]]
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Whiskers:
    """An interval at each of some places: (x, low, high)."""

    points: Sequence[tuple[float, float, float]]
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars that touch: the first begins at ``start``, each ``width`` wide.

    ``base`` is what they stand on, one value a bar; empty: on the axis.
    """

    start: float
    width: float
    heights: Sequence[float]
    base: Sequence[float] = ()
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Rule:
    """A straight line across: at a value of x (``upright``) or of y."""

    at: float
    label: str = ""
    upright: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of the x axis that is shaded from top to bottom."""

    low: float
    high: float
    tone: Tone = Tone.PLAIN


Mark = Curve | Dots | Band | Whiskers | Bars | Rule | Span


@dataclass(frozen=True, slots=True)
class Chart:
    """Marks over a pair of axes, drawn in their order."""

    x: Axis
    y: Axis
    marks: Sequence[Mark]
    height: int = 200
