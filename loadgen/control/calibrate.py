"""Searches what this machine can offer, then looks at its errors below that."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from loadgen.control.capacity import Calibration, Level, Most, this_machine
from loadgen.control.null_rig import Limit, Load, Seen, measure
from loadgen.control.processors import Processors, others_share
from loadgen.errors import LoadgenError

__all__ = ["Search", "calibrate"]

STREAM_TOKENS = 64
SHARES = (0.25, 0.5, 0.9)
PRECISION = 1.1
REQUESTS_UNTIL_S = 15.0
STREAMS_UNTIL_S = 36.0
"""When searching ends; the three levels after it take some 10 s."""

FIRST_REQUESTS = Load(rate_rps=1000, seconds=1, tokens=1)
FIRST_STREAMS = Load(rate_rps=200, seconds=1.5, tokens=STREAM_TOKENS)

Measure = Callable[[Load], Awaitable[Seen]]


class Search:
    """Which rate to try next: doubled until one fails, then the bracket is halved.

    Args:
        start_rps: the first to try.

    Attributes:
        held_rps: the highest that held; None: none did so far.
    """

    def __init__(self, start_rps: float) -> None:
        self._start_rps = start_rps
        self._failed_rps: float | None = None
        self.held_rps: float | None = None

    def next_rps(self) -> float | None:
        """None once the highest rate is known to 10 %."""
        held, failed = self.held_rps, self._failed_rps
        if failed is None:
            return self._start_rps if held is None else 2 * held
        if held is None:
            return failed / 2
        return None if failed <= PRECISION * held else (held * failed) ** 0.5

    def told(self, rate_rps: float, *, held: bool) -> None:
        """What came of trying it."""
        if held:
            self.held_rps = rate_rps
        else:
            self._failed_rps = rate_rps


async def calibrate(
    processes: int,
    say: Callable[[str], None],
    *,
    offer: Measure | None = None,
    now_s: Callable[[], float] = time.monotonic,
) -> Calibration:
    """Measure this machine, in under 60 s.

    Args:
        processes: how many issuing processes offer together.
        say: told what is going on, a line at a time.
        offer: offers one load; None: to null servers started for it.
        now_s: a clock that never goes back.

    Raises:
        LoadgenError: not even one request a second was sent in time.
        KeyboardInterrupt: the user stopped it.
    """
    began_s, before = now_s(), Processors.now()

    async def seen(load: Load) -> Seen:
        found = await (measure(load, processes) if offer is None else offer(load))
        came = "in time" if found.held(load) else f"too much for the {found.limited_by}"
        what = f"{load.tokens} token{'s' if load.paced else ''}"
        rate = f"{load.rate_rps:>8,.1f} requests/s of {what}"
        say(f"{now_s() - began_s:4.1f} s  {rate}: {came}")
        return found

    def within(limit_s: float) -> Callable[[], bool]:
        return lambda: now_s() - began_s < limit_s

    requests = await _most(seen, FIRST_REQUESTS, within(REQUESTS_UNTIL_S))
    streams = await _most(seen, FIRST_STREAMS, within(STREAMS_UNTIL_S))
    levels = []
    for share in SHARES:
        load = Load(
            rate_rps=share * streams.rate_rps, seconds=2.0, tokens=STREAM_TOKENS
        )
        levels.append(_level(share, load, await seen(load)))
    return Calibration(
        machine=this_machine(),
        measured_utc=datetime.now(UTC).isoformat(timespec="seconds"),
        took_s=round(now_s() - began_s, 1),
        others_busy=others_share(before, Processors.now()),
        processes=processes,
        requests=requests,
        streams=streams,
        stream_tokens=STREAM_TOKENS,
        levels=levels,
    )


async def _most(offer: Measure, first: Load, time_is_left: Callable[[], bool]) -> Most:
    """The highest rate that holds, from that of ``first`` upwards."""
    search = Search(first.rate_rps)
    limited_by: Limit | Literal["time"] = "time"
    while (rate_rps := search.next_rps()) is not None:
        if search.held_rps is not None and not time_is_left():
            break
        if rate_rps < 1:
            raise LoadgenError(
                "not even one request a second was sent in time",
                "is this machine busy with something else?",
            )
        load = Load(rate_rps=rate_rps, seconds=first.seconds, tokens=first.tokens)
        found = await offer(load)
        if not found.held(load) and time_is_left():
            found = await offer(load)  # once may be somebody else's doing
        search.told(rate_rps, held=found.held(load))
        if not found.held(load):
            limited_by = found.limited_by
    assert search.held_rps is not None
    return Most(rate_rps=round(search.held_rps, 1), limited_by=limited_by)


def _level(share: float, load: Load, seen: Seen) -> Level:
    lag_p50_ns, lag_p99_ns = _p50_p99(seen.send_lag_ns)
    error_p50_ns, error_p99_ns = _p50_p99(seen.stamp_error_ns)
    return Level(
        share=share,
        rate_rps=round(load.rate_rps, 1),
        tokens_per_s=round(load.rate_rps * load.tokens),
        send_lag_p50_ns=lag_p50_ns,
        send_lag_p99_ns=lag_p99_ns,
        stamp_error_p50_ns=error_p50_ns,
        stamp_error_p99_ns=error_p99_ns,
        coalesced_share=round(seen.coalesced_share, 5),
        processor_share=round(seen.processor_share, 3),
        waited_share=round(seen.waited_share, 3),
        server_late_share=round(seen.server_late_share, 5),
    )


def _p50_p99(values_ns: NDArray[np.int64]) -> tuple[int | None, int | None]:
    if not values_ns.size:
        return None, None
    p50, p99 = np.quantile(values_ns, [0.5, 0.99])
    return round(float(p50)), round(float(p99))
