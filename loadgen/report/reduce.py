"""A run's columns reduced to what a picture can show: some hundred values at most.

However many requests there were, what is drawn of them stays small; what is left
out is left out evenly and never rounded to zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from loadgen.analysis.columns import Mask, RunData
from loadgen.analysis.goodput import Slo, good_rows, meets
from loadgen.analysis.latency import Gaps, Times, gaps_of, times_of
from loadgen.analysis.stats import Floats
from loadgen.report.plots.scales import step_above
from loadgen.units import NS_PER_S

__all__ = ["Ecdf", "Fates", "OpenRequests", "Reduced", "Waits", "reduce_run"]

GROUPS_DRAWN = 4
MOST_BINS = 100
FEWEST_BINS = 20
MOST_OPEN = 400
MOST_DOTS = 600
MOST_STEPS = 160

GOOD, LATE = "good", "late"


@dataclass(frozen=True, slots=True)
class Ecdf:
    """Of ``of`` things, the share that took no longer than each of some times.

    ``shares`` ends at ``n / of``: where fewer have a time than there are things,
    the curve does not reach 1.
    """

    values_s: tuple[float, ...]
    shares: tuple[float, ...]
    n: int
    of: int


@dataclass(frozen=True, slots=True)
class Fates:
    """What became of the requests by when they were due.

    Bin ``i`` begins at ``i * width_s``. ``counts`` is by ``good``, ``late``, and for
    the others the layer that lost them; in order of drawing, without empty ones.
    ``undated`` requests left no record that tells when they were due.
    """

    width_s: float
    counts: Mapping[str, tuple[int, ...]]
    undated: int


@dataclass(frozen=True, slots=True)
class OpenRequests:
    """Requests sent and not ended: the most in each of some short stretches."""

    at_s: tuple[float, ...]
    most: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Waits:
    """Time to the first token by when a request was due.

    ``dots`` holds every request of a group while they are few; else it is empty and
    ``middle`` and ``slow`` hold the p50 and p95 of each bin, None in an empty one.
    """

    dots: Mapping[str, tuple[tuple[float, float], ...]]
    width_s: float
    middle: tuple[float | None, ...]
    slow: tuple[float | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduced:
    """All that is drawn of one run's requests. ``extent_s`` includes the drain."""

    duration_s: float
    extent_s: float
    groups: tuple[str, ...]
    groups_left_out: int
    fates: Fates
    open: OpenRequests
    waits: Waits
    ttft: Mapping[str, Ecdf]
    itl: Mapping[str, Ecdf]


def reduce_run(data: RunData, duration_ns: int, slo: Slo, *, stream: bool) -> Reduced:
    """Reduce one run; the largest groups are drawn, the others counted."""
    times, gaps = times_of(data), gaps_of(data)
    counts = data.group.counts()
    largest = sorted(counts, key=lambda name: -counts[name])[:GROUPS_DRAWN]
    groups = {name: data.group.where(name) for name in counts if name in largest}
    good = good_rows(meets(slo, data, times, stream=stream), data.ok)
    ends = np.concatenate([data.end_ns, data.scheduled_ns, [float(duration_ns)]])
    extent_s = float(np.nanmax(ends)) / NS_PER_S or 1.0
    duration_s = duration_ns / NS_PER_S
    width_s = _width_s(duration_s, extent_s, data.rows)
    return Reduced(
        duration_s=duration_s,
        extent_s=extent_s,
        groups=tuple(groups),
        groups_left_out=len(counts) - len(groups),
        fates=_fates(data, good, width_s, extent_s),
        open=_open(data, extent_s),
        waits=_waits(data, times, groups, width_s, extent_s),
        ttft={n: _ecdf(times.ttft[m], counts[n]) for n, m in groups.items()},
        itl=_itl(gaps, groups),
    )


def _width_s(duration_s: float, extent_s: float, requests: int) -> float:
    """Of a bin: round, and with a few requests in each while there are few at all."""
    bins = min(max(requests // 4, FEWEST_BINS), MOST_BINS)
    return max(step_above(duration_s / bins), step_above(extent_s / (2 * MOST_BINS)))


def _fates(data: RunData, good: Mask, width_s: float, extent_s: float) -> Fates:
    dated = np.isfinite(data.scheduled_ns)
    bins = int(extent_s / width_s) + 1

    def counted(mask: Mask) -> tuple[int, ...]:
        due = data.scheduled_ns[mask & dated] / NS_PER_S
        places = np.clip((due / width_s).astype(np.int64), 0, bins - 1)
        return tuple(np.bincount(places, minlength=bins).tolist())

    masks = {GOOD: good, LATE: data.ok & ~good}
    layers = np.array([cause.layer.value for cause in data.causes], dtype=object)
    for layer in dict.fromkeys(layers.tolist()):
        among = np.flatnonzero(layers == layer)
        masks[layer] = np.isin(data.cause, among)
    return Fates(
        width_s=width_s,
        counts={name: counted(mask) for name, mask in masks.items() if mask.any()},
        undated=data.unrecorded + int((~dated).sum()),
    )


def _open(data: RunData, extent_s: float) -> OpenRequests:
    sent = data.sent_ns[np.isfinite(data.sent_ns)]
    ended = data.end_ns[np.isfinite(data.sent_ns) & np.isfinite(data.end_ns)]
    at = np.concatenate([sent, ended])
    change = np.concatenate([np.ones(sent.size), -np.ones(ended.size)])
    order = np.lexsort((-change, at))
    at_s, level = at[order] / NS_PER_S, np.cumsum(change[order]).astype(np.int64)
    if at_s.size > MOST_OPEN:
        edges = np.linspace(0, extent_s, MOST_OPEN, endpoint=False)
        first = np.searchsorted(at_s, edges)
        before = np.where(first > 0, level[first - 1], 0)
        padded = np.append(level, 0)
        within = np.maximum.reduceat(padded, np.minimum(first, level.size))
        changed = np.diff(np.append(first, level.size)) > 0
        at_s, level = edges, np.where(changed, np.maximum(within, before), before)
    return OpenRequests((0.0, *at_s.tolist()), (0, *level.tolist()))


def _waits(
    data: RunData,
    times: Times,
    groups: Mapping[str, Mask],
    width_s: float,
    extent_s: float,
) -> Waits:
    due_s, ttft_s = data.scheduled_ns / NS_PER_S, times.ttft / NS_PER_S
    there = np.isfinite(ttft_s)
    if int(there.sum()) <= MOST_DOTS:
        dots = {
            name: tuple(
                zip(due_s[m & there].tolist(), ttft_s[m & there].tolist(), strict=True)
            )
            for name, m in groups.items()
        }
        return Waits(dots, width_s, (), ())
    places = (due_s[there] / width_s).astype(np.int64)
    order = np.argsort(places, kind="stable")
    values, bins = ttft_s[there][order], np.arange(int(extent_s / width_s) + 2)
    cuts = np.searchsorted(places[order], bins)
    parts = [values[a:b] for a, b in pairwise(cuts.tolist())]

    def quantile(level: float) -> tuple[float | None, ...]:
        return tuple(
            float(np.quantile(part, level)) if part.size else None for part in parts
        )

    return Waits({}, width_s, quantile(0.5), quantile(0.95))


def _itl(gaps: Gaps, groups: Mapping[str, Mask]) -> dict[str, Ecdf]:
    found = {}
    for name, mask in groups.items():
        values = gaps.ns[gaps.exact & mask[gaps.row]]
        if values.size:
            found[name] = _ecdf(values, values.size)
    return found


def _ecdf(values_ns: Floats | NDArray[np.int64], of: int) -> Ecdf:
    """Exact at each step that is kept; the tail keeps more of them than the body."""
    present = values_ns[np.isfinite(values_ns)]
    n = present.size
    if not n:
        return Ecdf((), (), 0, of)
    body = np.linspace(0, n - 1, MOST_STEPS)
    tail = n - 1 - np.minimum(np.geomspace(1, n, MOST_STEPS // 4) - 1, n - 1)
    ranks = np.unique(np.concatenate([body, tail]).round().astype(np.int64))
    chosen = np.partition(present, ranks)[ranks] / NS_PER_S
    return Ecdf(tuple(chosen.tolist()), tuple(((ranks + 1) / of).tolist()), n, of)
