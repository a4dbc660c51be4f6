"""May the run's numbers be believed? Reasons void it, warnings qualify it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from loadgen.analysis.client import Client
from loadgen.analysis.columns import RunData
from loadgen.analysis.goodput import Slo
from loadgen.analysis.silence import Silences
from loadgen.model import Basis, Outcome
from loadgen.units import NS_PER_MS, NS_PER_S, NS_PER_US, format_duration

__all__ = ["Doubts", "Reason", "Verdict", "lag_limit_ns", "verdict"]

MAX_LAG_NS = 10 * NS_PER_MS
MAX_CLOCK_STEP_NS = 20 * NS_PER_US
MAX_COALESCED_SHARE = 0.01
MAX_GC_PAUSE_NS = NS_PER_MS
MAX_STEAL_SHARE = 0.01
_TTFT_SHARE = 100  # the lag may be one part in so many of the TTFT target

_OWN_SIDE = "use --processes N, fewer streams at a time, or another machine"


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """One cause for doubt, in words, with what to do about it."""

    code: str
    text: str
    remedy: str


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """``invalid`` if there is any reason; warnings leave a run valid.

    ``lost_records`` counts offered requests of which no record was written; they
    are part of ``outcomes.internal``.
    """

    status: Literal["valid", "invalid"]
    reasons: list[Reason]
    warnings: list[Reason]
    lost_records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubts:
    """All that a verdict is made from.

    ``told`` is whether the issuing processes gave their account; without it a run
    with real sends cannot be shown to be sound, so it is invalid. ``edits`` are
    words about files that are not as they were sealed. ``without_tpot`` counts
    the answers that failed a TPOT limit for want of a TPOT.
    """

    data: RunData
    client: Client
    slo: Slo
    basis: Basis
    told: bool
    interrupted: bool
    edits: Sequence[str]
    silences: Silences | None
    stream: bool
    without_tpot: int


def lag_limit_ns(slo: Slo) -> float:
    """The send lag allowed at p99: the smaller of 10 ms and 1 % of the TTFT target."""
    return min(
        MAX_LAG_NS,
        MAX_LAG_NS if slo.ttft_ns is None else slo.ttft_ns / _TTFT_SHARE,
    )


def verdict(doubts: Doubts) -> Verdict:
    """Weigh everything; each reason names its remedy."""
    reasons = [
        *_client_limited(doubts),
        *_not_all_offered(doubts),
        *_not_all_known(doubts),
    ]
    return Verdict(
        status="invalid" if reasons else "valid",
        reasons=reasons,
        warnings=list(_warnings(doubts)),
        lost_records=doubts.data.lost,
    )


def _client_limited(doubts: Doubts) -> Iterator[Reason]:
    client, limit_ns = doubts.client, lag_limit_ns(doubts.slo)
    lag_s = client.client_lag_s.p99
    if lag_s is not None and lag_s * NS_PER_S > limit_ns:
        yield Reason(
            code="send_lag",
            text="the client could not keep the schedule: send lag p99 is "
            f"{format_duration(lag_s * NS_PER_S)}, the limit "
            f"{format_duration(limit_ns)}",
            remedy=_OWN_SIDE,
        )
    n_errors = doubts.data.outcome.counts().get(Outcome.CLIENT_ERROR, 0)
    if n_errors:
        yield Reason(
            code="client_errors",
            text=f"{n_errors} requests failed on the client's own side",
            remedy="raise the limits on files and ports, check DNS and certificates",
        )
    step_s = client.clock_step_s
    if step_s is not None and abs(step_s) * NS_PER_S > MAX_CLOCK_STEP_NS:
        yield Reason(
            code="clock_step",
            text=f"the system clock stepped by {format_duration(step_s * NS_PER_S)}",
            remedy="let the clock settle (or stop its corrections), then run again",
        )


def _not_all_offered(doubts: Doubts) -> Iterator[Reason]:
    unsent = doubts.data.outcome.counts().get(Outcome.UNSENT, 0)
    stopped = doubts.client.stopped
    if not (unsent or stopped or doubts.interrupted):
        return
    why = "by the user" if doubts.interrupted else (stopped or "cause not told")
    yield Reason(
        code="not_fully_issued",
        text=f"{unsent} of {doubts.data.offered} requests were never offered; "
        f"stopped: {why}",
        remedy="let the schedule run to its end, or plan a shorter one",
    )


def _not_all_known(doubts: Doubts) -> Iterator[Reason]:
    data = doubts.data
    if data.lost:
        yield Reason(
            code="lost_records",
            text=f"{data.lost} of {data.offered} requests left no record: an issuing "
            "process was killed or could not write",
            remedy="run again; check memory and disk space",
        )
    own_faults = data.outcome.counts().get(Outcome.INTERNAL, 0) - data.placeholders
    if own_faults:
        yield Reason(
            code="internal",
            text=f"{own_faults} requests met a fault of loadgen itself",
            remedy="report it, with the detail of those records",
        )
    if data.surplus:
        yield Reason(
            code="surplus_records",
            text=f"{data.surplus} records belong to no offered request, or come twice",
            remedy="judge the run from an unchanged copy",
        )
    if doubts.edits:
        yield Reason(
            code="edited",
            text="; ".join(doubts.edits),
            remedy="judge the run from an unchanged copy",
        )
    if not doubts.told and doubts.basis is not Basis.SIMULATED:
        yield Reason(
            code="no_client_report",
            text="the issuing processes left no account of their clock and loop",
            remedy="run again, and let it end by itself",
        )


def _warnings(doubts: Doubts) -> Iterator[Reason]:
    client = doubts.client
    share = client.coalesced_share
    if share is not None and share > MAX_COALESCED_SHARE:
        yield Reason(
            code="coalesced",
            text=f"{share:.1%} of the token stamps are only upper bounds: ITL stands "
            "on the others",
            remedy=_OWN_SIDE,
        )
    lag_s, limit_ns = client.loop_lag_s.p99, lag_limit_ns(doubts.slo)
    if lag_s is not None and lag_s * NS_PER_S > limit_ns:
        yield Reason(
            code="loop_lag",
            text=f"the client's loop was late by {format_duration(lag_s * NS_PER_S)} "
            "at p99",
            remedy=_OWN_SIDE,
        )
    pause_s = client.gc_pause_max_s
    if pause_s is not None and pause_s * NS_PER_S > MAX_GC_PAUSE_NS:
        yield Reason(
            code="gc_pause",
            text="garbage collection stopped the client for "
            f"{format_duration(pause_s * NS_PER_S)}",
            remedy="report it: collection is meant to be off during a run",
        )
    if client.steal_share is not None and client.steal_share > MAX_STEAL_SHARE:
        yield Reason(
            code="steal",
            text=f"the host took {client.steal_share:.1%} of the CPU time away",
            remedy="use a machine of your own, or one that is less loaded",
        )
    yield from _silence(doubts)
    yield from _unmeasurable(doubts)


def _silence(doubts: Doubts) -> Iterator[Reason]:
    """All streams silent at once, where the client cannot be cleared of it.

    Kernel stamps do not depend on the client's loop, and a loop that was never so
    late did not make the gap: then it is the engine's, a finding and no doubt.
    """
    found, client = doubts.silences, doubts.client
    if found is None or client.receive_clock == "kernel":
        return
    lag_s = client.loop_lag_s.max
    if lag_s is not None and lag_s * NS_PER_S < found.longest_ns / 2:
        return
    yield Reason(
        code="simultaneous_gap_in_all_streams",
        text=f"all open streams fell silent together {found.times} times, for "
        f"{format_duration(found.longest_ns)} at the longest: the engine paused, or "
        "the client did",
        remedy="check the client's load; kernel stamps would tell the two apart",
    )


def _unmeasurable(doubts: Doubts) -> Iterator[Reason]:
    if doubts.slo.tpot_ns is not None and not doubts.stream:
        yield Reason(
            code="slo_not_measurable",
            text="TPOT cannot be measured without streaming: no request meets it",
            remedy="stream the answers, or leave tpot out of --slo",
        )
    elif doubts.without_tpot:
        yield Reason(
            code="tpot_unknown",
            text=f"{doubts.without_tpot} answers have no TPOT and count as misses",
            remedy="let the server report usage, so that output tokens are known",
        )
    data = doubts.data
    sources = data.output_tokens_source.counts(data.ok & (data.output_tokens >= 2))
    if len(sources) > 1:
        yield Reason(
            code="mixed_token_sources",
            text="TPOT stands on output tokens counted by " + " and ".join(sources),
            remedy="compare only answers counted alike",
        )
