"""How long prompts and answers were, and who counted; sources are never mixed."""

from __future__ import annotations

import msgspec
import numpy as np

from loadgen.analysis.columns import Coded, Mask, RunData
from loadgen.analysis.stats import Floats, Spread, spread
from loadgen.units import NS_PER_S

__all__ = ["Lengths", "Throughput", "output_lengths", "prompt_lengths", "throughput"]

_DIGITS = 6


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """Token counts that came from one source."""

    total: int
    min: int
    per_request: Spread


class Lengths(msgspec.Struct, frozen=True, kw_only=True):
    """Token counts by who counted them; ``n_missing`` requests have no count."""

    by_source: dict[str, Tokens]
    n_missing: int


class Throughput(msgspec.Struct, frozen=True, kw_only=True):
    """What was completed per second, on two clocks that must not be mixed.

    ``schedule_s`` is the length of the sealed schedule, ``wall_s`` runs from the
    first send to the last end (None when nothing was sent or its length is zero).
    Only ok requests count; output tokens by who counted them.
    """

    schedule_s: float
    wall_s: float | None
    ok_rps_over_schedule: float | None
    ok_rps_over_wall: float | None
    output_tokens_per_s_over_schedule: dict[str, float]
    output_tokens_per_s_over_wall: dict[str, float]


def _lengths(counts: Floats, sources: Coded, rows: Mask | None) -> Lengths:
    among = np.ones(counts.size, dtype=np.bool_) if rows is None else rows
    known = among & np.isfinite(counts)
    by_source = {}
    for name in sources.counts(known):
        values = counts[known & sources.where(name)]
        by_source[name] = Tokens(
            total=int(values.sum()),
            min=int(values.min()),
            per_request=spread(values),
        )
    return Lengths(by_source=by_source, n_missing=int(among.sum() - known.sum()))


def prompt_lengths(data: RunData, rows: Mask | None = None) -> Lengths:
    """Actual prompt lengths of all rows, refused ones too, or of those marked."""
    return _lengths(data.prompt_tokens, data.prompt_tokens_source, rows)


def output_lengths(data: RunData, rows: Mask | None = None) -> Lengths:
    """Answer lengths of the ok rows, or of those of them that are marked."""
    among = data.ok if rows is None else data.ok & rows
    return _lengths(data.output_tokens, data.output_tokens_source, among)


def throughput(data: RunData, duration_ns: int) -> Throughput:
    """Completed requests and tokens per second of schedule and of wall time."""
    sent, end = data.sent_ns, data.end_ns
    known = bool(np.isfinite(sent).any() and np.isfinite(end).any())
    wall_ns = float(np.nanmax(end) - np.nanmin(sent)) if known else 0.0
    totals = {
        source: float(tokens.total)
        for source, tokens in output_lengths(data).by_source.items()
    }

    def per_second(amount: float, over_ns: float) -> float | None:
        return round(amount * NS_PER_S / over_ns, _DIGITS) if over_ns > 0 else None

    def rates(over_ns: float) -> dict[str, float]:
        each = {name: per_second(total, over_ns) for name, total in totals.items()}
        return {name: rate for name, rate in each.items() if rate is not None}

    n_ok = int(data.ok.sum())
    return Throughput(
        schedule_s=duration_ns / NS_PER_S,
        wall_s=wall_ns / NS_PER_S if wall_ns > 0 else None,
        ok_rps_over_schedule=per_second(n_ok, duration_ns),
        ok_rps_over_wall=per_second(n_ok, wall_ns),
        output_tokens_per_s_over_schedule=rates(duration_ns),
        output_tokens_per_s_over_wall=rates(wall_ns),
    )
