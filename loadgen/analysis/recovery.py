"""A step past capacity and back: how long it hurts, and whether it ever heals."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec
import numpy as np
from numpy.typing import NDArray

from loadgen.analysis.columns import Mask
from loadgen.analysis.curve import Overload
from loadgen.analysis.points import mean_of
from loadgen.analysis.stats import Floats
from loadgen.units import NS_PER_S

__all__ = ["Phases", "RunRecovery", "overload_of", "recovery"]

WINDOWS = 12
TOLERANCE = 0.1
"""A window of the return counts as well again within so much of before."""
_DIGITS = 6


class RunRecovery(msgspec.Struct, frozen=True, kw_only=True):
    """One run of base load, peak and base load again.

    ``before`` and ``after`` are goodput ratios of the second halves of the two
    base phases, so that neither holds a beginning. ``drain_s`` and ``recovery_s``
    count from the end of the peak and are None where it did not come to that.
    """

    folder: str
    schedule: int
    base_rps: float
    peak_rps: float
    phase_s: tuple[float, float, float]
    usable: bool
    why_not: str | None
    before: float | None
    during: float | None
    after: float | None
    drain_s: float | None
    recovery_s: float | None


class Phases(msgspec.Struct, frozen=True, kw_only=True):
    """Where the three phases end, ns from the start of the schedule."""

    base_ends_ns: int
    peak_ends_ns: int
    ends_ns: int


def recovery(
    phases: Phases, due_ns: Floats, end_ns: Floats, good: Mask
) -> dict[str, float | None]:
    """The five figures of ``RunRecovery`` that are measured.

    Args:
        phases: of the schedule.
        due_ns: when each request was due.
        end_ns: when it ended; NaN where that is not known.
        good: whether it was ok and within every limit.
    """

    def ratio(start_ns: float, stop_ns: float) -> float | None:
        rows = (due_ns >= start_ns) & (due_ns < stop_ns)
        return round(float(good[rows].mean()), _DIGITS) if rows.any() else None

    base, peak, end = phases.base_ends_ns, phases.peak_ends_ns, phases.ends_ns
    before = ratio(base / 2, base)
    edges = np.linspace(peak, end, WINDOWS + 1)
    windows = [ratio(a, b) for a, b in pairwise(edges)]
    return {
        "before": before,
        "during": ratio(base, peak),
        "after": ratio((peak + end) / 2, end),
        "drain_s": _drain_s(phases, due_ns, end_ns),
        "recovery_s": _recovery_s(before, windows, (end - peak) / WINDOWS),
    }


def _recovery_s(
    before: float | None, windows: Sequence[float | None], window_ns: float
) -> float | None:
    """The end of the last window that was clearly worse than before the peak."""
    if before is None:
        return None
    worse = [
        at
        for at, ratio in enumerate(windows)
        if ratio is not None and ratio < before - TOLERANCE
    ]
    if not worse:
        return 0.0
    last = worse[-1] + 1
    return None if last == len(windows) else round(last * window_ns / NS_PER_S, _DIGITS)


def _drain_s(phases: Phases, due_ns: Floats, end_ns: Floats) -> float | None:
    """Until no more requests are open than at worst in the settled base load."""
    if not np.isfinite(end_ns).all():
        return None
    at_ns, opened = _open(due_ns, end_ns)
    settled = (at_ns >= phases.base_ends_ns / 2) & (at_ns < phases.base_ends_ns)
    level = max(1, int(opened[settled].max(initial=0)))
    after = at_ns >= phases.peak_ends_ns
    still = opened[~after]
    if not still.size or still[-1] <= level:
        return 0.0
    low = np.flatnonzero(after & (opened <= level))
    if not low.size:
        return None
    return round(float(at_ns[low[0]] - phases.peak_ends_ns) / NS_PER_S, _DIGITS)


def _open(due_ns: Floats, end_ns: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Instants at which a request came or ended, and how many were open after."""
    at_ns = np.concatenate([due_ns, end_ns])
    change = np.repeat(np.array([1, -1]), due_ns.size)
    order = np.argsort(at_ns, kind="stable")
    return at_ns[order], np.cumsum(change[order])


def overload_of(runs: Sequence[RunRecovery]) -> Overload | None:
    """All overload runs as one; None when there is none that can be used."""
    usable = [run for run in runs if run.usable]
    if not usable:
        return None
    first = usable[0]
    return Overload(
        base_rps=first.base_rps,
        peak_rps=first.peak_rps,
        phase_s=first.phase_s,
        before=mean_of([run.before for run in usable]),
        during=mean_of([run.during for run in usable]),
        after=mean_of([run.after for run in usable]),
        hysteresis=mean_of(
            [
                run.before - run.after
                for run in usable
                if run.before is not None and run.after is not None
            ]
        ),
        drain_s=mean_of([run.drain_s for run in usable]),
        recovery_s=mean_of([run.recovery_s for run in usable]),
        not_drained=sum(run.drain_s is None for run in usable),
        not_recovered=sum(run.recovery_s is None for run in usable),
        runs=[run.folder for run in runs],
    )
