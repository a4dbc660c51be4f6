"""Numbers with units, as people type them and as the program keeps them.

Inside, a duration or an instant is an ``int`` of nanoseconds and a rate is a
``float`` of requests per second. Seconds appear at the surface only.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction

from loadgen.errors import UsageError

__all__ = [
    "NS_PER_MS",
    "NS_PER_S",
    "NS_PER_US",
    "format_duration",
    "ns_to_s",
    "parse_duration_ns",
    "parse_rate_rps",
]

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000
NS_PER_US = 1_000

MAX_RATE_RPS = 1e7
MAX_DURATION_NS = 31 * 86_400 * NS_PER_S

_UNIT_NS = {
    "ns": 1,
    "us": NS_PER_US,
    "µs": NS_PER_US,
    "ms": NS_PER_MS,
    "s": NS_PER_S,
    "sec": NS_PER_S,
    "m": 60 * NS_PER_S,
    "min": 60 * NS_PER_S,
    "h": 3600 * NS_PER_S,
    "d": 86_400 * NS_PER_S,
}
_NUMBER = r"[0-9]{1,40}(?:\.[0-9]{1,40})?(?:e[+-]?[0-9]{1,2})?"
_PART = re.compile(rf"({_NUMBER})\s*(ns|us|µs|ms|sec|s|min|m|h|d)", re.IGNORECASE)
_RATE = re.compile(
    rf"({_NUMBER})\s*(?:rps|(?:/|\bper\b)\s*({_NUMBER})?\s*(ms|sec|s|min|m|h|d))",
    re.IGNORECASE,
)


def ns_to_s(value_ns: float | None) -> float | None:
    """Nanoseconds to seconds; None stays None."""
    return None if value_ns is None else value_ns / NS_PER_S


def parse_duration_ns(text: str, *, allow_zero: bool = False) -> int:
    """Read ``2s``, ``500ms``, ``1m30s``; a unit is required.

    Args:
        text: the duration as typed.
        allow_zero: whether ``0s`` is a value and not a mistake.

    Raises:
        UsageError: no unit, not a number, negative, zero where zero makes no
            sense, or longer than 31 days.
    """
    compact = text.strip()
    total = Fraction(0)
    position = 0
    while position < len(compact):
        part = _PART.match(compact, position)
        if part is None:
            raise UsageError(
                f"{text!r} is not a duration", "write it with a unit: 2s, 500ms, 1m30s"
            )
        total += Fraction(part[1]) * _UNIT_NS[part[2].lower()]
        position = part.end()
    duration_ns = round(total)
    if not compact or (duration_ns == 0 and not allow_zero):
        raise UsageError(f"{text!r} is not a duration above zero", "try 2s")
    if duration_ns > MAX_DURATION_NS:
        raise UsageError(f"{text!r} is longer than 31 days")
    return duration_ns


def parse_rate_rps(text: str) -> float:
    """Read ``20/s``, ``1200/min``, ``20rps``, ``50/1s`` as requests per second.

    Raises:
        UsageError: no unit, zero, negative, not finite, or above 10^7/s.
    """
    match = _RATE.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"{text!r} is not a rate", "write it with its unit: 20/s, 1200/min"
        )
    per = Fraction(match[2] or 1) * _UNIT_NS[(match[3] or "s").lower()]
    if per == 0:
        raise UsageError(f"{text!r} is not a rate: the interval is zero")
    rate_rps = float(Fraction(match[1]) * NS_PER_S / per)
    if not math.isfinite(rate_rps) or rate_rps <= 0:
        raise UsageError(f"the rate {text!r} must be above zero", "try 20/s")
    if rate_rps > MAX_RATE_RPS:
        raise UsageError(f"the rate {text!r} is above 10,000,000/s")
    return rate_rps


def format_duration(duration_ns: float | None) -> str:
    """A duration for people, three significant digits; ``-`` for None."""
    if duration_ns is None:
        return "-"
    for unit, size_ns in (("s", NS_PER_S), ("ms", NS_PER_MS), ("µs", NS_PER_US)):
        if abs(duration_ns) >= size_ns:
            return f"{duration_ns / size_ns:.3g} {unit}".replace("e+03", "000")
    return "0 s" if duration_ns == 0 else f"{duration_ns:.0f} ns"
