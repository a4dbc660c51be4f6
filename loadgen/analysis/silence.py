"""Moments in which every open stream fell silent together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from loadgen.analysis.columns import RunData
from loadgen.analysis.latency import Gaps
from loadgen.units import NS_PER_MS

__all__ = ["Silences", "silences"]

MIN_STREAMS = 3
MIN_SILENCE_NS = 50 * NS_PER_MS
_MEDIANS = 5  # a silence is this many usual gaps long, at the least


class Silences(NamedTuple):
    """How many times, and the longest of them in ns."""

    times: int
    longest_ns: int


def silences(data: RunData, gaps: Gaps) -> Silences | None:
    """Stretches without a token of any stream while three or more were open.

    One stream that pauses is the server's doing. All of them at once is a stall of
    the engine or of the client: a hint to look, not a proof. A stretch counts from
    50 ms and five median gaps upward. None where there is none.
    """
    ns = gaps.ns[gaps.exact]
    if not ns.size:
        return None
    threshold_ns = max(MIN_SILENCE_NS, _MEDIANS * int(np.median(ns)))
    if int(gaps.ns.max()) < threshold_ns:
        return None
    stamps = np.sort(data.token_ns)
    lengths = np.diff(stamps)
    at = np.flatnonzero(lengths >= threshold_ns)
    if not at.size:
        return None
    starts = stamps[at].astype(np.float64)
    streams = data.token_count >= 2
    opened = np.sort(data.first_token_ns[streams])
    closed = np.sort(data.last_token_ns[streams])
    still_open = np.searchsorted(opened, starts, side="right") - np.searchsorted(
        closed, starts, side="right"
    )
    shared = lengths[at][still_open >= MIN_STREAMS]
    return Silences(shared.size, int(shared.max())) if shared.size else None
