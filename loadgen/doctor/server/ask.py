"""Questions to a server: plain GETs, each bounded in time and size."""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import aiohttp

from loadgen.doctor.server.idle import watch_idle
from loadgen.doctor.server.reply import (
    METRICS,
    MODELS,
    NO_SUCH_PATH,
    SERVER_INFO,
    Looked,
    Reply,
    Trouble,
)

__all__ = ["PATHS", "Generation", "Place", "generate", "look"]

LIMIT_S = 4.0
SERVER_INFO_LIMIT_S = 15.0  # vLLM describes its whole environment first
TOTAL_S = 12.0
GENERATION_LIMIT_S = 60.0
MAX_BYTES = 1 << 20
MAX_METRICS_BYTES = 16 << 20
AT_ONCE = 4
TLS_END_S = 0.1

# Read-only everywhere: none of these starts work, changes state or loads a model.
PATHS = (
    "/health",
    "/version",
    SERVER_INFO,
    "/get_server_info",
    "/props",
    "/api/version",
    "/info",
    "/v2",
    NO_SUCH_PATH,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a server is and how it lets us in.

    Attributes:
        url: its root, without a slash at the end.
        host: for a connection of our own.
        port: the same.
        headers: sent to it alone; may hold secrets.
        context: None where the URL is no https.
        metrics_url: a whole address; None: nobody is asked for metrics.
        metrics_own: whether that address is the server's own.
        posted: paths that requests of known dialects go to.
    """

    url: str
    host: str
    port: int
    headers: Mapping[str, str]
    context: ssl.SSLContext | None = None
    metrics_url: str | None = None
    metrics_own: bool = True
    posted: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Generation:
    """One tiny request: where it goes and its body."""

    path: str
    body: bytes


async def generate(place: Place, generation: Generation) -> Reply:
    """Send one request that makes the server work, and wait for its whole answer."""
    async with _session(place, place.headers) as session:
        return await _ask(
            session,
            "POST",
            place.url + generation.path,
            generation.path,
            body=generation.body,
            limit_s=GENERATION_LIMIT_S,
            max_bytes=MAX_BYTES,
        )


async def look(place: Place) -> Looked:
    """Ask everything once; nothing is tried again and no redirect is followed.

    Takes as long as the idle connection is watched, some seconds, and at most about
    twenty where the server falls silent after the first answer.
    """
    async with _session(place, place.headers) as session:
        first = await _get(session, place, MODELS)
        if first.trouble:
            return Looked(first=first, replies={MODELS: first})
        turn = asyncio.Semaphore(AT_ONCE)
        end_s = time.monotonic() + TOTAL_S

        async def one(path: str) -> Reply:
            async with turn:
                if time.monotonic() > end_s:
                    return Reply(path=path, trouble="timeout", words="not asked")
                return await _get(session, place, path)

        idle = asyncio.create_task(
            watch_idle(place.host, place.port, place.context, _raw_get(place))
        )
        try:
            paths = [*PATHS, *dict.fromkeys(place.posted)]
            found = await asyncio.gather(*map(one, paths))
            metrics = await _metrics(session, place)
            replies = {reply.path: reply for reply in (first, *found)}
            return Looked(
                first=first,
                replies=replies,
                metrics=metrics,
                idle=await idle,
            )
        finally:
            idle.cancel()


@asynccontextmanager
async def _session(
    place: Place, headers: Mapping[str, str]
) -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(
        ssl=place.context if place.context is not None else True, limit=AT_ONCE
    )
    async with aiohttp.ClientSession(
        connector=connector,
        headers=headers,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
    ) as session:
        yield session
    if place.context is not None:  # TLS connections end a moment after their session
        await asyncio.sleep(TLS_END_S)


async def _metrics(session: aiohttp.ClientSession, place: Place) -> Reply | None:
    if place.metrics_url is None:
        return None
    async with AsyncExitStack() as stack:
        if not place.metrics_own:  # our secrets go to the server alone
            session = await stack.enter_async_context(_session(place, {}))
        return await _ask(
            session,
            "GET",
            place.metrics_url,
            METRICS,
            limit_s=LIMIT_S,
            max_bytes=MAX_METRICS_BYTES,
        )


async def _get(session: aiohttp.ClientSession, place: Place, path: str) -> Reply:
    limit_s = SERVER_INFO_LIMIT_S if path == SERVER_INFO else LIMIT_S
    url = place.url + path
    return await _ask(session, "GET", url, path, limit_s=limit_s, max_bytes=MAX_BYTES)


async def _ask(
    session: aiohttp.ClientSession,
    method: str,
    url: str,
    path: str,
    *,
    body: bytes | None = None,
    limit_s: float,
    max_bytes: int,
) -> Reply:
    asked_ns = time.time_ns()
    held, status, answered_ns = bytearray(), None, 0
    headers: tuple[tuple[str, str], ...] = ()
    trouble: Trouble = ""
    words = ""
    try:
        async with (
            asyncio.timeout(limit_s),
            session.request(method, url, data=body, allow_redirects=False) as response,
        ):
            answered_ns, status = time.time_ns(), response.status
            headers = tuple((k.lower(), v) for k, v in response.headers.items())
            async for chunk in response.content.iter_any():
                held += chunk[: max_bytes - len(held)]
                if len(held) >= max_bytes:
                    response.close()
                    break
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
        trouble, words = _trouble(error, limit_s, status)
    return Reply(
        path=path,
        status=status,
        headers=headers,
        body=bytes(held),
        trouble=trouble,
        words=words,
        asked_ns=asked_ns,
        answered_ns=answered_ns,
    )


def _trouble(
    error: Exception, limit_s: float, status: int | None
) -> tuple[Trouble, str]:
    """What kind of trouble it is, and words for it."""
    if isinstance(error, TimeoutError):
        begun = "no answer" if status is None else "the answer did not end"
        return "timeout", f"{begun} within {limit_s:g} s"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "tls", f"certificate not trusted: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
        return "tls", f"TLS failed: {error}"
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno
        why = os.strerror(number) if number else str(error.os_error)
        return "connect", f"no connection: {why}"
    return "protocol", f"no HTTP answer: {str(error) or type(error).__name__}"


def _raw_get(place: Place) -> bytes:
    """A GET for a connection of our own, which is then left idle."""
    authority = place.url.partition("://")[2]
    lines = ["GET /health HTTP/1.1", f"Host: {authority}"]
    lines += [f"{name}: {value}" for name, value in place.headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")
