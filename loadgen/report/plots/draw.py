"""A chart as SVG. Colours are classes: the page's style sheet gives them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from loadgen.report.escape import cells
from loadgen.report.markup import Html, tag
from loadgen.report.plots.chart import Chart, Curve, Rule
from loadgen.report.plots.marks import Paper, drawn
from loadgen.report.plots.scales import Scale, ticks, written

__all__ = ["Margins", "draw", "margins_of"]

CELL = 7.2
"""Width of a letter at the size of the labels, a little too wide on purpose."""
LINE = 14.0
_TICK_ROOM = 72.0
_LEVEL_ROOM = 36.0
_TALL = 180


@dataclass(frozen=True, slots=True)
class Margins:
    """Room left and right of the axes, to be shared by charts below one another."""

    left: float
    right: float


def margins_of(charts: Iterable[Chart]) -> Margins:
    """Room for the widest tick and the widest label of all."""
    left = right = 0.0
    for chart in charts:
        shown = [written(value, chart.y) for value in _levels(chart)]
        left = max(left, *(CELL * cells(text) for text in shown))
        for label in _end_labels(chart):
            right = max(right, *(CELL * cells(line) for line in label.split("\n")))
    return Margins(left + 10, right + 10 if right else 14)


def draw(
    chart: Chart, width: float, *, named: str, margins: Margins | None = None
) -> Html:
    """One chart in ``width`` pixels.

    Args:
        chart: what to draw.
        width: of the picture; letters keep their size.
        named: what it is called by who cannot see it.
        margins: of all charts it stands among; None: its own.
    """
    margins = margins or margins_of([chart])
    tall = chart.height >= _TALL  # so that those beside each other line up
    above = LINE + 4 if tall or _has_upright_label(chart) else 6.0
    below = 36.0 if chart.x.title else 22.0
    paper = Paper(
        Scale(chart.x, margins.left, width - margins.right),
        Scale(chart.y, above + chart.height, above),
    )
    frame = _Frame(chart, paper.x, paper.y)
    return tag(
        "svg",
        tag("title", named),
        *frame.grid(),
        *(drawn(mark, paper) for mark in chart.marks),
        *frame.labels(),
        viewBox=f"0 0 {width:.0f} {above + chart.height + below:.0f}",
        width=width,
        height=above + chart.height + below,
        role="img",
        aria_label=named,
    )


def _levels(chart: Chart) -> list[float]:
    return ticks(chart.y, max(2, int(chart.height / _LEVEL_ROOM) + 1))


def _end_labels(chart: Chart) -> Iterator[str]:
    for mark in chart.marks:
        if isinstance(mark, Curve) and mark.label and _last(mark) is not None:
            yield mark.label
        if isinstance(mark, Rule) and mark.label and not mark.upright:
            yield mark.label


def _has_upright_label(chart: Chart) -> bool:
    return any(isinstance(m, Rule) and m.upright and m.label for m in chart.marks)


def _last(curve: Curve) -> tuple[float, float] | None:
    known = ((x, y) for x, y in reversed(curve.points) if y is not None)
    return next(known, None)


@dataclass(frozen=True, slots=True)
class _Frame:
    """A chart on its paper."""

    chart: Chart
    x: Scale
    y: Scale

    def grid(self) -> Iterator[Html]:
        """Lines at round values, and what they are worth."""
        left, right, bottom = self.x.start, self.x.end, self.y.start
        lines, texts = [], []
        for value in _levels(self.chart):
            at = self.y.at(value)
            lines.append(f"M{left:.1f} {at:.1f}H{right:.1f}")
            texts.append(_text(written(value, self.chart.y), left - 6, at + 4, "end"))
        for value in ticks(self.chart.x, max(2, int((right - left) / _TICK_ROOM))):
            at = self.x.at(value)
            lines.append(f"M{at:.1f} {bottom:.1f}v4")
            shown = written(value, self.chart.x)
            texts.append(_text(shown, at, bottom + LINE + 3, "middle"))
        if self.chart.x.title:
            title = self.chart.x.title
            texts.append(_text(title, (left + right) / 2, bottom + 32, "middle"))
        yield tag("path", d="".join(lines), class_="grid")
        yield tag("path", d=f"M{left:.1f} {bottom:.1f}H{right:.1f}", class_="axis")
        yield tag("g", *texts, class_="tick")

    def labels(self) -> Iterator[Html]:
        """Names at the ends of their lines, moved apart where they would touch."""
        wanted = []
        for mark in self.chart.marks:
            if isinstance(mark, Rule) and mark.label:
                if mark.upright:
                    yield self._upright_label(mark)
                else:
                    wanted.append((self.y.at(mark.at), mark.label, "rule-label"))
            if isinstance(mark, Curve) and mark.label:
                end = _last(mark)
                if end is not None:
                    wanted.append((self.y.at(end[1]), mark.label, f"t-{mark.tone}"))
        bottom = self.y.start + 4
        for at, label, colour in _apart(wanted, bottom):
            for number, line in enumerate(label.split("\n")):
                y = at + 4 + number * LINE
                yield _text(line, self.x.end + 6, y, "start", f"end {colour}")

    def _upright_label(self, rule: Rule) -> Html:
        """Above the plot, inside of it where it is near an edge."""
        half = CELL * cells(rule.label) / 2
        at = self.x.at(rule.at)
        at = max(self.x.start + half - 8, min(at, self.x.end - half + 8))
        return _text(rule.label, at, self.y.end - 5, "middle", "rule-label")


def _apart(
    wanted: Sequence[tuple[float, str, str]], bottom: float
) -> list[tuple[float, str, str]]:
    """Labels from the top down, each at least its own height below the one before."""
    placed: list[tuple[float, str, str]] = []
    free = -1e9
    for at, label, colour in sorted(wanted, key=lambda item: item[0]):
        at = max(at, free)
        placed.append((at, label, colour))
        free = at + _height(label)
    free = bottom + LINE
    for number in range(len(placed) - 1, -1, -1):
        at, label, colour = placed[number]
        at = min(at, free - _height(label))
        placed[number] = (at, label, colour)
        free = at
    return placed


def _height(label: str) -> float:
    return LINE * (1 + label.count("\n"))


def _text(
    text: str, x: float, y: float, anchor: str, class_: str | None = None
) -> Html:
    return tag("text", text, x=x, y=y, text_anchor=anchor, class_=class_)
