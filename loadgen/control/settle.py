"""Between two runs: wait until the engine has nothing left to do, or say why not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from loadgen.analysis.curve import Settle
from loadgen.clock import Clock
from loadgen.units import NS_PER_S

__all__ = ["Queue", "Unasked", "pause", "settle"]

LIMIT_NS = 120 * NS_PER_S
STEP_S = 0.25
LOOKS = 2
"""So many looks in a row must find it empty: gauges follow a step behind."""

Pause = Callable[[float], Awaitable[bool]]
"""Sleeps so many seconds; true when it was broken off."""


class Queue(Protocol):
    """Somebody who knows how much an engine has to do."""

    async def open_requests(self) -> int | str:
        """Requests running and waiting, or in words why that is not known."""
        ...


class Unasked:
    """No engine is asked.

    Args:
        why: in words.
    """

    def __init__(self, why: str) -> None:
        self._why = why

    async def open_requests(self) -> int | str:
        return self._why


async def pause(seconds: float, broken_off: asyncio.Event) -> bool:
    """Sleep, or return true as soon as the event is set."""
    try:
        await asyncio.wait_for(broken_off.wait(), seconds)
    except TimeoutError:
        return False
    return True


async def settle(
    queue: Queue, fixed_ns: int, clock: Clock, rest: Pause, limit_ns: int = LIMIT_NS
) -> Settle:
    """Wait for an empty queue, up to two minutes; a fixed time where it is unknown.

    Args:
        queue: who knows.
        fixed_ns: how long to wait where nobody does.
        clock: CLOCK_MONOTONIC, or a test's.
        rest: sleeps.
        limit_ns: how long to wait for an empty queue.
    """
    began_ns = clock.now_ns()

    def ended(how: str, note: str | None) -> Settle:
        waited_s = round((clock.now_ns() - began_ns) / NS_PER_S, 3)
        return Settle(how=how, waited_s=waited_s, note=note)

    empty = 0
    while True:
        found = await queue.open_requests()
        if isinstance(found, str):
            if fixed_ns > 0:
                await rest(fixed_ns / NS_PER_S)
            return ended("fixed time" if fixed_ns > 0 else "none", found)
        empty = empty + 1 if found == 0 else 0
        if empty >= LOOKS:
            return ended("queue empty", None)
        if clock.now_ns() - began_ns >= limit_ns:
            return ended("not empty", f"{found} requests were still open")
        if await rest(STEP_S):
            return ended("not empty", "broken off")
