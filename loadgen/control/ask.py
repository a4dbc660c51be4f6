"""Side questions to a server: bounded in time and size, never part of the load."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec

from loadgen.control.target import Target

__all__ = ["Answer", "ask", "open_session"]

LIMIT_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer, whole or cut at 8 MiB."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json_object(self) -> dict[str, Any]:
        """The body as a JSON object; empty when it is none."""
        try:
            value = msgspec.json.decode(self.body)
        except msgspec.DecodeError:
            return {}
        return value if isinstance(value, dict) else {}


def open_session(
    target: Target, headers: dict[str, str], context: ssl.SSLContext | None
) -> aiohttp.ClientSession:
    """A client session rooted at the target: no proxies, no cookies, no retries."""
    connector = aiohttp.TCPConnector(ssl=context if context is not None else True)
    return aiohttp.ClientSession(
        target.url,
        connector=connector,
        headers=headers,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=True,
        trust_env=False,
    )


async def ask(
    session: aiohttp.ClientSession,
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
    async with session.request(
        method, path, json=body, timeout=limit, allow_redirects=False
    ) as response:
        held = bytearray()
        async for chunk in response.content.iter_any():
            held += chunk
            if len(held) > LIMIT_BYTES:
                break
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status, headers, bytes(held[:LIMIT_BYTES]))
