"""Numbers about many numbers; None where there is nothing to say."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from loadgen.units import NS_PER_S

__all__ = [
    "MIN_SAMPLES_P99",
    "Floats",
    "Spread",
    "finite_or_none",
    "jain_index",
    "spread",
    "spread_of_gaps_s",
    "spread_s",
    "wilson",
]

Floats = NDArray[np.float64]

MIN_SAMPLES_P99 = 100
"""Below this count, a p99 by interpolation lies between the two largest values."""
_LEVELS = (0.50, 0.90, 0.95, 0.99)
_Z95 = 1.959963984540054
_S_DIGITS = 9  # 1 ns


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """How one quantity is spread over the requests (or gaps) that have it.

    Quantiles are by linear interpolation. All are None when ``n`` is 0.
    ``n_missing`` counts those of the population that do not have the quantity.
    ``flag`` is ``too_few_samples`` where p99 says little more than the maximum.
    """

    n: int
    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    max: float | None = None
    n_missing: int = 0
    flag: str | None = None


def finite_or_none(value: float | None) -> float | None:
    """The value, or None where it is no number that JSON can hold."""
    return value if value is not None and math.isfinite(value) else None


def spread(
    values: Floats, *, n_missing: int = 0, scale: float = 1.0, digits: int = 6
) -> Spread:
    """Summarise the finite values; those that are NaN count as missing.

    Args:
        values: one number each, NaN where missing. Not changed.
        n_missing: members of the population that are not in ``values``.
        scale: what a value is divided by.
        digits: decimal places kept.
    """
    present = values[np.isfinite(values)]
    n_missing += values.size - present.size
    return _spread(present, n_missing, scale, digits)


def _spread(
    present: Floats | NDArray[np.int64], n_missing: int, scale: float, digits: int
) -> Spread:
    """As ``spread``, of finite values that are put out of order: no copy is made."""
    if not present.size:
        return Spread(n=0, n_missing=n_missing)

    def rounded(value: float) -> float | None:
        return finite_or_none(round(float(value) / scale, digits))

    mean = float(present.mean())
    p50, p90, p95, p99 = np.quantile(
        present, _LEVELS, method="linear", overwrite_input=True
    )
    return Spread(
        n=present.size,
        mean=rounded(mean),
        p50=rounded(p50),
        p90=rounded(p90),
        p95=rounded(p95),
        p99=rounded(p99),
        max=rounded(float(present.max())),
        n_missing=n_missing,
        flag="too_few_samples" if present.size < MIN_SAMPLES_P99 else None,
    )


def spread_s(values_ns: Floats, *, n_missing: int = 0) -> Spread:
    """The same of durations in ns, said in seconds."""
    return spread(values_ns, n_missing=n_missing, scale=NS_PER_S, digits=_S_DIGITS)


def spread_of_gaps_s(gaps_ns: NDArray[np.int64], *, n_missing: int) -> Spread:
    """As ``spread_s``, of tens of millions of gaps: puts ``gaps_ns`` out of order."""
    return _spread(gaps_ns, n_missing, NS_PER_S, _S_DIGITS)


def wilson(successes: int, trials: int) -> tuple[float, float] | None:
    """Wilson's 95 % interval of a proportion; None without trials.

    It speaks of one schedule only: requests that share a queue are not
    independent, so it must not be carried to other schedules.
    """
    if trials == 0:
        return None
    share = successes / trials
    z2 = _Z95 * _Z95
    centre = share + z2 / (2 * trials)
    half = _Z95 * math.sqrt(share * (1 - share) / trials + z2 / (4 * trials * trials))
    scale = 1 + z2 / trials
    low = 0.0 if successes == 0 else max(0.0, (centre - half) / scale)
    high = 1.0 if successes == trials else min(1.0, (centre + half) / scale)
    return low, high


def jain_index(shares: Sequence[float]) -> float | None:
    """Jain's fairness: 1 when all are served alike, 1/n when one gets all.

    None when there is nobody, or nobody was served.
    """
    total = math.fsum(shares)
    squares = math.fsum(share * share for share in shares)
    return total * total / (len(shares) * squares) if squares > 0 else None
