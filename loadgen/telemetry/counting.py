"""What a series did over a run: increases with resets, levels, histograms.

Pure. Each function takes one series as it was seen from scrape to scrape; None
stands where a scrape worked and the series was not there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

__all__ = ["Buckets", "Increase", "Quantile", "histogram_increase", "increase"]

INF = "+Inf"


class Increase(NamedTuple):
    """By how much a counter grew; with resets it is a lower bound."""

    delta: float
    resets: int


def increase(values: Sequence[float | None]) -> Increase:
    """Sum of all steps up; after a step down the new value counts whole.

    A counter that was not there at first began at 0: it appears with its first
    count. What a process counted after the last look before its end is lost.
    """
    delta, resets, last = 0.0, 0, 0.0
    for number, value in enumerate(values):
        if value is None:
            continue
        if number == 0:
            last = value
            continue
        if value < last:
            resets += 1
            delta += value
        else:
            delta += value - last
        last = value
    return Increase(delta, resets)


class Quantile(NamedTuple):
    """``value`` is None where it lies above the last finite bound, ``above``."""

    value: float | None
    above: float | None


class Buckets(NamedTuple):
    """A histogram: cumulative counts by upper bound, ascending; sum and number."""

    bounds: tuple[float, ...]
    counts: tuple[float, ...]
    total: float | None
    n: float

    @property
    def mean(self) -> float | None:
        return self.total / self.n if self.n and self.total is not None else None

    def quantile(self, q: float) -> Quantile | None:
        """By linear interpolation in its bucket, as Prometheus does; None if empty."""
        if not self.n:
            return None
        rank, low, below = q * self.n, 0.0, 0.0
        for bound, count in zip(self.bounds, self.counts, strict=True):
            if count >= rank:
                if math.isinf(bound):
                    break
                share = (rank - below) / (count - below) if count > below else 1.0
                return Quantile(low + (bound - low) * share, None)
            if not math.isinf(bound):
                low, below = bound, count
        return Quantile(None, low)


def histogram_increase(
    before: Mapping[str, float], after: Mapping[str, float]
) -> tuple[Buckets, bool]:
    """What was observed between two looks.

    Args:
        before: cumulative counts by ``le``, and ``sum`` and ``count``; empty where
            the histogram was not there yet.
        after: the same at the end.

    Returns:
        The difference, and whether it was reset in between: then all of ``after``.
    """
    reset = after.get("count", 0.0) < before.get("count", 0.0)
    start: Mapping[str, float] = {} if reset else before
    bounds = sorted(
        (float(le) if le != INF else math.inf, le)
        for le in after
        if le not in ("sum", "count")
    )
    counts = tuple(after[le] - start.get(le, 0.0) for _, le in bounds)
    total = after["sum"] - start.get("sum", 0.0) if "sum" in after else None
    count = after.get("count", counts[-1] if counts else 0.0)
    return (
        Buckets(
            tuple(bound for bound, _ in bounds),
            counts,
            total,
            count - start.get("count", 0.0),
        ),
        reset,
    )


def summed(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Several histograms with the same bounds as one."""
    total: dict[str, float] = {}
    for part in parts:
        for key, value in part.items():
            total[key] = total.get(key, 0.0) + value
    return total
