"""Numbers as people read them: few digits, and none that reads as what it is not."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

__all__ = [
    "NOTHING",
    "aligned",
    "count",
    "durations",
    "interval",
    "percent",
    "rate",
    "seconds",
    "share",
]

NOTHING = "-"
"""Printed where there is no value; a value of zero is printed as 0."""


def count(number: int | None) -> str:
    """``1,234``."""
    return NOTHING if number is None else f"{number:,}"


def share(part: int, whole: int) -> str:
    """A part as a percentage of its whole."""
    return percent(part / whole) if whole > 0 else NOTHING


def percent(ratio: float | None) -> str:
    """A ratio as ``38%``; two digits, more where fewer would say 0 % or 100 %."""
    if ratio is None:
        return NOTHING
    value = 100 * ratio
    if ratio in (0.0, 1.0) or not math.isfinite(value):
        return f"{value:.0f}%"
    digits = 0 if value >= 10 else 1 - math.floor(math.log10(abs(value)))
    text = f"{value:.{digits}f}"
    while float(text) in (0.0, 100.0) and digits < 12:
        digits += 1
        text = f"{value:.{digits}f}"
    return f"{_trimmed(text)}%"


def interval(low_high: Sequence[float] | None) -> str:
    """A pair of ratios as ``7% to 29%``."""
    if low_high is None or len(low_high) != 2:
        return NOTHING
    return f"{percent(low_high[0])} to {percent(low_high[1])}"


def rate(per_second: float | None) -> str:
    """``20/s``, three digits."""
    return NOTHING if per_second is None else f"{_trimmed(_digits(per_second))}/s"


def seconds(value: float | None) -> str:
    """One duration in a sentence, in the unit that suits it: ``312 ms``, ``2 s``."""
    if value is None:
        return NOTHING
    unit, factor = _unit([value])
    return f"{_trimmed(_digits(value * factor))} {unit}"


def durations(values: Iterable[float | None]) -> tuple[str, list[str]]:
    """Durations to be compared, so in one unit and with one number of decimals.

    Args:
        values: seconds; None stays a dash.

    Returns:
        The unit (``s``, ``ms`` or ``us``) and the numbers without it.
    """
    listed = list(values)
    unit, factor = _unit([value for value in listed if value is not None])
    return unit, aligned([None if v is None else v * factor for v in listed])


def aligned(values: Sequence[float | None]) -> list[str]:
    """Numbers with as many decimals each, so that they line up when set right.

    Three digits for the largest, one at least for the smallest that is not zero.
    """
    sizes = [abs(value) for value in values if value]
    decimals = 0
    if sizes:
        decimals = max(2 - _magnitude(max(sizes)), -_magnitude(min(sizes)), 0)
    texts = [NOTHING if v is None else f"{v:,.{decimals}f}" for v in values]
    numbers = [text for text in texts if text != NOTHING]
    while numbers and all("." in text and text[-1] in "0." for text in numbers):
        numbers = [text[:-1] for text in numbers]
        texts = [text if text == NOTHING else text[:-1] for text in texts]
    return texts


def _unit(values_s: Sequence[float]) -> tuple[str, float]:
    largest = max(map(abs, values_s), default=0.0)
    if largest >= 0.9995 or largest == 0:
        return "s", 1.0
    return ("ms", 1e3) if largest >= 0.9995e-3 else ("us", 1e6)


def _digits(value: float) -> str:
    """Three digits or all whole ones, without an exponent; thousands apart."""
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    return f"{value:,.{max(0, 2 - _magnitude(value))}f}"


def _magnitude(value: float) -> int:
    """The power of ten of the first digit, once rounded to three digits."""
    power = math.floor(math.log10(abs(value)))
    return math.floor(math.log10(abs(round(value, 2 - power))))


def _trimmed(number: str) -> str:
    return number.rstrip("0").rstrip(".") if "." in number else number
