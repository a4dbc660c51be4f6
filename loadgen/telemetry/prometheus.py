"""A server's /metrics, asked for on a grid of instants.

Whatever it answers, or does not, is a sample with a status; nothing here raises
for it, and nothing waits longer than one limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal, Protocol

import aiohttp

from loadgen.clock import Clock
from loadgen.telemetry.exposition import ACCEPT, NotMetricsError, Page, read_page
from loadgen.telemetry.pace import next_tick_ns
from loadgen.telemetry.samples import SampleLog, ServerSample
from loadgen.units import NS_PER_MS, NS_PER_S

__all__ = ["LIMIT_S", "PERIOD_NS", "Metrics", "ServerSampler", "status_words"]

PERIOD_NS = 500 * NS_PER_MS
LIMIT_S = 2.0
MAX_BYTES = 16 << 20
SETTLE_STEP_S = 0.15
SETTLE_LIMIT_S = 1.5
_INLINE_BYTES = 128 << 10

Phase = Literal["before", "run", "after"]

_WORDS = {
    401: "not let in (401)",
    403: "not let in (403)",
    404: "nothing there (404)",
    501: "metrics disabled (501)",
}


class Metrics:
    """One address that answers with metrics.

    Args:
        session: without cookies and proxies; nothing else goes over it.
        url: the whole address.
        number: which of the run's addresses it is.
        headers: sent with each question; may hold secrets.
        wanted: base names to keep.
        brief: those of them that are kept during the run too.
        clock: CLOCK_MONOTONIC, or a test's.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        number: int,
        headers: Mapping[str, str],
        wanted: frozenset[str],
        brief: frozenset[str],
        clock: Clock,
    ) -> None:
        self._session = session
        self._headers = {**headers, "Accept": ACCEPT}
        self._wanted = wanted
        self._brief = brief
        self._clock = clock
        self.url = url
        self.number = number

    async def scrape(self, phase: Phase) -> ServerSample:
        """Ask once; ``at_ns`` is CLOCK_MONOTONIC's own."""
        at_ns = self._clock.now_ns()
        page, status = Page(), "ok"
        wanted = self._brief if phase == "run" else self._wanted
        try:
            page = await asyncio.wait_for(self._page(wanted), LIMIT_S)
        except TimeoutError:
            status = f"no answer within {LIMIT_S:g} s"
        except NotMetricsError as error:
            status = str(error)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            status = _failure(error)
        return ServerSample(
            at_ns=at_ns,
            took_ns=self._clock.now_ns() - at_ns,
            url=self.number,
            phase=phase,
            status=status,
            points=page.points,
            names=[] if phase == "run" else sorted(page.names),
            flaws=page.flaws,
        )

    async def _page(self, wanted: frozenset[str]) -> Page:
        async with self._session.get(
            self.url, headers=self._headers, allow_redirects=False
        ) as response:
            if response.status != 200:
                raise NotMetricsError(status_words(response.status))
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > MAX_BYTES:
                    response.close()
                    raise NotMetricsError(f"longer than {MAX_BYTES >> 20} MiB")
            content_type = response.headers.get("Content-Type", "")
        if len(body) <= _INLINE_BYTES:
            return read_page(bytes(body), content_type, wanted)
        return await asyncio.to_thread(read_page, bytes(body), content_type, wanted)


def status_words(status: int) -> str:
    """Why an answer with this HTTP status holds no metrics."""
    if 300 <= status < 400:
        return f"a redirect ({status})"
    return _WORDS.get(status, f"status {status}")


def _failure(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"no connection ({error.os_error.strerror or 'refused'})"
    return f"no answer ({type(error).__name__})"


class Source(Protocol):
    """Whatever can be asked for a scrape."""

    async def scrape(self, phase: Phase) -> ServerSample: ...


class ServerSampler:
    """All addresses of a run: before t0, on the grid, and after the drain.

    Args:
        sources: the addresses.
        log: where samples go.
        clock: CLOCK_MONOTONIC, or a test's.
        sleep: waits for so many seconds.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        log: SampleLog,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._sources = sources
        self._log = log
        self._clock = clock
        self._sleep = sleep
        self._following: list[asyncio.Task[None]] = []

    async def begin(self) -> None:
        """Take the counters as they stand before t0, then follow them."""
        await asyncio.gather(*(self._settled(s, "before") for s in self._sources))
        self._following = [
            asyncio.create_task(self._follow(source)) for source in self._sources
        ]

    async def end(self) -> None:
        """Stop following and take the counters once more."""
        for task in self._following:
            task.cancel()
        await asyncio.gather(*self._following, return_exceptions=True)
        await asyncio.gather(*(self._settled(s, "after") for s in self._sources))

    async def _follow(self, source: Source) -> None:
        origin_ns = self._clock.now_ns()
        while True:
            now_ns = self._clock.now_ns()
            tick_ns = next_tick_ns(now_ns, origin_ns, PERIOD_NS)
            await self._sleep((tick_ns - now_ns) / NS_PER_S)
            self._log.add(await source.scrape("run"))

    async def _settled(self, source: Source, phase: Phase) -> None:
        """Ask until two answers are alike: counters follow the answers a step behind.

        A server that others use too never settles; the last answer stands then.
        """
        last = await source.scrape(phase)
        deadline_ns = last.at_ns + int(SETTLE_LIMIT_S * NS_PER_S)
        while last.status == "ok" and self._clock.now_ns() < deadline_ns:
            await self._sleep(SETTLE_STEP_S)
            next_one = await source.scrape(phase)
            settled = next_one.points == last.points
            if next_one.status == "ok":
                last = next_one
            if settled:
                break
        self._log.add(last)
