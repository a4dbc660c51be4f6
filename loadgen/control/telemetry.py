"""Which samplers a run has, and when they begin and end."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp

from loadgen.analysis.timeline_client import steal_share
from loadgen.clock import Clock, MonotonicClock
from loadgen.control.target import Target
from loadgen.errors import UsageError, naming
from loadgen.telemetry.client import ClientReader
from loadgen.telemetry.gpu import GpuSampler
from loadgen.telemetry.nvml import import_pynvml
from loadgen.telemetry.prometheus import Metrics, ServerSampler
from loadgen.telemetry.samples import ClientSample, SampleLog, ServerSample, Watched
from loadgen.telemetry.vocabulary import Selector, Vocabulary, base_name
from loadgen.units import NS_PER_MS

__all__ = ["Telemetry", "Watch", "WhatToWatch", "open_telemetry", "parse_watch"]

NONE = "none"
CLIENT_PERIOD_NS = 400 * NS_PER_MS  # of the issuers' ticks, every second one


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatToWatch:
    """What was asked for.

    Args:
        metrics_urls: whole addresses; empty: the target's own /metrics, if it
            answers with known series.
        metrics: whether any server is asked at all.
        series: further series to keep, by name.
        gpu: ``on``, ``off``, or ``auto``: on where the server is on this machine.
    """

    metrics_urls: Sequence[str] = ()
    metrics: bool = True
    series: Sequence[str] = ()
    gpu: str = "auto"


def parse_watch(urls: Sequence[str], series: Sequence[str], gpu: str) -> WhatToWatch:
    """Read ``--metrics-url`` (addresses, or ``none``), ``--series`` and ``--gpu``.

    Raises:
        UsageError: no http address, credentials in it, ``none`` beside others, or
            no name of a series.
    """
    if gpu not in ("auto", "on", "off"):
        raise UsageError(f"--gpu {gpu!r} is neither auto, on nor off")
    with naming("--series"):
        for name in series:
            Selector.parse(name)
    if NONE in urls:
        if len(urls) > 1:
            raise UsageError("--metrics-url none and an address exclude each other")
        return WhatToWatch(metrics=False, series=tuple(series), gpu=gpu)
    for url in urls:
        _check_address(url)
    return WhatToWatch(metrics_urls=tuple(urls), series=tuple(series), gpu=gpu)


def _check_address(url: str) -> None:
    """Raises a UsageError that repeats no password."""
    if "@" in url.partition("://")[2].partition("/")[0]:
        raise UsageError("--metrics-url must not hold a user or password")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname
        _ = parts.port
    except ValueError:
        usable = False
    if not usable:
        raise UsageError(
            f"--metrics-url {url!r} is no address",
            "write http://HOST:PORT/metrics, or none",
        )


class Watch:
    """The samplers while they are at work.

    Args:
        log: where samples go.
    """

    def __init__(self, log: SampleLog, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._client: ClientReader | None = None
        self._first: ClientSample | None = None
        self._last: ClientSample | None = None

    def started(self, t0_ns: int, pids: Sequence[int]) -> None:
        """Offering begins: t0 on CLOCK_MONOTONIC, and who offers."""
        self._log.begin(t0_ns)
        self._client = ClientReader(pids)
        self.tick({})

    def tick(self, counters: Mapping[str, int]) -> None:
        """Look at the issuers: their shared counters, and what the kernel tells."""
        if self._client is None:
            return
        now_ns = self._clock.now_ns()
        if self._last is not None and now_ns - self._last.at_ns < CLIENT_PERIOD_NS:
            return
        self._last = self._client.sample(now_ns, counters)
        self._first = self._first or self._last
        self._log.add(self._last)

    @property
    def steal_share(self) -> float | None:
        """Of the processors' time since t0, what the hypervisor took."""
        if self._first is None or self._last is None:
            return None
        return steal_share(self._first, self._last)


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """The samplers of one run, found and ready.

    Args:
        sources: addresses that answer with metrics.
        watched: for the manifest.
        clock: CLOCK_MONOTONIC.
    """

    sources: Sequence[Metrics]
    watched: Watched
    clock: Clock

    @asynccontextmanager
    async def watching(self, path: Path) -> AsyncIterator[Watch]:
        """Sample into ``path`` from before t0 until after the drain."""
        log = SampleLog(path)
        server = ServerSampler(self.sources, log, self.clock)
        gpu = None
        if self.watched.gpu == "on":
            gpu = GpuSampler(import_pynvml, os.environ, log, self.clock)
        try:
            begun = [] if gpu is None else [asyncio.to_thread(gpu.begin)]
            await asyncio.gather(server.begin(), *begun)
            yield Watch(log, self.clock)
        finally:
            ended = [] if gpu is None else [asyncio.to_thread(gpu.end)]
            await asyncio.gather(server.end(), *ended)
            log.close()


async def open_telemetry(
    stack: AsyncExitStack,
    want: WhatToWatch,
    target: Target,
    *,
    host: str,
    headers: Mapping[str, str],
    context: ssl.SSLContext | None,
    vocabulary: Vocabulary,
) -> Telemetry:
    """Find out what can be watched.

    Args:
        stack: closes what is opened here.
        want: what was asked for.
        target: the server under load.
        host: the target's address, resolved.
        headers: the run's own; sent to the target alone, never elsewhere.
        context: for TLS.
        vocabulary: whose series are kept.
    """
    clock = MonotonicClock()
    asked = {Selector.parse(name).name for name in want.series}
    watched = Watched(series=list(want.series), gpu=gpu_status(want.gpu, host))
    if not want.metrics:
        return Telemetry(sources=(), watched=watched, clock=clock)
    connector = aiohttp.TCPConnector(ssl=context if context is not None else True)
    session = await stack.enter_async_context(
        aiohttp.ClientSession(
            connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False
        )
    )
    own = f"{target.url}/metrics"
    sources = [
        Metrics(
            session,
            url,
            number,
            headers if is_same_origin(url, target) else {},
            vocabulary.known | asked,
            vocabulary.brief | asked,
            clock,
        )
        for number, url in enumerate(want.metrics_urls or [own])
    ]
    if want.metrics_urls:
        watched.metrics = [_shown(url) for url in want.metrics_urls]
        return Telemetry(sources=sources, watched=watched, clock=clock)
    note = _why_not(await sources[0].scrape("before"), vocabulary, want.series)
    if note:
        watched.metrics_note = f"{own}: {note}"
        return Telemetry(sources=(), watched=watched, clock=clock)
    watched.metrics = [own]
    return Telemetry(sources=sources, watched=watched, clock=clock)


def _why_not(first: ServerSample, vocabulary: Vocabulary, asked: Sequence[str]) -> str:
    """Why the target's own /metrics is of no use; empty where it is of use."""
    if first.status != "ok":
        return first.status
    names = {base_name(name) for name in asked}
    if vocabulary.recognise(first.names) or names & set(first.names):
        return ""
    return "no known series"


def gpu_status(asked: str, host: str) -> str:
    """``on``, or why no GPU is looked at."""
    if asked != "auto":
        return asked
    return "on" if _is_here(host) else "the server is on another machine"


def _is_here(host: str) -> bool:
    """Whether an address is one of this machine's own."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((host, 0))
    except OSError:
        return False
    return True


def is_same_origin(url: str, target: Target) -> bool:
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    return (parts.scheme, parts.hostname, port) == (
        target.scheme,
        target.host,
        target.port,
    )


def _shown(url: str) -> str:
    """An address without its query, which may hold a token."""
    return urlsplit(url)._replace(query="", fragment="").geturl()
