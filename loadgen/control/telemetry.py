"""Which samplers a run has, and when they begin and end."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp

from loadgen.clock import Clock, MonotonicClock
from loadgen.control.target import Target
from loadgen.errors import UsageError, naming
from loadgen.telemetry.prometheus import Metrics, ServerSampler
from loadgen.telemetry.samples import SampleLog, ServerSample, Watched
from loadgen.telemetry.vocabulary import Selector, Vocabulary, base_name

__all__ = ["Telemetry", "Watch", "WhatToWatch", "open_telemetry", "parse_watch"]

NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatToWatch:
    """What was asked for.

    Args:
        metrics_urls: whole addresses; empty: the target's own /metrics, if it
            answers with known series.
        metrics: whether any server is asked at all.
        series: further series to keep, by name.
    """

    metrics_urls: Sequence[str] = ()
    metrics: bool = True
    series: Sequence[str] = ()


def parse_watch(urls: Sequence[str], series: Sequence[str]) -> WhatToWatch:
    """Read ``--metrics-url`` (addresses, or ``none``) and ``--series``.

    Raises:
        UsageError: no http address, credentials in it, ``none`` beside others, or
            no name of a series.
    """
    with naming("--series"):
        for name in series:
            Selector.parse(name)
    if NONE in urls:
        if len(urls) > 1:
            raise UsageError("--metrics-url none and an address exclude each other")
        return WhatToWatch(metrics=False, series=tuple(series))
    for url in urls:
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
        if parts.username is not None or parts.password is not None:
            raise UsageError("--metrics-url must not hold a user or password")
    return WhatToWatch(metrics_urls=tuple(urls), series=tuple(series))


class Watch:
    """The samplers while they are at work.

    Args:
        log: where samples go.
    """

    def __init__(self, log: SampleLog) -> None:
        self._log = log

    def started(self, t0_ns: int, pids: Sequence[int]) -> None:
        """Offering begins: t0 on CLOCK_MONOTONIC, and who offers."""
        self._log.begin(t0_ns)


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
        try:
            await server.begin()
            yield Watch(log)
        finally:
            await server.end()
            log.close()


async def open_telemetry(
    stack: AsyncExitStack,
    want: WhatToWatch,
    target: Target,
    *,
    headers: Mapping[str, str],
    context: ssl.SSLContext | None,
    vocabulary: Vocabulary,
) -> Telemetry:
    """Find out what can be watched.

    Args:
        stack: closes what is opened here.
        want: what was asked for.
        target: the server under load.
        headers: the run's own; sent to the target alone, never elsewhere.
        context: for TLS.
        vocabulary: whose series are kept.
    """
    clock = MonotonicClock()
    asked = {Selector.parse(name).name for name in want.series}
    if not want.metrics:
        return Telemetry(sources=(), watched=Watched(), clock=clock)
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
            headers if _same_origin(url, target) else {},
            vocabulary.known | asked,
            vocabulary.brief | asked,
            clock,
        )
        for number, url in enumerate(want.metrics_urls or [own])
    ]
    if want.metrics_urls:
        urls = [_shown(url) for url in want.metrics_urls]
        watched = Watched(metrics=urls, metrics_note="", series=list(want.series))
        return Telemetry(sources=sources, watched=watched, clock=clock)
    note = _why_not(await sources[0].scrape("before"), vocabulary, want.series)
    if note:
        watched = Watched(metrics_note=f"{own}: {note}", series=list(want.series))
        return Telemetry(sources=(), watched=watched, clock=clock)
    watched = Watched(metrics=[own], metrics_note="", series=list(want.series))
    return Telemetry(sources=sources, watched=watched, clock=clock)


def _why_not(first: ServerSample, vocabulary: Vocabulary, asked: Sequence[str]) -> str:
    """Why the target's own /metrics is of no use; empty where it is of use."""
    if first.status != "ok":
        return first.status
    names = {base_name(name) for name in asked}
    if vocabulary.recognise(first.names) or names & set(first.names):
        return ""
    return "no known series"


def _same_origin(url: str, target: Target) -> bool:
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
