"""Drive the issuing processes through one schedule, and stop them when asked."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from loadgen.issue.config import IssueConfig
from loadgen.issue.engine import LOCAL, Engine, HostClock, Issues
from loadgen.issue.progress import NAMES, ProgressReader, create
from loadgen.issue.stats import IssueStats

__all__ = ["Offered", "Snapshot", "offer", "signals_to"]

INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Snapshot = dict[str, int]
"""The issuers' counters by the names of ``issue.progress.NAMES``."""

_MAXIMA = {"send_lag_max_ns", "loop_lag_max_ns", "draining", "t0_ns", "ttft_last_ns"}


class Offered(NamedTuple):
    """What came of offering.

    Attributes:
        stats: each issuer's account.
        interrupts: how often a person said stop.
        clocks: of hosts that do not share ours.
    """

    stats: list[IssueStats]
    interrupts: int
    clocks: list[HostClock]


async def offer(
    configs: Sequence[IssueConfig],
    on_tick: Callable[[Snapshot], None],
    on_start: Callable[[int, list[int]], None] = lambda _t0_ns, _pids: None,
    engine: Engine = LOCAL,
    held: ExitStack | None = None,
) -> Offered:
    """Offer the configs' stripes from one common t0 until all have ended.

    The first interrupt stops offering and drains, the second saves at once, the
    third ends a process that does not.

    Args:
        configs: one a process; their ``progress_path`` is made here.
        on_tick: called some four times a second with all counters summed.
        on_start: called once, when t0 (on CLOCK_MONOTONIC) is set, with the ids of
            the issuers on this machine.
        engine: where they run.
        held: keeps interrupts away until it closes, so that what was offered is
            saved; None gives them back as soon as all have ended.
    """
    for config in configs:
        if config.progress_path is not None:
            create(Path(config.progress_path))
    issuing = await engine.start(configs)
    try:
        await asyncio.gather(*(one.ready() for one in issuing))
        t0_ns = time.monotonic_ns() + engine.lead_ns
        await asyncio.gather(*(one.go(t0_ns) for one in issuing))
        on_start(t0_ns, [one.pid for one in issuing if one.pid is not None])
        if held is not None:
            return await _watch(issuing, configs, on_tick, engine.tick_s, held)
        with ExitStack() as own:
            return await _watch(issuing, configs, on_tick, engine.tick_s, own)
    finally:
        await asyncio.gather(*(one.end() for one in issuing))


async def _watch(
    issuing: Sequence[Issues],
    configs: Sequence[IssueConfig],
    on_tick: Callable[[Snapshot], None],
    tick_s: float,
    held: ExitStack,
) -> Offered:
    readers = [
        ProgressReader(Path(config.progress_path))
        for config in configs
        if config.progress_path is not None
    ]
    interrupts = 0
    ends: list[asyncio.Task[None]] = []

    ended = asyncio.gather(*(one.wait() for one in issuing))

    def interrupted() -> None:
        nonlocal interrupts
        if ended.done():
            return
        interrupts += 1
        if interrupts == 3:
            ends.extend(asyncio.create_task(one.end()) for one in issuing)
        for one in issuing:
            one.drain() if interrupts == 1 else one.cut()

    held.enter_context(signals_to(interrupted))
    while not ended.done():
        await asyncio.wait([ended], timeout=tick_s)
        if readers:
            on_tick(_summed([reader.read() for reader in readers]))
    await asyncio.gather(*ends)
    for reader in readers:
        reader.close()
    clocks = [one.clock for one in issuing if one.clock is not None]
    return Offered(ended.result(), interrupts, clocks)


def _summed(blocks: Sequence[Snapshot]) -> Snapshot:
    return {
        name: (max if name in _MAXIMA else sum)([block[name] for block in blocks])
        for name in NAMES
    }


@contextmanager
def signals_to(handler: Callable[[], None]) -> Iterator[None]:
    """Send interrupts to a handler for a while, and then where they went before."""
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in INTERRUPTS}
    if before[signal.SIGHUP] is signal.SIG_IGN:  # nohup: the terminal may go
        del before[signal.SIGHUP]
    for number in before:
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number, old in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL if old is None else old)
