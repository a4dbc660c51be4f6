"""Small pictures made of letters: a run over time, and the waits for a first token."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from loadgen.report.escape import cells, clip, safe
from loadgen.report.layout import INDENT, Line
from loadgen.report.numbers import count, percent, seconds
from loadgen.report.reduce import GOOD, LATE, Ecdf, Reduced
from loadgen.report.screen import Screen
from loadgen.report.words import layer_words

__all__ = ["Strip", "StripRow", "set_strip", "strips_of"]

FEWEST_REQUESTS = 10
LABEL_CELLS = 24
MOST_COLUMNS = 60
SAID_CELLS = 18
FINE = 240
"""Steps that a strip holds; a screen joins them to as many as fit."""
_BLOCKS = " ▁▂▃▄▅▆▇█"
_ASCII = " .:-=+*%#"


@dataclass(frozen=True, slots=True)
class StripRow:
    """A label, one value a step, and what is said behind it.

    ``adds``: where steps are joined their values are summed; else the highest stands.
    """

    label: str
    values: Sequence[float]
    said: str
    adds: bool = True


@dataclass(frozen=True, slots=True)
class Strip:
    """Rows of the same steps under a title.

    Attributes:
        title: what is shown.
        rows: drawn to a scale of their own each, unless ``common``.
        low: what the left edge stands for.
        high: the same of the right one.
        mark: a step before which a line is drawn, and what it stands for.
        common: whether all rows have one scale.
    """

    title: str
    rows: Sequence[StripRow]
    low: str
    high: str
    mark: tuple[int, str] | None = None
    common: bool = False


def strips_of(run: Reduced, slo: Mapping[str, float]) -> tuple[Strip, ...]:
    """What is worth drawing of a run; nothing of a very short one."""
    offered = sum(map(sum, run.fates.counts.values()))
    if offered < FEWEST_REQUESTS:
        return ()
    found = [_over_time(run)]
    if sum(curve.n for curve in run.ttft.values()) >= FEWEST_REQUESTS:
        found.append(_first_tokens(run, slo.get("ttft_s")))
    return tuple(found)


def _over_time(run: Reduced) -> Strip:
    bins = max(map(len, run.fates.counts.values()))
    rows = [
        StripRow(_fate_words(fate), counts, count(sum(counts)))
        for fate, counts in run.fates.counts.items()
    ]
    levels = _levels(run, bins)
    most = count(max(run.open.most))
    rows.append(StripRow("open requests", levels, f"at most {most}", adds=False))
    return Strip(
        "Over time, by when requests were due",
        rows,
        "0",
        seconds(bins * run.fates.width_s),
        common=True,
    )


def _fate_words(fate: str) -> str:
    if fate == GOOD:
        return "within target"
    return "too late" if fate == LATE else f"lost: {layer_words(fate)}"


def _levels(run: Reduced, bins: int) -> list[float]:
    """The most open requests in each bin, what was open at its start included."""
    levels, open_now, at = [], 0, 0
    times, most = run.open.at_s, run.open.most
    for number in range(bins):
        highest = open_now
        while at < len(times) and times[at] < (number + 1) * run.fates.width_s:
            open_now = most[at]
            highest = max(highest, open_now)
            at += 1
        levels.append(float(highest))
    return levels


def _first_tokens(run: Reduced, limit_s: float | None) -> Strip:
    """A histogram a group over the logarithm of the time."""
    curves = {name: run.ttft[name] for name in run.groups if run.ttft[name].n}
    values = [v for curve in curves.values() for v in curve.values_s if v > 0]
    ends = [*values, *([limit_s] if limit_s else [])]
    low, high = min(ends) / 1.05, max(ends) * 1.05
    edges = [low * (high / low) ** (step / FINE) for step in range(FINE + 1)]
    several = len(run.groups) > 1
    rows = [
        StripRow(
            safe(name, LABEL_CELLS) if several else "all",
            _density(curve, edges),
            f"{percent(1 - curve.n / curve.of)} got none",
        )
        for name, curve in curves.items()
    ]
    mark = None
    if limit_s is not None:
        part = math.log(limit_s / low) / math.log(high / low)
        mark = (round(part * FINE), f"target {seconds(limit_s)}")
    return Strip(
        "Time to the first token", rows, seconds(low), seconds(high), mark=mark
    )


def _density(curve: Ecdf, edges: Sequence[float]) -> list[float]:
    """Share between each two edges."""
    shares, at, reached = [], 0, 0.0
    for edge in edges:
        while at < len(curve.values_s) and curve.values_s[at] <= edge:
            reached = curve.shares[at]
            at += 1
        shares.append(reached)
    return [after - before for before, after in pairwise(shares)]


def set_strip(strip: Strip, tag: str, screen: Screen) -> Iterator[Line]:
    """The strip in lines that fit the screen."""
    label_cells = min(LABEL_CELLS, max(cells(row.label) for row in strip.rows))
    room = screen.width - label_cells - SAID_CELLS - 3 * len(INDENT)
    steps = max(len(row.values) for row in strip.rows)
    join = -(-steps // min(room, MOST_COLUMNS))
    drawn = [_joined(row, join) for row in strip.rows]
    top = max(max(values, default=0.0) for values in drawn[: _scaled(strip)])
    wide = -(-steps // join)
    yield Line(screen.text(strip.title + tag), "strong")
    for row, values in zip(strip.rows, drawn, strict=True):
        own = max(values, default=0.0)
        scale = top if strip.common and row.adds else own
        picture = _letters(values, scale, screen)
        if strip.mark is not None:
            at = min(strip.mark[0] // join, wide)
            picture = picture[:at] + "|" + picture[at:]
        label = clip(screen.text(row.label), label_cells)
        label += " " * (label_cells - cells(label))
        line = f"{INDENT}{label}{INDENT}{picture}{INDENT}{screen.text(row.said)}"
        yield Line(clip(line.rstrip(" "), screen.width))
    yield Line(_axis(strip, label_cells, wide, join, screen), "faint")


def _scaled(strip: Strip) -> int:
    """Rows that share a scale: the counts, which stand first."""
    return sum(row.adds for row in strip.rows) or len(strip.rows)


def _joined(row: StripRow, join: int) -> list[float]:
    parts = [row.values[at : at + join] for at in range(0, len(row.values), join)]
    return [sum(part) if row.adds else max(part) for part in parts]


def _letters(values: Sequence[float], top: float, screen: Screen) -> str:
    """One letter a value; anything above zero is seen."""
    letters = _BLOCKS if screen.utf8 else _ASCII
    last = len(letters) - 1
    return "".join(
        letters[min(last, max(1, math.ceil(value / top * last)))]
        if value > 0 and top > 0
        else letters[0]
        for value in values
    )


def _axis(strip: Strip, label_cells: int, wide: int, join: int, screen: Screen) -> str:
    """What the edges and the mark stand for, the mark's words where there is room."""
    indent = " " * (label_cells + 2 * len(INDENT))
    low, high = screen.text(strip.low), screen.text(strip.high)
    if strip.mark is None:
        return indent + low + " " * max(1, wide - len(low) - len(high)) + high
    wide += 1
    at, words = min(strip.mark[0] // join, wide - 1), screen.text(strip.mark[1])
    start = min(max(at - len(words) // 2, len(low) + 1), wide - len(words))
    line = low + " " * max(1, start - len(low)) + words
    return indent + line + " " * max(2, wide - len(line) - len(high)) + high
