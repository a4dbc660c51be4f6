"""What the issuing processes tell of themselves, and how far they can be trusted."""

from __future__ import annotations

from typing import Literal

import msgspec
import numpy as np

from loadgen.analysis.columns import RunData
from loadgen.analysis.latency import Times
from loadgen.analysis.stats import Spread, spread_s
from loadgen.units import ns_to_s

__all__ = ["Client", "ClientFacts", "client_of"]


class ClientFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The issuing processes' own account, kept in ``client.json``. None: not told.

    Of several processes: the worst of each, and sums of counts.
    ``clock_step_ns`` is the largest step of CLOCK_REALTIME against
    CLOCK_MONOTONIC, ``stopped`` why the offering ended before the schedule did,
    ``steal_share`` the share of CPU time that the hypervisor took away.
    """

    processes: int = 1
    loop_lag_p50_ns: int | None = None
    loop_lag_p99_ns: int | None = None
    loop_lag_max_ns: int | None = None
    clock_step_ns: int | None = None
    gc_collections: int | None = None
    gc_pause_max_ns: int | None = None
    steal_share: float | None = None
    stopped: str | None = None
    connections: dict[str, int] = {}


class LoopLag(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds from an event's being ready to its being served; None: not told."""

    p50: float | None = None
    p99: float | None = None
    max: float | None = None


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """The client's part in the numbers.

    ``send_lag_s`` is sent - scheduled, ``client_lag_s`` the same without the wait
    for a new connection, ``connect_s`` that wait. ``coalesced_share`` is the share
    of token stamps that are only upper bounds, the last of each answer apart: the
    answer's end mostly comes in the same read. None without such tokens.
    ``receive_clock`` is ``kernel``, ``user``, ``mixed``, or None when nothing was
    read. The harness never retries.
    """

    send_lag_s: Spread
    client_lag_s: Spread
    connect_s: Spread
    loop_lag_s: LoopLag
    retries: Literal[0] = 0
    receive_clock: str | None
    coalesced_share: float | None
    processes: int | None
    connections: dict[str, int]
    clock_step_s: float | None
    gc_collections: int | None
    gc_pause_max_s: float | None
    steal_share: float | None
    stopped: str | None


def client_of(data: RunData, times: Times, facts: ClientFacts | None) -> Client:
    """From the records what can be had from them, the rest from the facts."""
    told = facts or ClientFacts()
    clocks = list(data.receive_clock.counts())
    return Client(
        send_lag_s=spread_s(times.send_lag),
        client_lag_s=spread_s(times.client_lag),
        connect_s=spread_s(times.connect),
        loop_lag_s=LoopLag(
            p50=ns_to_s(told.loop_lag_p50_ns),
            p99=ns_to_s(told.loop_lag_p99_ns),
            max=ns_to_s(told.loop_lag_max_ns),
        ),
        receive_clock=(clocks[0] if len(clocks) == 1 else "mixed") if clocks else None,
        coalesced_share=_coalesced_share(data),
        processes=facts.processes if facts else None,
        connections=told.connections,
        clock_step_s=ns_to_s(told.clock_step_ns),
        gc_collections=told.gc_collections,
        gc_pause_max_s=ns_to_s(told.gc_pause_max_ns),
        steal_share=told.steal_share,
        stopped=told.stopped,
    )


def _coalesced_share(data: RunData) -> float | None:
    counted = np.ones(data.token_exact.size, dtype=np.bool_)
    counted[np.cumsum(data.token_count)[data.token_count > 0] - 1] = False
    tokens = int(counted.sum())
    if not tokens:
        return None
    return round(int((counted & ~data.token_exact).sum()) / tokens, 6)
