"""HTTP/1.1 as one attempt needs it: a head to send, one response to take apart.

Sans-I/O. The response's payload goes straight to a ``Sink``; what the message
itself says (whole or cut, may the connection be used again) stays here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from httptools import (
    HttpParserCallbackError,
    HttpParserError,
    HttpParserUpgrade,
    HttpResponseParser,
)

from loadgen.errors import UsageError
from loadgen.model import Ending

__all__ = ["MAX_HEAD_BYTES", "RequestHead", "Response", "Sink"]

MAX_HEAD_BYTES = 256 * 1024
"""A response head (or its trailers) larger than this is refused, by name."""

_FORBIDDEN = frozenset(b"\r\n\0")

_SHORT_BYTES = 2048


def _chunk_head(length: int) -> tuple[bytes, int]:
    """How that many bytes begin if they are one whole chunk, and its size.

    Size -1: they are none. With leading zeros or an extension they may be one all the
    same, but not one to be told by this.
    """
    for digits in range(1, 5):
        size = length - digits - 4
        head = b"%x\r\n" % max(0, size)
        if size > 0 and len(head) == digits + 2:
            return head, size
    return b"", -1


_CHUNK_HEADS = tuple(map(_chunk_head, range(_SHORT_BYTES)))


def whole_chunk(data: bytes) -> bytes | None:
    """The payload where ``data`` is one chunk and no more; None: not surely."""
    if len(data) >= _SHORT_BYTES:
        return None
    head, size = _CHUNK_HEADS[len(data)]
    # Quicker than to ask how it begins and ends, and then to cut.
    payload = data.removeprefix(head).removesuffix(b"\r\n")
    if len(payload) != size:
        payload = data.removeprefix(head.upper()).removesuffix(b"\r\n")
    return payload if len(payload) == size else None


class Sink(Protocol):
    """Where the pieces of one response go, in order."""

    def head(
        self, status: int, headers: list[tuple[bytes, bytes]], at_ns: int
    ) -> None: ...
    def body(self, data: bytes) -> None: ...
    def end_of_read(self, at_ns: int, queue_empty: bool) -> None: ...
    def whole_read(self, data: bytes, at_ns: int, queue_empty: bool) -> None:
        """``body`` and ``end_of_read`` of a read that held just this payload."""


class RequestHead:
    """All of a POST's head but what differs between requests.

    Args:
        path: as it goes on the request line.
        host: the Host header.
        headers: further fields, already chosen; content-length, host and
            x-request-id are ours.
        close: ask the server to close after the answer.

    Raises:
        UsageError: a field that would break the head apart.
    """

    def __init__(
        self, path: str, host: str, headers: Iterable[tuple[str, str]], *, close: bool
    ) -> None:
        lines = [f"POST {path} HTTP/1.1", f"host: {host}"]
        lines += [f"{name}: {value}" for name, value in headers]
        if close:
            lines.append("connection: close")
        encoded = [line.encode("utf-8") for line in lines]
        for line, raw in zip(lines, encoded, strict=True):
            if _FORBIDDEN.intersection(raw):
                name = line.split(":", 1)[0].split(" ", 1)[0]
                raise UsageError(f"the header {name!r} holds a line break or NUL")
        self._prefix = b"\r\n".join(encoded) + b"\r\nx-request-id: "

    def request(self, request_id: str, body: bytes) -> bytes:
        """The whole request, ready for the socket."""
        return b"%b%b\r\ncontent-length: %d\r\n\r\n%b" % (
            self._prefix,
            request_id.encode("ascii"),
            len(body),
            body,
        )


class Response:
    """One response as it arrives.

    Args:
        sink: gets status, headers and payload; called inside ``feed``.

    Attributes:
        ending: None while the message goes on.
        detail: one line on what was wrong with it, where something was.
        started: whether any byte of it came.
        reusable: whether the connection may carry another request.
        keep_alive_s: for how long the server says it keeps it; None: not said.
        keep_alive_max: how many more requests it says it takes; None: not said.
        findings: oddities that leave the answer itself intact.
    """

    __slots__ = (
        "_at_ns",
        "_between",
        "_framed",
        "_head_bytes",
        "_headed",
        "_headers",
        "_parser",
        "_sink",
        "detail",
        "ending",
        "findings",
        "keep_alive_max",
        "keep_alive_s",
        "on_body",
        "reusable",
        "started",
    )

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._headers: list[tuple[bytes, bytes]] = []
        self._at_ns = 0
        self._head_bytes = 0  # of the head, then of the trailers
        self._headed = False
        self._framed = False
        self._between = False  # a chunk has ended, and no byte of the next came
        self.ending: Ending | None = None
        self.detail: str | None = None
        self.started = False
        self.reusable = False
        self.keep_alive_s: int | None = None
        self.keep_alive_max: int | None = None
        self.findings: list[str] = []
        self.on_body = sink.body  # the parser calls the sink itself: one hop less
        self._parser: HttpResponseParser | None = HttpResponseParser(self)

    def feed(self, data: bytes, at_ns: int, queue_empty: bool) -> Ending | None:
        """Take the bytes of one read.

        Args:
            data: what was read, not empty.
            at_ns: when it arrived, ns since t0.
            queue_empty: see ``connection.Received``.

        Returns:
            How the message ended; None while it goes on.
        """
        # A whole chunk leaves the parser as it was: one that came alone may pass it by.
        if self._between and (payload := whole_chunk(data)) is not None:
            self._sink.whole_read(payload, at_ns, queue_empty)
            return None
        return self._feed(data, at_ns, queue_empty)

    def _feed(self, data: bytes, at_ns: int, queue_empty: bool) -> Ending | None:
        assert self._parser is not None
        self.started = True
        self._at_ns = at_ns
        if not self._headed:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:  # a 101, whole by now: an answer like any other
            self.reusable = False
        except HttpParserError as error:
            self._stop(error)
        self._between = self._between and data.endswith(b"\r\n")
        self._sink.end_of_read(at_ns, queue_empty)
        if self._head_bytes > MAX_HEAD_BYTES:
            self._fail(f"header_too_large: a head above {MAX_HEAD_BYTES} bytes")
        return self.ending

    def eof(self) -> Ending:
        """The peer has closed: whole only if closing is how such a message ends."""
        if self.ending is None:
            whole = self._headed and not self._framed
            self.ending = Ending.COMPLETE if whole else Ending.EOF
        self.reusable = False
        return self.ending

    def release(self) -> None:
        """Let the parser go; it and this object hold each other."""
        self._parser = None

    def _stop(self, error: HttpParserError) -> None:
        """The parser gave up: bad bytes, more than the message, or a fault of ours."""
        self._between = self.reusable = False
        if isinstance(error, HttpParserCallbackError):
            cause = error.__context__ or error
            if not isinstance(cause, _ExtraBytesError):
                raise cause
        if self.ending is None:
            self._fail(f"not HTTP: {error}")
        else:
            self.findings.append("extra_bytes")

    def _fail(self, detail: str) -> None:
        self._between = False
        if self.ending is None:
            self.ending, self.detail, self.reusable = Ending.PROTOCOL, detail, False

    # What httptools calls, in the order of the message.

    def on_message_begin(self) -> None:
        if self.ending is not None:
            raise _ExtraBytesError

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._headed:
            self._head_bytes += len(name) + len(value)
            return
        self._headers.append((name, value))
        lowered = name.lower()
        if lowered == b"content-length" or (
            lowered == b"transfer-encoding" and b"chunked" in value.lower()
        ):
            self._framed = True
        elif lowered == b"keep-alive":
            self._keep_alive(value)

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        status = self._parser.get_status_code()
        headers, self._headers = self._headers, []
        if status < 200 and status != 101:
            self._framed = False
            return
        self._headed, self._head_bytes = True, 0
        self._framed = self._framed or status in (204, 304)
        self.reusable = self._parser.should_keep_alive()
        self._sink.head(status, headers, self._at_ns)

    def on_chunk_header(self) -> None:
        self._between = False

    def on_chunk_complete(self) -> None:
        self._between = True

    def on_message_complete(self) -> None:
        self._between = False
        if self._headed:
            self.ending = Ending.COMPLETE

    def _keep_alive(self, value: bytes) -> None:
        for part in value.lower().split(b","):
            key, _, number = part.strip().partition(b"=")
            if number.isdigit() and key == b"timeout":
                self.keep_alive_s = int(number[:9])
            elif number.isdigit() and key == b"max":
                self.keep_alive_max = int(number[:9])


class _ExtraBytesError(Exception):
    """More than the message: the parser is stopped by it."""
