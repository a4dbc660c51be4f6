"""Requests that were ok and fast enough, over all that were offered."""

from __future__ import annotations

from functools import reduce
from operator import and_

import msgspec

from loadgen.analysis.columns import Mask, RunData
from loadgen.analysis.latency import Times
from loadgen.analysis.stats import wilson
from loadgen.errors import UsageError, naming
from loadgen.units import NS_PER_S, parse_duration_ns

__all__ = ["Goodput", "Slo", "good_rows", "goodput", "meets", "parse_slo"]

_KEYS = {"ttft": "ttft_ns", "tpot": "tpot_ns", "e2e": "e2e_ns", "e2el": "e2e_ns"}
_EXAMPLE = "write --slo ttft=2s,tpot=50ms,e2e=30s"
_DIGITS = 6


class Slo(msgspec.Struct, frozen=True, kw_only=True):
    """The longest times that still count as good, ns; None asks nothing."""

    ttft_ns: int | None = None
    tpot_ns: int | None = None
    e2e_ns: int | None = None

    def limits_s(self) -> dict[str, float]:
        """The limits that were asked for, in seconds, by the name of the quantity."""
        limits = {
            "ttft_s": self.ttft_ns,
            "tpot_s": self.tpot_ns,
            "e2e_s": self.e2e_ns,
        }
        return {name: ns / NS_PER_S for name, ns in limits.items() if ns is not None}


class Goodput(msgspec.Struct, frozen=True, kw_only=True):
    """The share of offered requests that were ok and met every limit (<=).

    ``attainment`` is the share that was ok and met one limit. ``rate_rps`` counts
    per second of schedule, not of wall time. Shares and rate are None when nothing
    was offered or the schedule has no length. ``ci95`` speaks of this schedule
    only: another draw of arrivals would differ by more.
    """

    slo: dict[str, float]
    good: int
    offered: int
    ratio: float | None
    ci95: tuple[float, float] | None
    rate_rps: float | None
    attainment: dict[str, float | None]
    scope: str = "this schedule"


def parse_slo(text: str) -> Slo:
    """Read ``ttft=2s,tpot=50ms,e2e=30s``; any of the three may be left out.

    Raises:
        UsageError: an unknown, doubled or empty limit, or a bad duration.
    """
    limits: dict[str, int] = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        field = _KEYS.get(key.strip().lower())
        if field is None or not equals:
            raise UsageError(f"{part.strip()!r} is not a limit", _EXAMPLE)
        if field in limits:
            raise UsageError(f"the limit {key.strip()!r} is given twice", _EXAMPLE)
        with naming(f"--slo {key.strip()}"):
            limits[field] = parse_duration_ns(value)
    return Slo(**limits)


def meets(slo: Slo, data: RunData, times: Times, *, stream: bool) -> dict[str, Mask]:
    """For each limit asked, which requests kept it; judged by their own record.

    A streamed answer without a TTFT fails that limit; the first token of an answer
    that is not streamed comes with its end. An answer of fewer than two tokens, or
    one whose tokens all came at once, has no TPOT to fail; without streaming TPOT
    cannot be measured, so nothing meets it.
    """
    kept: dict[str, Mask] = {}
    if slo.ttft_ns is not None:
        kept["ttft_s"] = (times.ttft if stream else times.e2e) <= slo.ttft_ns
    if slo.tpot_ns is not None:
        no_tpot_to_fail = (data.output_tokens < 2) | times.at_once
        kept["tpot_s"] = ((times.tpot <= slo.tpot_ns) | no_tpot_to_fail) & stream
    if slo.e2e_ns is not None:
        kept["e2e_s"] = times.e2e <= slo.e2e_ns
    return {name: mask & data.ok for name, mask in kept.items()}


def good_rows(kept: dict[str, Mask], ok: Mask) -> Mask:
    """Requests that are ok and keep every limit."""
    return reduce(and_, kept.values(), ok)


def goodput(
    slo: Slo,
    kept: dict[str, Mask],
    ok: Mask,
    *,
    offered: int,
    duration_ns: int,
    rows: Mask | None = None,
) -> Goodput:
    """Goodput over all rows, or over those marked.

    Args:
        slo: the limits, to be named in the result.
        kept: of ``meets``.
        ok: which rows are ok.
        offered: requests offered, those without a record among them.
        duration_ns: length of the schedule.
        rows: the rows of one group; None for all.
    """

    def count(mask: Mask) -> int:
        return int((mask if rows is None else mask & rows).sum())

    def ratio(hits: int) -> float | None:
        return round(hits / offered, _DIGITS) if offered else None

    good = count(good_rows(kept, ok))
    interval = wilson(good, offered)
    return Goodput(
        slo=slo.limits_s(),
        good=good,
        offered=offered,
        ratio=ratio(good),
        ci95=None
        if interval is None
        else (round(interval[0], _DIGITS), round(interval[1], _DIGITS)),
        rate_rps=round(good * NS_PER_S / duration_ns, _DIGITS) if duration_ns else None,
        attainment={name: ratio(count(mask)) for name, mask in kept.items()},
    )
