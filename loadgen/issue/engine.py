"""Where issuing processes run: the seam between one machine and many."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

import msgspec

from loadgen.issue import launch
from loadgen.issue.config import IssueConfig
from loadgen.issue.launch import Ready
from loadgen.issue.stats import IssueStats
from loadgen.units import NS_PER_MS

__all__ = ["LOCAL", "Engine", "HostClock", "Issues", "Local"]


class HostClock(msgspec.Struct, frozen=True, kw_only=True):
    """How another host's CLOCK_MONOTONIC stood to ours, by bracketed round trips.

    The truth lies within ``error_ns`` of the offset, either way.

    Attributes:
        host: its name.
        process: which issuing process asked, from 0.
        offset_ns: its clock minus ours, before t0.
        error_ns: half the narrowest bracket.
        after_offset_ns: the same once the process had ended; None: it was lost.
        after_error_ns: the same.
    """

    host: str
    process: int
    offset_ns: int
    error_ns: int
    after_offset_ns: int | None = None
    after_error_ns: int | None = None

    @property
    def bound_ns(self) -> int | None:
        """By how much its instants may differ from ours at worst; None: not known."""
        if self.after_offset_ns is None or self.after_error_ns is None:
            return None
        drift_ns = abs(self.after_offset_ns - self.offset_ns)
        return drift_ns + self.error_ns + self.after_error_ns


class Issues(Protocol):
    """A handle on one issuing process; ``launch.Issuing`` says more of each part."""

    @property
    def pid(self) -> int | None:
        """None where it runs on another machine."""

    @property
    def clock(self) -> HostClock | None:
        """None where it shares our clock."""

    async def ready(self) -> Ready: ...
    async def go(self, t0_ns: int) -> None:
        """Begin at that instant of *our* CLOCK_MONOTONIC."""

    def drain(self) -> None: ...
    def cut(self) -> None: ...
    async def wait(self) -> IssueStats:
        """Its account; its records lie where its config says from then on."""
        ...

    async def end(self) -> None: ...


class Engine(Protocol):
    """Starts issuing processes.

    Attributes:
        lead_ns: how long before t0 they must hear of it.
        tick_s: how often their counters are worth a look.
    """

    @property
    def lead_ns(self) -> int: ...
    @property
    def tick_s(self) -> float: ...
    @property
    def remote(self) -> bool:
        """Whether they run elsewhere, so that this machine's limits do not hold."""

    def check(self, processes: int) -> None:
        """Refuse, before anything is written, what it cannot do."""

    async def start(self, configs: Sequence[IssueConfig]) -> Sequence[Issues]:
        """One process each."""
        ...


class Local:
    """Processes of this machine."""

    lead_ns = 50 * NS_PER_MS
    tick_s = 0.25
    remote = False

    def check(self, processes: int) -> None:
        """Whatever it lacks, ``issue.limits`` says."""

    async def start(self, configs: Sequence[IssueConfig]) -> Sequence[Issues]:
        return await asyncio.gather(*(launch.start(config) for config in configs))


LOCAL = Local()
