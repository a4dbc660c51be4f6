"""Drive the issuing processes through one schedule, and stop them when asked."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from loadgen.issue.config import IssueConfig
from loadgen.issue.launch import Issuing, start
from loadgen.issue.progress import NAMES, ProgressReader, create
from loadgen.issue.stats import IssueStats
from loadgen.units import NS_PER_MS

__all__ = ["Offered", "Snapshot", "offer"]

LEAD_NS = 50 * NS_PER_MS  # every issuer must have heard of t0 before t0
TICK_S = 0.25

Snapshot = dict[str, int]
"""The issuers' counters by the names of ``issue.progress.NAMES``."""

_MAXIMA = {"send_lag_max_ns", "loop_lag_max_ns", "draining", "t0_ns", "ttft_last_ns"}


class Offered:
    """What came of offering: each issuer's account, and whether a person stopped it."""

    def __init__(self, stats: list[IssueStats], interrupts: int) -> None:
        self.stats = stats
        self.interrupts = interrupts


async def offer(
    configs: Sequence[IssueConfig],
    on_tick: Callable[[Snapshot], None],
    on_start: Callable[[int, list[int]], None] = lambda _t0_ns, _pids: None,
) -> Offered:
    """Offer the configs' stripes from one common t0 until all have ended.

    The first interrupt stops offering and drains, the second saves at once.

    Args:
        configs: one a process; their ``progress_path`` is made here.
        on_tick: called some four times a second with all counters summed.
        on_start: called once, when t0 (on CLOCK_MONOTONIC) is set, with the
            issuers' process ids.
    """
    for config in configs:
        if config.progress_path is not None:
            create(Path(config.progress_path))
    issuing = await asyncio.gather(*(start(config) for config in configs))
    try:
        await asyncio.gather(*(one.ready() for one in issuing))
        t0_ns = time.monotonic_ns() + LEAD_NS
        for one in issuing:
            await one.go(t0_ns)
        on_start(t0_ns, [one.pid for one in issuing])
        return await _watch(issuing, configs, on_tick)
    finally:
        await asyncio.gather(*(one.end() for one in issuing))


async def _watch(
    issuing: Sequence[Issuing],
    configs: Sequence[IssueConfig],
    on_tick: Callable[[Snapshot], None],
) -> Offered:
    readers = [
        ProgressReader(Path(config.progress_path))
        for config in configs
        if config.progress_path is not None
    ]
    interrupts = 0

    def interrupted() -> None:
        nonlocal interrupts
        interrupts += 1
        for one in issuing:
            one.drain() if interrupts == 1 else one.cut()

    ended = asyncio.gather(*(one.wait() for one in issuing))
    with _signals_to(interrupted):
        while not ended.done():
            await asyncio.wait([ended], timeout=TICK_S)
            if readers:
                on_tick(_summed([reader.read() for reader in readers]))
    for reader in readers:
        reader.close()
    return Offered(ended.result(), interrupts)


def _summed(blocks: Sequence[Snapshot]) -> Snapshot:
    return {
        name: (max if name in _MAXIMA else sum)([block[name] for block in blocks])
        for name in NAMES
    }


@contextmanager
def _signals_to(handler: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
