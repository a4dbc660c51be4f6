"""From values to places on paper, and which values an axis names."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from loadgen.report.numbers import percent, rate, seconds
from loadgen.report.plots.chart import Axis

__all__ = ["Scale", "step_above", "ticks", "top_above", "written"]

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_TOPS = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)


@dataclass(frozen=True, slots=True)
class Scale:
    """Where on a stretch of paper a value lies; beyond the axis it is at its end."""

    axis: Axis
    start: float
    end: float

    def at(self, value: float) -> float:
        axis = self.axis
        value = min(max(value, axis.low), axis.high)
        if axis.log:
            part = math.log(value / axis.low) / math.log(axis.high / axis.low)
        else:
            part = (value - axis.low) / (axis.high - axis.low)
        return self.start + part * (self.end - self.start)


def step_above(value: float) -> float:
    """The smallest of 1, 2, 2.5, 5 times a power of ten that is not below ``value``."""
    return _round_above(value, _STEPS)


def top_above(value: float) -> float:
    """Where an axis may end that has to hold ``value``: round, and not far above it."""
    return _round_above(value, _TOPS)


def _round_above(value: float, rounds: Sequence[float]) -> float:
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next((r * power for r in rounds if r * power >= value * (1 - 1e-9)), value)


def ticks(axis: Axis, most: int) -> list[float]:
    """Round values on the axis, at most ``most`` and at least one."""
    return _log_ticks(axis, most) if axis.log else _even_ticks(axis, most)


def _even_ticks(axis: Axis, most: int) -> list[float]:
    step = step_above((axis.high - axis.low) / most)
    while len(found := _multiples(axis, step)) > most or not _fits(step, axis):
        step = step_above(1.01 * step)
    return found or [axis.low]


def _fits(step: float, axis: Axis) -> bool:
    return axis.kind != "count" or step.is_integer()


def _multiples(axis: Axis, step: float) -> list[float]:
    first = math.ceil(axis.low / step - 1e-9)
    last = math.floor(axis.high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def _log_ticks(axis: Axis, most: int) -> list[float]:
    """Decades, finer where they are few, sparser where they are many."""
    for digits in ((1, 2, 5), (1, 3), (1,)):
        found = list(_decades(axis, digits, 1))
        if len(found) <= most:
            return found or [axis.low]
    every = 2
    while len(found := list(_decades(axis, (1,), every))) > most:
        every += 1
    return found or [axis.low]


def _decades(axis: Axis, digits: tuple[int, ...], every: int) -> Iterator[float]:
    first, last = math.floor(math.log10(axis.low)), math.ceil(math.log10(axis.high))
    for power in range(first, last + 1):
        if power % every:
            continue
        for digit in digits:
            value = digit * 10.0**power
            if axis.low * (1 - 1e-9) <= value <= axis.high * (1 + 1e-9):
                yield value


def written(value: float, axis: Axis) -> str:
    """A value as its axis writes it."""
    if axis.kind == "s":
        return "0" if value == 0 else seconds(value)
    if axis.kind == "share":
        return percent(round(value, 9))
    if axis.kind == "rate":
        return rate(value) if value else "0"
    if axis.kind == "gib":
        return f"{value:.3g} GiB" if value else "0"
    return f"{value:,.0f}"
