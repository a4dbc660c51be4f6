"""How long things took: per request, then spread over the requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from loadgen.analysis.columns import Mask, RunData
from loadgen.analysis.stats import Floats, Spread, spread_of_gaps_s, spread_s
from loadgen.model import Outcome

__all__ = ["REFUSALS", "Gaps", "Latency", "Times", "gaps_of", "latency", "times_of"]

REFUSALS = (Outcome.HTTP_REJECT, Outcome.IN_STREAM_REJECT)


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds, each from the scheduled instant unless its name says otherwise.

    ``n_missing`` counts requests without the quantity; for ITL the gaps that are
    not exact; for time to reject the refusals whose end is unknown.
    """

    ttft_s: Spread
    ttft_from_sent_s: Spread
    ttft_answer_s: Spread
    itl_s: Spread
    tpot_s: Spread
    e2e_s: Spread
    time_to_reject_s: Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Durations of each request in ns; NaN where there is none to trust.

    ``tpot`` is NaN below two tokens and where all tokens came in one stamp;
    ``at_once`` marks the latter. ``client_lag`` is the send lag without the wait
    for the connection, which is the network's. ``anomalies`` marks requests whose
    stamps contradict each other, by the name of the contradiction.
    """

    ttft: Floats
    ttft_from_sent: Floats
    ttft_answer: Floats
    tpot: Floats
    e2e: Floats
    time_to_reject: Floats
    send_lag: Floats
    client_lag: Floats
    connect: Floats
    at_once: Mask
    anomalies: dict[str, Mask]


class Gaps(NamedTuple):
    """Gaps between consecutive token events of one request.

    ``exact`` is False where one of the two stamps is only an upper bound.
    ``row`` is the request each gap belongs to.
    """

    ns: NDArray[np.int64]
    exact: Mask
    row: NDArray[np.int32]


def _anomalies(data: RunData) -> dict[str, Mask]:
    """Contradictions that one monotonic clock cannot produce. NaN contradicts none."""
    first, last, end = data.first_token_ns, data.last_token_ns, data.end_ns
    due = data.scheduled_ns
    return {
        "last_token_before_first": last < first,
        "ttft_gt_e2e": (first > end) | (data.first_answer_ns > end),
        "before_scheduled": (first < due) | (end < due) | (data.sent_ns < due),
    }


def times_of(data: RunData) -> Times:
    """Every duration of every request."""
    anomalies = _anomalies(data)
    bad = anomalies["ttft_gt_e2e"] | anomalies["before_scheduled"]
    due, sent = data.scheduled_ns, data.sent_ns

    def kept(values: Floats, *, where: Mask | None = None) -> Floats:
        keep = ~bad if where is None else where & ~bad
        return np.where(keep, values, np.nan)

    decode_ns = data.last_token_ns - data.first_token_ns
    several = (data.output_tokens >= 2) & (decode_ns > 0)
    divisor = np.where(several, data.output_tokens - 1, np.nan)
    connect = np.maximum(data.connected_ns - data.started_ns, 0)
    lag = np.where(np.isnan(sent), data.started_ns, sent) - due
    return Times(
        ttft=kept(data.first_token_ns - due),
        ttft_from_sent=kept(data.first_token_ns - sent),
        ttft_answer=kept(data.first_answer_ns - due),
        tpot=kept(decode_ns / divisor),
        e2e=kept(data.end_ns - due, where=data.ok),
        time_to_reject=kept(data.end_ns - due, where=data.outcome.where(*REFUSALS)),
        send_lag=sent - due,
        client_lag=lag - np.where(np.isnan(sent), 0, np.nan_to_num(connect)),
        connect=np.where(connect > 0, connect, np.nan),
        at_once=decode_ns == 0,
        anomalies=anomalies,
    )


def gaps_of(data: RunData) -> Gaps:
    """All gaps of all requests, in the order of their rows."""
    count = data.token_count
    inner = np.ones(max(data.token_ns.size - 1, 0), dtype=np.bool_)
    row_ends = np.cumsum(count)[count > 0][:-1]
    inner[row_ends - 1] = False
    ns = np.diff(data.token_ns)[inner]
    exact = (data.token_exact[1:] & data.token_exact[:-1])[inner]
    exact &= ns > 0
    row = np.repeat(np.arange(data.rows, dtype=np.int32), np.maximum(count - 1, 0))
    return Gaps(ns, exact, row)


def latency(data: RunData, times: Times, gaps: Gaps, rows: Mask | None) -> Latency:
    """Spreads over all rows, or over those marked (one group's, say)."""
    gap_rows = None if rows is None else rows[gaps.row]
    exact = gaps.exact if gap_rows is None else gaps.exact & gap_rows
    n_gaps = gaps.ns.size if gap_rows is None else int(gap_rows.sum())
    refused = data.outcome.where(*REFUSALS)
    if rows is not None:
        refused &= rows

    def of(values: Floats) -> Spread:
        if rows is None:
            return spread_s(values, n_missing=data.unrecorded)
        return spread_s(values[rows])

    return Latency(
        ttft_s=of(times.ttft),
        ttft_from_sent_s=of(times.ttft_from_sent),
        ttft_answer_s=of(times.ttft_answer),
        itl_s=spread_of_gaps_s(gaps.ns[exact], n_missing=n_gaps - int(exact.sum())),
        tpot_s=of(times.tpot),
        e2e_s=of(times.e2e),
        time_to_reject_s=spread_s(times.time_to_reject[refused]),
    )
