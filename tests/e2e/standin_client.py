"""A plain HTTP client for the stand-in's tests; it shares no code with loadgen's."""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from loadgen.standin import Standin, StandinOptions, start

FAST = StandinOptions(speed=20)
HELLO = [{"role": "user", "content": "hello there"}]
LIMIT_S = 30.0


class Answer(msgspec.Struct):
    """One whole exchange; ``closed`` tells a cut from an ended message."""

    status: int
    headers: dict[str, str]
    body: bytes
    closed: bool

    @property
    def events(self) -> list[str]:
        return [
            event.removeprefix("data: ")
            for event in self.body.decode().split("\n\n")
            if event
        ]

    @property
    def json(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.body)
        return content


class Connection:
    """One HTTP/1.1 connection, as plain as can be; one request at a time."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def to(cls, url: str) -> Connection:
        parts = urlsplit(url)
        return cls(*await asyncio.open_connection(parts.hostname, parts.port))

    def send(
        self, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> None:
        raw = b"" if body is None else _raw(body)
        head = [f"{'GET' if body is None else 'POST'} {path} HTTP/1.1", "Host: here"]
        head += [f"{name}: {value}" for name, value in (headers or {}).items()]
        head += [f"Content-Length: {len(raw)}", "", ""]
        self.writer.write("\r\n".join(head).encode() + raw)

    async def answer(self) -> Answer:
        head = await self.reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode().strip().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        headers = {name.lower(): value for name, value in headers.items()}
        body, closed = b"", False
        if headers.get("transfer-encoding") == "chunked":
            try:
                while size := int(await self.reader.readline() or b"x", 16):
                    body += (await self.reader.readexactly(size + 2))[:-2]
                await self.reader.readline()
            except (ValueError, asyncio.IncompleteReadError, ConnectionError):
                closed = True
        else:
            body = await self.reader.readexactly(int(headers.get("content-length", 0)))
        return Answer(int(first.split()[1]), headers, body, closed)

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


def _raw(body: Any) -> bytes:
    return body if isinstance(body, bytes) else json.dumps(body).encode()


class Client:
    """Requests to one stand-in, each on a connection of its own."""

    def __init__(self, standin: Standin) -> None:
        self.standin = standin

    async def ask(
        self, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Answer:
        connection = await Connection.to(self.standin.url)
        try:
            connection.send(path, body, headers)
            return await connection.answer()
        finally:
            await connection.close()

    async def chat(self, **fields: Any) -> Answer:
        body = {"messages": HELLO, "stream": True, "max_tokens": 5, **fields}
        return await self.ask("/v1/chat/completions", body)

    async def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that have these labels."""
        text = (await self.ask("/metrics")).body.decode()
        values = [
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]
        assert values, f"no sample {name} {labels}"
        return sum(values)

    async def until(self, name: str, value: float) -> None:
        """Look at a metric until it has the value."""
        for _ in range(1000):
            if await self.metric(name) == value:
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"{name} never was {value}")


Scenario = Callable[[Client], Awaitable[None]]


def served(scenario: Scenario, options: StandinOptions = FAST) -> None:
    """Run a scenario against a stand-in of its own, which must end cleanly."""

    async def main(log_path: Path) -> int:
        standin = await start(options, log_path=log_path)
        try:
            await asyncio.wait_for(scenario(Client(standin)), LIMIT_S)
        finally:
            code = await standin.stop(grace_s=LIMIT_S)
        return code

    with tempfile.TemporaryDirectory() as folder:
        log_path = Path(folder) / "log"
        code = asyncio.run(main(log_path))
        log = log_path.read_text()
    assert code == 0, log
    assert "Traceback" not in log, log
