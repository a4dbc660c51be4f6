"""Side questions to a server: bounded in time and size, never part of the load."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import aiohttp
import msgspec

from loadgen.control.target import Target
from loadgen.wire.redact import redacted

__all__ = ["Answer", "Session", "ask", "open_session"]

LIMIT_BYTES = 8 << 20
MAX_SAID_CHARS = 200


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer, whole or cut at 8 MiB, without our secrets."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json_object(self) -> dict[str, Any]:
        """The body as a JSON object; empty when it is none."""
        try:
            value = msgspec.json.decode(self.body)
        except (msgspec.DecodeError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}


class Session:
    """Where side questions go; close it, or use it in ``async with``.

    Args:
        http: rooted at the server, with our headers.
        spelled: what none of its words may hold, from ``redact.spellings``.
    """

    def __init__(self, http: aiohttp.ClientSession, spelled: Sequence[str]) -> None:
        self.http = http
        self._spelled = spelled

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.close()

    def clean(self, words: str) -> str:
        """A server's words without our secrets."""
        return redacted(words, self._spelled)

    def said(self, error: BaseException) -> str:
        """What an error says, which may quote the server: short, without secrets."""
        return self.clean(str(error) or type(error).__name__)[:MAX_SAID_CHARS]


def open_session(
    target: Target,
    headers: dict[str, str],
    context: ssl.SSLContext | None,
    spelled: Sequence[str] = (),
) -> Session:
    """A session rooted at the target: no proxies, no cookies, no retries."""
    connector = aiohttp.TCPConnector(ssl=context if context is not None else True)
    http = aiohttp.ClientSession(
        target.url,
        connector=connector,
        headers=headers,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=True,
        trust_env=False,
    )
    return Session(http, spelled)


async def ask(
    session: Session,
    path: str,
    *,
    body: dict[str, Any] | None = None,
    limit_s: float = 10.0,
) -> Answer:
    """GET, or POST a JSON body; redirects are answers, not followed.

    Raises:
        TimeoutError: no whole answer within ``limit_s``.
        aiohttp.ClientError: the connection or the protocol failed.
    """
    method = "GET" if body is None else "POST"
    limit = aiohttp.ClientTimeout(total=limit_s)
    async with session.http.request(
        method, path, json=body, timeout=limit, allow_redirects=False
    ) as response:
        held = bytearray()
        async for chunk in response.content.iter_any():
            held += chunk
            if len(held) > LIMIT_BYTES:
                break
        headers = {
            name.lower(): session.clean(value)
            for name, value in response.headers.items()
        }
        words = session.clean(held[:LIMIT_BYTES].decode("latin-1"))
        return Answer(response.status, headers, words.encode("latin-1"))
