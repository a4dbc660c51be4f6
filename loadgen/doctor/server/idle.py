"""How long a server keeps an idle connection open: one is left idle and watched."""

from __future__ import annotations

import asyncio
import ssl
import time

from loadgen.doctor.server.reply import Idle
from loadgen.units import NS_PER_S

__all__ = ["watch_idle"]

ANSWER_S = 4.0
WATCHED_S = 6.0
"""A little longer than the 5 s after which uvicorn closes."""


async def watch_idle(
    host: str, port: int, context: ssl.SSLContext | None, request: bytes
) -> Idle:
    """Ask once over a connection of our own, then wait for the server to close it."""
    try:
        async with asyncio.timeout(ANSWER_S):
            reader, writer = await asyncio.open_connection(
                host,
                port,
                ssl=context,
                server_hostname=host if context is not None else None,
            )
    except (OSError, TimeoutError, ValueError):
        return Idle(answered=False)
    try:
        writer.write(request)
        return await _watch(reader)
    except (OSError, ValueError):
        return Idle(answered=False)
    finally:
        writer.transport.abort()


async def _watch(reader: asyncio.StreamReader) -> Idle:
    last_ns: int | None = None
    loop = asyncio.get_running_loop()
    until = loop.time() + ANSWER_S
    end = until + WATCHED_S
    try:
        while True:
            async with asyncio.timeout_at(min(until, end)):
                data = await reader.read(65_536)
            if not data:
                if last_ns is None:
                    return Idle(answered=False)
                return Idle(True, (time.monotonic_ns() - last_ns) / NS_PER_S)
            last_ns = time.monotonic_ns()
            until = loop.time() + WATCHED_S
    except TimeoutError:
        return Idle(answered=last_ns is not None, watched_s=WATCHED_S)
