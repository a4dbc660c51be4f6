"""Marks as SVG paths: one element a mark, however many points it has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, assert_never

from loadgen.report.markup import Html, joined, tag
from loadgen.report.plots.chart import (
    Band,
    Bars,
    Curve,
    Dots,
    Mark,
    Rule,
    Span,
    Whiskers,
)
from loadgen.report.plots.scales import Scale

__all__ = ["Paper", "drawn"]

_CAP = 3.0
_HAIR = 0.5
_NARROW = 3.0


class Paper(NamedTuple):
    """Where values lie; y runs downwards on paper."""

    x: Scale
    y: Scale

    def at(self, x: float, y: float) -> str:
        return f"{self.x.at(x):.1f} {self.y.at(y):.1f}"


def drawn(mark: Mark, paper: Paper) -> Html:
    """One mark; its class names its colour."""
    match mark:
        case Curve():
            return joined(*_curve(mark, paper))
        case Dots():
            path = _specks(mark.points, paper)
            return tag("path", d=path, class_=f"dot l-{mark.tone}")
        case Band():
            return tag("path", d=_band(mark, paper), class_=f"band f-{mark.tone}")
        case Whiskers():
            path = "".join(_whiskers(mark, paper))
            return tag("path", d=path, class_=f"whisker l-{mark.tone}")
        case Bars():
            return tag("path", d="".join(_bars(mark, paper)), class_=f"f-{mark.tone}")
        case Rule():
            return tag("path", d=_rule(mark, paper), class_="rule")
        case Span():
            path = _box(mark.low, mark.high, paper)
            return tag("path", d=path, class_=f"band f-{mark.tone}")
    assert_never(mark)


def _curve(mark: Curve, paper: Paper) -> Iterator[Html]:
    line = f"line l-{mark.tone}" + (" dashed" if mark.dashed else "")
    yield tag("path", d="".join(_strokes(mark, paper)), class_=line)
    if mark.marked:
        known = [(x, y) for x, y in mark.points if y is not None]
        yield tag("path", d=_specks(known, paper), class_=f"dot l-{mark.tone}")


def _strokes(mark: Curve, paper: Paper) -> Iterator[str]:
    """A line that is interrupted where a value is not known."""
    pen_down = False
    for x, y in mark.points:
        if y is None:
            pen_down = False
            continue
        if not pen_down:
            yield f"M{paper.at(x, y)}"
        elif mark.step:
            yield f"H{paper.x.at(x):.1f}V{paper.y.at(y):.1f}"
        else:
            yield f"L{paper.at(x, y)}"
        pen_down = True


def _specks(points: Iterable[tuple[float, float]], paper: Paper) -> str:
    """Lines of no length with round ends."""
    return "".join(f"M{paper.at(x, y)}h0" for x, y in points)


def _band(mark: Band, paper: Paper) -> str:
    if not mark.points:
        return ""
    upper = [paper.at(x, high) for x, _, high in mark.points]
    lower = [paper.at(x, low) for x, low, _ in reversed(mark.points)]
    return f"M{'L'.join([*upper, *lower])}Z"


def _whiskers(mark: Whiskers, paper: Paper) -> Iterator[str]:
    for x, low, high in mark.points:
        at, top, bottom = paper.x.at(x), paper.y.at(high), paper.y.at(low)
        yield f"M{at:.1f} {bottom:.1f}V{top:.1f}"
        for end in (top, bottom):
            yield f"M{at - _CAP:.1f} {end:.1f}h{2 * _CAP:.0f}"


def _bars(mark: Bars, paper: Paper) -> Iterator[str]:
    """Bars that stand on ``base``, a hair apart where they are wide enough."""
    base = mark.base or [paper.y.axis.low] * len(mark.heights)
    for number, (height, foot) in enumerate(zip(mark.heights, base, strict=True)):
        if height:
            left = paper.x.at(mark.start + number * mark.width)
            right = paper.x.at(mark.start + (number + 1) * mark.width)
            right -= _HAIR if right - left > _NARROW else 0.0
            bottom, top = paper.y.at(foot), paper.y.at(foot + height)
            right = max(right, left + _HAIR)
            yield f"M{left:.1f} {bottom:.1f}V{top:.1f}H{right:.1f}V{bottom:.1f}Z"


def _rule(mark: Rule, paper: Paper) -> str:
    if mark.upright:
        at = paper.x.at(mark.at)
        return f"M{at:.1f} {paper.y.start:.1f}V{paper.y.end:.1f}"
    return f"M{paper.x.start:.1f} {paper.y.at(mark.at):.1f}H{paper.x.end:.1f}"


def _box(low: float, high: float, paper: Paper) -> str:
    left, right = paper.x.at(low), paper.x.at(high)
    top, bottom = paper.y.end, paper.y.start
    return f"M{left:.1f} {bottom:.1f}V{top:.1f}H{right:.1f}V{bottom:.1f}Z"
