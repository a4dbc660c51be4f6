"""Servers for doctor to look at: sound, odd and hostile ones, over loopback."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextmanager
def serving(handler: Handler, context: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serve connections by a handler, in a thread of its own; gives ``host:port``."""
    loop = asyncio.new_event_loop()
    tasks: set[asyncio.Task[None]] = set()

    async def guarded(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            with suppress(ConnectionError, EOFError, ssl.SSLError):
                await handler(reader, writer)
        except asyncio.CancelledError:
            pass
        finally:
            tasks.discard(task)
            writer.transport.abort()

    server = loop.run_until_complete(
        asyncio.start_server(guarded, "127.0.0.1", 0, ssl=context)
    )
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def end() -> None:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)

    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        asyncio.run_coroutine_threadsafe(end(), loop).result(5)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        loop.close()


class Site:
    """A server of fixed answers that closes after each; keeps what it was asked.

    Args:
        pages: by path without a query; anything else is 404.
        key: what an Authorization header must hold; None: nothing.
    """

    def __init__(self, pages: Mapping[str, Any], key: str | None = None) -> None:
        self._pages = pages
        self._key = key
        self.asked: list[tuple[str, str]] = []
        self.heads: list[str] = []

    async def __call__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, target, _ = head.split("\r\n")[0].split(" ")
        path = target.partition("?")[0]
        self.heads.append(head)
        self.asked.append((method, path))
        if self._key is not None and self._key not in head:
            writer.write(answer({"error": "Unauthorized"}, 401))
        elif path in self._pages:
            writer.write(answer(self._pages[path]))
        else:
            writer.write(answer({"detail": "Not Found"}, 404))
        await writer.drain()
        writer.close()
        await writer.wait_closed()


def answer(body: Any, status: int = 200, **headers: str) -> bytes:
    """A whole answer after which the connection closes."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} Text", f"Content-Length: {len(raw)}"]
    lines += ["Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + raw


MODELS = {"object": "list", "data": [{"id": "m", "owned_by": "vllm"}]}
CHAT = {
    "choices": [{"message": {"content": "Hi"}, "finish_reason": "length"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1},
}
