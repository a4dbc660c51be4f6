"""A tiny server that does as a test says, and an issuing process against it.

The server shares no code with the client: raw sockets, one thread a connection.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from loadgen.issue.config import IssueConfig
from loadgen.issue.launch import Issuing, start
from loadgen.issue.stats import IssueStats
from loadgen.model import RequestRecord
from loadgen.plan.schedule import Asked, Entry, Header, seal
from loadgen.units import NS_PER_MS, NS_PER_S

WAIT_S = 10.0
LEAD_NS = 30 * NS_PER_MS


class Request(NamedTuple):
    """What the server read."""

    head: bytes
    body: bytes
    at_ns: int
    connection: int  # which connection of the server's, from 0
    number: int  # which request of that connection, from 0

    @property
    def request_id(self) -> str:
        (line,) = [
            line
            for line in self.head.split(b"\r\n")
            if line.lower().startswith(b"x-request-id:")
        ]
        return line.partition(b":")[2].strip().decode()


class Peer:
    """The server's end of one connection."""

    def __init__(self, sock: socket.socket, number: int) -> None:
        self.sock = sock
        self.number = number
        self._held = b""
        self._requests = 0

    def request(self) -> Request | None:
        """The next request; None when the client has closed."""
        while b"\r\n\r\n" not in self._held:
            if not self._more():
                return None
        head, _, self._held = self._held.partition(b"\r\n\r\n")
        length = 0
        for line in head.split(b"\r\n"):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        while len(self._held) < length:
            if not self._more():
                return None
        body, self._held = self._held[:length], self._held[length:]
        self._requests += 1
        return Request(head, body, time.monotonic_ns(), self.number, self._requests - 1)

    def _more(self) -> bool:
        data = self.sock.recv(1 << 16)
        self._held += data
        return bool(data)

    def send(self, *parts: bytes) -> None:
        for part in parts:
            self.sock.sendall(part)

    def reset(self) -> None:
        """Close with RST."""
        linger = struct.pack("ii", 1, 0)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.sock.close()


Talk = Callable[[Peer, Request], None]


@dataclass
class Server:
    """A listening server and all that it has read."""

    listener: socket.socket
    talk: Talk
    tls: ssl.SSLContext | None = None
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    stop: threading.Event = field(default_factory=threading.Event)

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.listener.getsockname()[:2]
        return host, port

    def accept(self) -> None:
        with suppress(OSError):
            while True:
                sock, _ = self.listener.accept()
                number, self.connections = self.connections, self.connections + 1
                threading.Thread(
                    target=self.serve, args=(sock, number), daemon=True
                ).start()

    def serve(self, sock: socket.socket, number: int) -> None:
        with suppress(OSError), sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.tls is not None:
                sock = self.tls.wrap_socket(sock, server_side=True)
            peer = Peer(sock, number)
            while (request := peer.request()) is not None:
                self.requests.append(request)
                self.talk(peer, request)
            sock.close()


@contextmanager
def serving(
    talk: Talk, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> Iterator[Server]:
    """A server that calls ``talk`` for each request it has read."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family, backlog=1024) as listener:
        server = Server(listener, talk, tls)
        thread = threading.Thread(target=server.accept, daemon=True)
        thread.start()
        yield server
        server.stop.set()
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(WAIT_S)


# What servers say.

STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(payload: Any) -> bytes:
    """One SSE event in one chunk."""
    text = payload if isinstance(payload, str) else json.dumps(payload)
    return chunk(f"data: {text}\n\n".encode())


def token(text: str, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return event({"id": "c-1", "model": "m", "choices": [choice]})


STREAM_END = event("[DONE]") + b"0\r\n\r\n"


def answer(peer: Peer, request: Request) -> None:
    """A short, whole stream of three tokens."""
    peer.send(STREAM_HEAD, token("a"), token("b"), token("c", "stop"), STREAM_END)


def plain(status: str, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


# The client's side.

BODY = b'{"model":"m","messages":[{"role":"user","content":"hello"}],"stream":true}'


def write_schedule(
    path: Path,
    at_ns: Sequence[int],
    body: Callable[[int], bytes] = lambda i: BODY,
) -> None:
    duration_ns = max(at_ns, default=0) + 1
    header = Header(
        api="openai-chat",
        path="/v1/chat/completions",
        model="m",
        stream=True,
        workload="test",
        seed=0,
        arrivals={"process": "given", "duration_ns": duration_ns},
        asked=Asked(rate_rps=1.0, duration_s=duration_ns / NS_PER_S),
        groups=["g"],
        created_by="test",
    )
    entries = (
        Entry(at, "g", None, 16, 7, msgspec.Raw(body(i))) for i, at in enumerate(at_ns)
    )
    with path.open("wb") as out:
        seal(header, entries, out)


def configure(folder: Path, address: tuple[str, int], **settings: Any) -> IssueConfig:
    """A config for the schedule in that folder; limits are short."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    usual: dict[str, Any] = {
        "schedule_path": str(folder / "schedule.jsonl"),
        "records_path": str(folder / "requests-0.jsonl"),
        "progress_path": None,
        "api": "openai-chat",
        "address": address,
        "family": family,
        "host_header": "test",
        "path": "/v1/chat/completions",
        "request_id_prefix": "t-",
        "connect_ns": 5 * NS_PER_S,
        "idle_ns": 5 * NS_PER_S,
        "total_ns": 10 * NS_PER_S,
        "drain_ns": 10 * NS_PER_S,
    }
    return IssueConfig(**(usual | settings))


class Told(NamedTuple):
    """What came of offering."""

    records: list[RequestRecord]
    stats: IssueStats


Steer = Callable[[Issuing], Awaitable[None]]


def read_records(path: Path) -> list[RequestRecord]:
    """All records in the order of seq; every line must be whole."""
    lines = path.read_bytes().splitlines(keepends=True)
    assert all(line.endswith(b"\n") for line in lines)
    records = [msgspec.json.decode(line, type=RequestRecord) for line in lines]
    return sorted(records, key=lambda record: record.seq)


def offer(
    folder: Path,
    address: tuple[str, int],
    at_ns: Sequence[int] = (0,),
    *,
    body: Callable[[int], bytes] = lambda i: BODY,
    steer: Steer | None = None,
    **settings: Any,
) -> Told:
    """Offer a schedule with an issuing process; ``steer`` acts while it runs."""
    write_schedule(folder / "schedule.jsonl", at_ns, body)
    config = configure(folder, address, **settings)

    async def run() -> IssueStats:
        issuing = await start(config)
        try:
            await issuing.ready()
            await issuing.go(time.monotonic_ns() + LEAD_NS)
            if steer is not None:
                await steer(issuing)
            return await issuing.wait()
        finally:
            await issuing.end()

    stats = asyncio.run(asyncio.wait_for(run(), 30))
    records = Path(config.records_path)
    return Told(read_records(records) if records.is_file() else [], stats)
