"""Issuing processes on the machines of a Ray cluster: ``--engine ray``.

Ray carries a few calls before and after the run and a look at the counters during
it. It has no part in the sending: every node has its share on its own disk and
keeps its own clock, whose offset to ours is bracketed before and after.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import os
import platform
import socket
import sys
import threading
import time
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import ExitStack
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, TextIO, cast

from loadgen import __version__
from loadgen.errors import UsageError
from loadgen.issue.config import IssueConfig
from loadgen.issue.engine import HostClock
from loadgen.issue.launch import IssuingError, Ready, posthumous, which_process
from loadgen.issue.node import SILENCE_S, About, Node, Share
from loadgen.issue.progress import NAMES, SLOT, ProgressWriter
from loadgen.issue.stats import IssueStats
from loadgen.plan.cut import cut
from loadgen.plan.schedule import load
from loadgen.units import NS_PER_MS, NS_PER_S

__all__ = ["RayEngine", "RayIssuing"]

BRACKETS = 20
AT_ONCE = 8
"""So many nodes are bracketed, served or emptied at a time: it bounds the head's
memory, and keeps the brackets narrow."""

END_S = 5.0
KNOCK_S = 5.0


class RayIssuing:
    """A handle on one node.

    Args:
        node: a Ray actor of ``node.Node``, or what behaves as one.
        config: as for a process of this machine.
        share: where the node's stripe lies.
        gate: shared by all nodes, bounds what goes on at a time.
        lost: what a call to a lost node raises.
        tick_s: how often its counters are asked for.
    """

    pid = None

    def __init__(
        self,
        node: Any,
        config: IssueConfig,
        share: Path,
        gate: asyncio.Semaphore,
        lost: type[Exception],
        tick_s: float,
    ) -> None:
        self._node = node
        self._config = config
        self._share = share
        self._gate = gate
        self._lost = lost
        self._tick_s = tick_s
        self._host = ""
        self._t0_ns = 0
        self._watching: asyncio.Task[None] | None = None
        self.clock: HostClock | None = None

    async def ready(self) -> Ready:
        """Look at the node, read its clock, hand it its share.

        Raises:
            UsageError: it cannot begin, with its reason.
            IssuingError: it was lost.
        """
        try:
            about = await self._node.about.remote()
            self._host = about.host
            self._check(about)
            async with self._gate:
                offset_ns, error_ns = await self._bracket()
                share = await asyncio.to_thread(self._read_share)
                said = await self._node.prepare.remote(self._config, share)
        except self._lost as error:
            raise IssuingError(f"{self._name} was lost: {_first(error)}") from error
        if not said.ready:
            raise UsageError(f"{self._name}: {said.error}")
        self.clock = HostClock(
            host=self._host,
            process=self._config.stripe[0],
            offset_ns=offset_ns,
            error_ns=error_ns,
        )
        return said  # type: ignore[no-any-return]

    async def go(self, t0_ns: int) -> None:
        assert self.clock is not None
        self._t0_ns = t0_ns
        with contextlib.suppress(self._lost):  # wait() will say so
            await self._node.go.remote(t0_ns + self.clock.offset_ns)
        self._watching = asyncio.create_task(self._mirror())

    def drain(self) -> None:
        self._node.drain.remote()

    def cut(self) -> None:
        self._node.cut.remote()

    async def wait(self) -> IssueStats:
        """Its account, once its records are here; of a lost node what was last seen."""
        try:
            stats: IssueStats = await self._node.wait.remote()
            async with self._gate:
                await self._read_clock_again()
                await self._fetch_records()
            self._look_away()
            self._keep(await self._node.counters.remote())
        except self._lost as error:
            self._look_away()
            self._assume_the_worst()
            return posthumous(self._config, f"{self._name} was lost: {_first(error)}")
        return stats

    async def end(self) -> None:
        """Let it clear up, if it can hear us."""
        self._look_away()
        self._share.unlink(missing_ok=True)
        with contextlib.suppress(self._lost, TimeoutError):
            await asyncio.wait_for(self._node.end.remote(), END_S)

    @property
    def _name(self) -> str:
        where = f" on {self._host}" if self._host else ""
        return which_process(self._config.stripe) + where

    def _check(self, about: About) -> None:
        if about.loadgen != __version__:
            raise UsageError(
                f"{about.host} has loadgen {about.loadgen}, here it is {__version__}",
                "install the same version on every node",
            )
        host = self._config.address[0]
        if ipaddress.ip_address(host).is_loopback and about.host != platform.node():
            raise UsageError(
                f"{host} is not this machine for {about.host}",
                "give an address that every node can reach",
            )

    async def _bracket(self) -> tuple[int, int]:
        """The node's clock minus ours, and how far off that may be, ns."""
        narrowest, offset_ns = NS_PER_S * 3600, 0
        for _ in range(BRACKETS):
            before_ns = time.monotonic_ns()
            theirs_ns = await self._node.clock.remote()
            after_ns = time.monotonic_ns()
            if after_ns - before_ns < narrowest:
                narrowest = after_ns - before_ns
                offset_ns = theirs_ns - (before_ns + after_ns) // 2
        return offset_ns, narrowest // 2 + 1

    async def _read_clock_again(self) -> None:
        assert self.clock is not None
        offset_ns, error_ns = await self._bracket()
        self.clock = HostClock(
            host=self.clock.host,
            process=self.clock.process,
            offset_ns=self.clock.offset_ns,
            error_ns=self.clock.error_ns,
            after_offset_ns=offset_ns,
            after_error_ns=error_ns,
        )

    def _read_share(self) -> Share:
        """Read what the node needs; its cut stripe is not needed here any more."""
        config, schedule = self._config, self._share.read_bytes()
        self._share.unlink()
        counts, lengths = config.prompt_tokens.path, array("i")
        if counts is not None:
            lengths.frombytes(Path(counts).read_bytes())
            part, parts = config.stripe
            lengths = lengths[part::parts]
        ca_file = None if config.tls is None else config.tls.ca_file
        ca = None if ca_file is None else Path(ca_file).read_bytes()
        return Share(schedule, lengths.tobytes(), ca)

    async def _fetch_records(self) -> None:
        offset = 0
        with open(self._config.records_path, "wb") as out:  # noqa: ASYNC230 - local
            while chunk := await self._node.records.remote(offset):
                out.write(chunk)
                offset += len(chunk)

    async def _mirror(self) -> None:
        """Keep a copy of the node's counters where a local process has its own."""
        with contextlib.suppress(self._lost):
            while True:
                self._keep(await self._node.counters.remote())
                await asyncio.sleep(self._tick_s)

    def _look_away(self) -> None:
        if self._watching is not None:
            self._watching.cancel()

    def _keep(self, counters: dict[str, int]) -> None:
        writer = ProgressWriter(self._config.progress_path)
        for name in NAMES:
            writer.slots[SLOT[name]] = counters[name]
        if counters["t0_ns"]:
            writer.slots[SLOT["t0_ns"]] = self._t0_ns
        writer.close()

    def _assume_the_worst(self) -> None:
        """Whatever it may have offered before it fell silent counts as taken up."""
        with open(self._config.schedule_path, "rb") as file:
            data = mmap(file.fileno(), 0, access=ACCESS_READ)
        due_ns = load(data, verify=False, stripe=self._config.stripe).at_ns
        until_ns = time.monotonic_ns() - self._t0_ns + int((SILENCE_S + 2) * NS_PER_S)
        writer = ProgressWriter(self._config.progress_path)
        writer.slots[SLOT["scheduled"]] = len(due_ns)
        writer.slots[SLOT["due"]] = bisect_right(due_ns, until_ns)
        writer.slots[SLOT["in_flight"]] = 0
        writer.close()


def _first(error: Exception) -> str:
    """The line that says what it was, of what may be a page."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[-1] if lines[0].startswith("ray::") else lines[0]


class RayEngine:
    """Actors of a Ray cluster, one an issuing process, spread over its nodes.

    Args:
        address: the head's HOST:PORT; ``auto`` takes RAY_ADDRESS, or finds the one
            of this machine.

    Raises:
        UsageError: Ray is not installed.
    """

    def __init__(self, address: str) -> None:
        try:
            import ray
        except ImportError:
            raise UsageError(
                "--engine ray needs the package ray", "pip install 'loadgen[ray]'"
            ) from None
        self._ray: Any = ray
        self._address = address
        if address == "auto":
            self._address = os.environ.get("RAY_ADDRESS") or "auto"
        self.lead_ns = NS_PER_S
        self.tick_s = 0.25
        self.remote = True

    async def start(self, configs: Sequence[IssueConfig]) -> Sequence[RayIssuing]:
        """Place an actor for each."""
        ray, count = self._ray, len(configs)
        self.lead_ns = NS_PER_S + count * 2 * NS_PER_MS
        self.tick_s = max(0.25, count / 500)
        shares = await asyncio.to_thread(_cut, configs)
        make = ray.remote(Node).options(num_cpus=1, scheduling_strategy="SPREAD")
        gate, lost = asyncio.Semaphore(AT_ONCE), ray.exceptions.RayError
        return [
            RayIssuing(make.remote(), config, share, gate, lost, self.tick_s)
            for config, share in zip(configs, shares, strict=True)
        ]

    def check(self, processes: int) -> None:
        """Join the cluster.

        Raises:
            UsageError: there is none, or it is too small.
        """
        ray = self._ray
        if not ray.is_initialized():
            sys.stdout = cast("TextIO", _OursAlone(sys.stdout, sys.stderr))
            try:
                _knock(self._address)
                ray.init(
                    address=self._address,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    namespace="loadgen",
                )
            except (OSError, ValueError, RuntimeError) as error:
                raise UsageError(
                    f"no Ray cluster at {self._address}: {_first(error)}",
                    "start one with ray start --head, or name it by --ray-address",
                ) from None
        free = int(ray.available_resources().get("CPU", 0))
        if free < processes:
            raise UsageError(
                f"the Ray cluster has {free} free processors, {processes} are needed",
                "lower --processes, or add nodes",
            )


def _knock(address: str) -> None:
    """Where nobody listens, Ray would try for minutes.

    Raises:
        OSError: nobody does.
        ValueError: not HOST:PORT.
    """
    if address != "auto":
        host, _, port = address.rpartition(":")
        socket.create_connection((host.strip("[]"), int(port)), KNOCK_S).close()


class _OursAlone:
    """Standard output without what Ray's threads say there of nodes they lose.

    Results are written by the main thread; what comes from others goes aside.
    """

    def __init__(self, out: TextIO, aside: TextIO) -> None:
        self._out = out
        self._aside = aside

    def write(self, text: str) -> int:
        ours = threading.current_thread() is threading.main_thread()
        return (self._out if ours else self._aside).write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._out, name)


def _cut(configs: Sequence[IssueConfig]) -> list[Path]:
    """Deal the schedule out to files that their readers remove."""
    path = Path(configs[0].schedule_path)
    shares = [path.with_name(f"share-{i}.jsonl") for i in range(len(configs))]
    with path.open("rb") as schedule, ExitStack() as stack:
        cut(schedule, [stack.enter_context(share.open("wb")) for share in shares])
    return shares
