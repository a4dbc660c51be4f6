"""One issuing process on whatever machine this runs on, for a head far away.

The head sees it as an actor: it calls these methods from afar and may go away at any
time. Nothing here knows by what means it is called.
"""

from __future__ import annotations

import asyncio
import platform
import shutil
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from loadgen import __version__
from loadgen.errors import LoadgenError
from loadgen.issue.config import IssueConfig
from loadgen.issue.launch import Issuing, Ready, start
from loadgen.issue.limits import (
    Shortage,
    raise_descriptor_limit,
    read_machine,
    shortages,
)
from loadgen.issue.progress import create, read_once
from loadgen.issue.stats import IssueStats
from loadgen.plan.schedule import load

__all__ = ["SILENCE_S", "About", "Node", "Share"]

SILENCE_S = 15.0
"""A head not heard of for so long is gone: no more is offered."""

CHUNK_BYTES = 8 << 20


class About(NamedTuple):
    """Where a node is and what runs there."""

    host: str
    python: str
    loadgen: str


class Share(NamedTuple):
    """What a node needs beside its config, as the head's files hold it.

    Attributes:
        schedule: its stripe, cut.
        prompt_tokens: lengths in the stripe's order; empty: none.
        ca: the authorities to trust; None: the system's.
    """

    schedule: bytes
    prompt_tokens: bytes
    ca: bytes | None


class Node:
    """Call ``prepare``, then ``go``, then ``wait``, then ``records`` to the end."""

    def __init__(self) -> None:
        raise_descriptor_limit()
        self._folder = Path(tempfile.mkdtemp(prefix="loadgen-"))
        self._issuing: Issuing | None = None
        self._alarm: asyncio.TimerHandle | None = None

    async def about(self) -> About:
        return About(platform.node(), platform.python_version(), __version__)

    async def clock(self) -> int:
        """CLOCK_MONOTONIC here, ns."""
        return time.monotonic_ns()

    async def prepare(self, config: IssueConfig, share: Share) -> Ready:
        """Start the issuing process; ``ready`` is False where it cannot begin."""
        config = self._settle(config, share)
        lack = next(filter(lambda lack: lack.certain, self._shortages(config)), None)
        if lack is not None:
            return Ready(ready=False, error=f"too few {lack.what}: {lack.why}")
        self._issuing = await start(config)
        try:
            return await self._issuing.ready()
        except LoadgenError as error:
            return Ready(ready=False, error=str(error))

    async def go(self, t0_ns: int) -> None:
        """Begin at that instant of this machine's CLOCK_MONOTONIC."""
        await self._process.go(t0_ns)
        self._heard()

    async def counters(self) -> dict[str, int]:
        """All counters as they stand; it also shows that the head lives."""
        if self._alarm is not None:
            self._heard()
        return read_once(self._path("progress"))

    async def drain(self) -> None:
        self._process.drain()

    async def cut(self) -> None:
        self._process.cut()

    async def wait(self) -> IssueStats:
        """The process' account, once it has ended or died."""
        stats = await self._process.wait()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        return stats

    async def records(self, offset: int) -> bytes:
        """Some MiB of the records from that byte on; empty at their end."""
        path = self._path("records")
        if not path.exists():
            return b""
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(CHUNK_BYTES)

    async def end(self) -> None:
        """Leave nothing behind. A node whose head is gone keeps its records."""
        if self._issuing is not None:
            await self._issuing.end()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _process(self) -> Issuing:
        assert self._issuing is not None
        return self._issuing

    def _path(self, name: str) -> Path:
        return self._folder / name

    def _settle(self, config: IssueConfig, share: Share) -> IssueConfig:
        """Write what came from the head; the config as it holds here."""
        create(self._path("progress"))
        self._path("schedule").write_bytes(share.schedule)
        counts, tls = config.prompt_tokens, config.tls
        if share.prompt_tokens:
            self._path("prompt-tokens").write_bytes(share.prompt_tokens)
            counts = replace(counts, path=str(self._path("prompt-tokens")))
        if tls is not None and share.ca is not None:
            self._path("ca").write_bytes(share.ca)
            tls = replace(tls, ca_file=str(self._path("ca")))
        return replace(
            config,
            schedule_path=str(self._path("schedule")),
            records_path=str(self._path("records")),
            progress_path=str(self._path("progress")),
            prompt_tokens=counts,
            tls=tls,
            cut=True,
        )

    def _shortages(self, config: IssueConfig) -> list[Shortage]:
        data = self._path("schedule").read_bytes()
        return shortages(
            load(data, verify=False, cut=True).at_ns,
            read_machine(loopback=False),
            total_ns=config.total_ns,
            fresh_connections=config.fresh_connections,
        )

    def _heard(self) -> None:
        """The head lives: it has another while to let us hear of it."""
        if self._alarm is not None:
            self._alarm.cancel()
        loop = asyncio.get_running_loop()
        self._alarm = loop.call_later(SILENCE_S, self._process.drain)
