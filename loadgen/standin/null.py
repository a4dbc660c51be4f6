"""``python -m loadgen.standin.null``: a server with nothing to do, to measure us by.

It looks at nothing but a request's length, id and ``max_tokens``, answers with a
stream of words that never vary, at the asked pace, and remembers when it read each
request and wrote each token: what the client says it saw is held against that.

Out: one line of JSON when it listens, one with its own account once its input ends.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import re
import resource
import select
import socket
import sys
import time
from array import array
from collections import deque
from pathlib import Path

import msgspec

__all__ = ["NullStats", "Served", "main"]

MODEL = "null"
LATE_NS = 2_000_000
"""A token written later than this after its time counts as late."""

PRIORITY = -10

_READ_BYTES = 1 << 16
_WRITES_A_TURN = 128
_FEW_TOKENS = 16

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_ID = re.compile(rb"\r\nx-request-id: *([^\r]*)", re.IGNORECASE)
_MAX_TOKENS = re.compile(rb'"max_(?:completion_)?tokens": ?(\d+)')


class Served(msgspec.Struct, frozen=True):
    """One request as the server saw it, CLOCK_MONOTONIC ns."""

    request_id: str
    read_ns: int
    token_ns: list[int]


class NullStats(msgspec.Struct, frozen=True, kw_only=True):
    """The server's account of itself.

    Attributes:
        requests: answered.
        tokens: written.
        late: of these, more than 2 ms after their time: the server was too slow.
        busy: processor time by time, from the first request to the last write.
    """

    requests: int
    tokens: int
    late: int
    busy: float


def _chunk(event: bytes) -> bytes:
    data = b"data: " + event + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(data), data)


def _choice(delta: bytes, finish: bytes) -> bytes:
    return _chunk(
        b'{"id":"chatcmpl-null","object":"chat.completion.chunk","created":1,'
        b'"model":"null","choices":[{"index":0,"delta":{%b},"logprobs":null,'
        b'"finish_reason":%b}]}' % (delta, finish)
    )


_HEAD = (
    b"HTTP/1.1 200 OK\r\nServer: loadgen-stand-in/null\r\n"
    b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)
_TOKEN = _choice(b'"content":" word"', b"null")
_MODELS = b'{"object":"list","data":[{"id":"null","object":"model"}]}'


def _end(tokens: int) -> bytes:
    """What follows the last token: finish reason, usage, end."""
    usage = (
        b'{"id":"chatcmpl-null","object":"chat.completion.chunk","created":1,'
        b'"model":"null","choices":[],"usage":{"prompt_tokens":16,'
        b'"completion_tokens":%d,"total_tokens":%d}}' % (tokens, 16 + tokens)
    )
    finish = _choice(b"", b'"length"')
    return finish + _chunk(usage) + _chunk(b"[DONE]") + b"0\r\n\r\n"


def _whole(status: bytes, body: bytes) -> bytes:
    return (
        b"HTTP/1.1 %b\r\nServer: loadgen-stand-in/null\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
    ) % (status, len(body), body)


class _Peer:
    """One connection, and the stream on it, if any."""

    __slots__ = ("held", "left", "request_id", "send", "sock", "stamps", "unsent")

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.send = sock.send
        self.held = b""
        self.unsent = b""
        self.left = 0
        self.request_id = b""
        self.stamps = array("q")


class _Server:
    """One thread, one epoll, two queues.

    All first tokens wait equally long, and all others too, so that each of the two
    queues is in the order of time by itself.
    """

    def __init__(
        self, listener: socket.socket, ttft_ns: int, itl_ns: int, *, log: bool
    ) -> None:
        self._listener = listener
        self._ttft_ns = ttft_ns
        self._itl_ns = itl_ns
        self._log = log
        self._epoll = select.epoll()
        self._epoll.register(listener.fileno(), select.EPOLLIN)
        self._epoll.register(0, select.EPOLLIN)
        self._peers: dict[int, _Peer] = {}
        self._first: deque[tuple[int, _Peer]] = deque()
        self._next: deque[tuple[int, _Peer]] = deque()
        self._began: tuple[int, float] | None = None
        self._ended = (0, 0.0)
        self._requests = self._tokens = self._late = 0
        self.served: list[tuple[bytes, array[int]]] = []

    def run(self) -> None:
        """Serve until the input ends."""
        poll, waiting = self._epoll.poll, [self._epoll.fileno()]
        while True:
            wait_s = self._write_due()
            if wait_s != 0:
                select.select(waiting, (), (), wait_s)  # epoll itself waits whole ms
            for fd, _ in poll(0, 64):
                if fd == 0:
                    if not os.read(0, 4096):
                        return
                elif fd == self._listener.fileno():
                    self._accept()
                else:
                    self._read(self._peers[fd])

    def stats(self) -> NullStats:
        began_ns, began_cpu_s = self._began or self._ended
        ended_ns, ended_cpu_s = self._ended
        wall_s = max(1, ended_ns - began_ns) / 1e9
        return NullStats(
            requests=self._requests,
            tokens=self._tokens,
            late=self._late,
            busy=round((ended_cpu_s - began_cpu_s) / wall_s, 3),
        )

    def _write_due(self) -> float | None:
        """Write what is due; gives the seconds to the next, None without any."""
        for _ in range(_WRITES_A_TURN):
            queue = self._sooner()
            if not queue:
                return None
            wait_ns = queue[0][0] - time.monotonic_ns()
            if wait_ns > 0:
                return wait_ns / 1e9
            self._write(*queue.popleft())
        return 0.0

    def _sooner(self) -> deque[tuple[int, _Peer]]:
        """The queue whose head is due first: so what is queued anew is in order."""
        first, following = self._first, self._next
        if not first or (following and following[0][0] < first[0][0]):
            return following
        return first

    def _write(self, due_ns: int, peer: _Peer) -> None:
        """The next token of a stream; after the last one, its end."""
        if peer.left > 0:
            now_ns = time.monotonic_ns()
            peer.stamps.append(now_ns)
            self._tokens += 1
            self._late += now_ns - due_ns > LATE_NS
            peer.left -= 1
            data = _TOKEN
        else:
            tokens = len(peer.stamps) - 1
            data = b"" if peer.left < 0 else _end(tokens)
            peer.left = -1
        self._send(peer, data)
        if peer.left >= 0 or peer.unsent:
            self._next.append((due_ns + self._itl_ns, peer))
        else:
            self._finish(peer)

    def _send(self, peer: _Peer, data: bytes) -> None:
        if peer.unsent:
            data = peer.unsent + data
        try:
            sent = peer.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:  # gone: nobody is left to write to
            sent, peer.left = len(data), -1
        peer.unsent = b"" if sent == len(data) else data[sent:]

    def _finish(self, peer: _Peer) -> None:
        self._requests += 1
        self._ended = time.monotonic_ns(), _cpu_s()
        if self._log:
            self.served.append((peer.request_id, peer.stamps))
        peer.stamps = array("q")

    def _accept(self) -> None:
        try:
            while True:
                sock, _ = self._listener.accept()
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._peers[sock.fileno()] = _Peer(sock)
                self._epoll.register(sock.fileno(), select.EPOLLIN)
        except BlockingIOError:
            pass

    def _read(self, peer: _Peer) -> None:
        try:
            data = peer.sock.recv(_READ_BYTES)
        except OSError:
            data = b""
        if not data:
            del self._peers[peer.sock.fileno()]
            self._epoll.unregister(peer.sock.fileno())
            peer.sock.close()
            return
        if peer.held:
            data = peer.held + data
        head, found, body = data.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not found or (length is not None and len(body) < int(length[1])):
            peer.held = data
            return
        peer.held = b""
        self._answer(peer, head, body)

    def _answer(self, peer: _Peer, head: bytes, body: bytes) -> None:
        now_ns = time.monotonic_ns()
        if self._began is None:
            self._began = now_ns, _cpu_s()
        if head.startswith(b"GET /v1/models"):
            self._send(peer, _whole(b"200 OK", _MODELS))
            return
        if not head.startswith(b"POST /v1/chat/completions"):
            self._send(peer, _whole(b"404 Not Found", b"{}"))
            return
        asked, request_id = _MAX_TOKENS.search(body), _ID.search(head)
        tokens = int(asked[1]) if asked else _FEW_TOKENS
        peer.request_id = request_id[1] if request_id else b""
        peer.stamps = array("q", [now_ns])
        if self._ttft_ns or self._itl_ns:
            peer.left = tokens
            self._send(peer, _HEAD)
            self._first.append((now_ns + self._ttft_ns, peer))
            return
        peer.stamps.extend([time.monotonic_ns()] * tokens)
        self._tokens += tokens
        self._send(peer, _HEAD + _TOKEN * tokens + _end(tokens))
        peer.left = -1
        if peer.unsent:
            self._next.append((now_ns, peer))
        else:
            self._finish(peer)


def _ask_for_priority() -> None:
    """As much as the issuing process asks for: it is not to be the late one."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
        Path("/proc/self/autogroup").write_text(str(PRIORITY))


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Serve on a free port of loopback until standard input ends."""
    parser = argparse.ArgumentParser(prog="python -m loadgen.standin.null")
    parser.add_argument("--ttft-us", type=int, default=0)
    parser.add_argument("--itl-us", type=int, default=0)
    parser.add_argument("--log", type=Path, help="where what was served is written")
    asked = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with socket.create_server(("127.0.0.1", 0), backlog=4096) as listener:
        listener.setblocking(False)
        log = asked.log is not None
        server = _Server(listener, asked.ttft_us * 1000, asked.itl_us * 1000, log=log)
        port = listener.getsockname()[1]
        _say({"url": f"http://127.0.0.1:{port}", "pid": os.getpid(), "model": MODEL})
        gc.disable()
        _ask_for_priority()
        server.run()
    if asked.log is not None:
        encode = msgspec.json.Encoder().encode
        with asked.log.open("wb") as out:
            for request_id, stamps in server.served:
                read_ns, *token_ns = stamps
                served = Served(request_id.decode("latin-1"), read_ns, token_ns)
                out.write(encode(served) + b"\n")
    _say(server.stats())
    return 0


def _say(what: object) -> None:
    os.write(1, msgspec.json.encode(what) + b"\n")


if __name__ == "__main__":
    sys.exit(main())
