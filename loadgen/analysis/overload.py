"""Overload that nobody refused: a queue without a limit takes everything.

No rejections is no proof of room: the wait is then in TTFT alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from loadgen.units import format_duration

__all__ = ["SilentQueue", "silent_queue"]

MIN_REQUESTS = 20
WAITING_MOST_OF_THE_RUN = 0.5
GROWTH = 2.0


class SilentQueue(NamedTuple):
    """Signs that requests queued without limit; ``evidence`` is never empty."""

    evidence: tuple[str, ...]


def silent_queue(
    *, refused: int, ttft_ns: ArrayLike, waiting: Sequence[float] | None
) -> SilentQueue | None:
    """Look for a queue that grew while nothing was refused.

    Args:
        refused: requests turned away anywhere; any at all means a limit spoke.
        ttft_ns: TTFT in the order of arrival, NaN where there is none.
        waiting: the engine's gauge of waiting requests over the run; None where
            it was not sampled.

    Returns:
        None where nothing points to it, or too little is known.
    """
    if refused:
        return None
    evidence = [*_waited(waiting), *_grew(np.asarray(ttft_ns, dtype=np.float64))]
    return SilentQueue(tuple(evidence)) if evidence else None


def _waited(waiting: Sequence[float] | None) -> list[str]:
    if not waiting:
        return []
    share = sum(value > 0 for value in waiting) / len(waiting)
    if share < WAITING_MOST_OF_THE_RUN:
        return []
    return [
        f"requests waited in the engine for {share:.0%} of the run, "
        f"up to {max(waiting):g} at once"
    ]


def _grew(ttft_ns: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> list[str]:
    known = ttft_ns[np.isfinite(ttft_ns)]
    if known.size < MIN_REQUESTS:
        return []
    quarter = known.size // 4
    first, last = np.median(known[:quarter]), np.median(known[-quarter:])
    if last < GROWTH * first:
        return []
    return [
        f"TTFT grew with the order of arrival: {format_duration(float(first))} in the "
        f"first quarter, {format_duration(float(last))} in the last (medians)"
    ]
