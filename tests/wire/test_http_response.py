"""Responses as servers send them, whole or cut, in every split of the bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import pytest

from loadgen.errors import UsageError
from loadgen.model import Ending
from loadgen.wire.http import MAX_HEAD_BYTES, RequestHead, Response

Headers = list[tuple[bytes, bytes]]


@dataclass
class Seen:
    """A sink that remembers."""

    status: int | None = None
    headers: Headers = field(default_factory=list)
    headed_ns: int | None = None
    payload: bytes = b""
    reads: list[tuple[int, bool]] = field(default_factory=list)

    def head(self, status: int, headers: Headers, at_ns: int) -> None:
        assert self.status is None, "one head only"
        self.status, self.headers, self.headed_ns = status, headers, at_ns

    def body(self, data: bytes) -> None:
        self.payload += data

    def end_of_read(self, at_ns: int, queue_empty: bool) -> None:
        self.reads.append((at_ns, queue_empty))

    def whole_read(self, data: bytes, at_ns: int, queue_empty: bool) -> None:
        self.body(data)
        self.end_of_read(at_ns, queue_empty)


class Case(NamedTuple):
    sent: bytes
    status: int | None
    payload: bytes
    ending: Ending
    reusable: bool = False
    findings: tuple[str, ...] = ()
    closes: bool = False  # the server closes after these bytes


OK = b"HTTP/1.1 200 OK\r\n"
CASES = {
    "content-length": Case(
        OK + b"Content-Length: 5\r\n\r\nhello", 200, b"hello", Ending.COMPLETE, True
    ),
    "chunked with an extension and trailers": Case(
        OK
        + b"Transfer-Encoding: chunked\r\n\r\n"
        + b"3;a=b\r\nhel\r\n2\r\nlo\r\n0\r\nx: y\r\n\r\n",
        200,
        b"hello",
        Ending.COMPLETE,
        True,
    ),
    "until closing": Case(
        OK + b"\r\nhello", 200, b"hello", Ending.COMPLETE, closes=True
    ),
    "HTTP/1.0 until closing": Case(
        b"HTTP/1.0 200 OK\r\n\r\nhello", 200, b"hello", Ending.COMPLETE, closes=True
    ),
    "HTTP/1.0 kept alive": Case(
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nhi",
        200,
        b"hi",
        Ending.COMPLETE,
        True,
    ),
    "the server will close": Case(
        OK + b"Connection: close\r\nContent-Length: 2\r\n\r\nhi",
        200,
        b"hi",
        Ending.COMPLETE,
    ),
    "interim answers first": Case(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
        + OK
        + b"Content-Length: 2\r\n\r\nhi",
        200,
        b"hi",
        Ending.COMPLETE,
        True,
    ),
    "no content": Case(
        b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", Ending.COMPLETE, True
    ),
    "redirect, not followed": Case(
        b"HTTP/1.1 302 Found\r\nLocation: /v1/\r\nContent-Length: 0\r\n\r\n",
        302,
        b"",
        Ending.COMPLETE,
        True,
    ),
    "cut in the head": Case(OK + b"Content-Le", None, b"", Ending.EOF, closes=True),
    "cut in the body": Case(
        OK + b"Content-Length: 5\r\n\r\nhel", 200, b"hel", Ending.EOF, closes=True
    ),
    "cut between chunks": Case(
        OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n",
        200,
        b"hel",
        Ending.EOF,
        closes=True,
    ),
    "closed without a word": Case(b"", None, b"", Ending.EOF, closes=True),
    "not HTTP": Case(b"SSH-2.0-OpenSSH_9\r\n", None, b"", Ending.PROTOCOL),
    "HTTP/2": Case(b"\x00\x00\x12\x04\x00\x00\x00", None, b"", Ending.PROTOCOL),
    "a bad chunk": Case(
        OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\nzz\r\n",
        200,
        b"hel",
        Ending.PROTOCOL,
    ),
    "length and chunks at once": Case(
        OK + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
        None,
        b"",
        Ending.PROTOCOL,
    ),
    "switching protocols": Case(
        b"HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
        101,
        b"",
        Ending.COMPLETE,
    ),
}


def feed(pieces: list[bytes], *, closes: bool) -> tuple[Response, Seen]:
    seen = Seen()
    response = Response(seen)
    for at_ns, piece in enumerate(pieces):
        if piece and response.feed(piece, at_ns, True) is not None:
            break
    if closes and response.ending is None:
        response.eof()
    return response, seen


def check(case: Case, response: Response, seen: Seen) -> None:
    assert response.ending is case.ending
    assert (seen.status, seen.payload) == (case.status, case.payload)
    assert response.reusable is case.reusable
    assert response.started is bool(case.sent)
    assert (response.detail is not None) is (case.ending is Ending.PROTOCOL)


@pytest.mark.parametrize("name", CASES)
def test_a_response_is_read_the_same_in_any_two_pieces(name: str) -> None:
    case = CASES[name]
    for cut in range(len(case.sent) + 1):
        pieces = [case.sent[:cut], case.sent[cut:]]
        check(case, *feed(pieces, closes=case.closes))


@pytest.mark.parametrize("name", CASES)
def test_a_response_is_read_the_same_byte_by_byte(name: str) -> None:
    case = CASES[name]
    pieces = [case.sent[i : i + 1] for i in range(len(case.sent))]
    check(case, *feed(pieces, closes=case.closes))


@pytest.mark.parametrize(
    "extra", [b"x", OK + b"Content-Length: 2\r\n\r\nno", b"\x00" * 1000]
)
@pytest.mark.parametrize("close", [b"", b"Connection: close\r\n"])
def test_bytes_after_the_message_are_a_finding_and_not_payload(
    extra: bytes, close: bytes
) -> None:
    sent = OK + close + b"Content-Length: 2\r\n\r\nhi" + extra
    response, seen = feed([sent], closes=False)
    assert response.ending is Ending.COMPLETE
    assert response.findings == ["extra_bytes"]
    assert not response.reusable
    assert seen.payload == b"hi"


def test_a_head_of_10_kb_and_of_200_kb_is_read() -> None:
    for size in (10_240, 200_000):
        sent = OK + b"X-Long: " + b"a" * size + b"\r\nContent-Length: 0\r\n\r\n"
        response, seen = feed([sent], closes=False)
        assert response.ending is Ending.COMPLETE
        assert len(dict(seen.headers)[b"X-Long"]) == size


@pytest.mark.parametrize("start", [OK, OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n"])
def test_an_endless_head_and_endless_trailers_are_refused_by_name(start: bytes) -> None:
    line = b"x: " + b"a" * 1000 + b"\r\n"
    response, _ = feed([start, *[line] * (MAX_HEAD_BYTES // 1000 + 2)], closes=False)
    assert response.ending is Ending.PROTOCOL
    assert response.detail is not None
    assert response.detail.startswith("header_too_large")


def test_a_body_beyond_the_limit_of_heads_is_no_matter() -> None:
    sent = [OK + b"Content-Length: 3000000\r\n\r\n", *[b"a" * 60_000] * 50]
    response, seen = feed(sent, closes=False)
    assert response.ending is Ending.COMPLETE
    assert len(seen.payload) == 3_000_000


def test_stamps_are_passed_on_read_by_read() -> None:
    seen = Seen()
    response = Response(seen)
    response.feed(OK, 10, False)
    response.feed(b"Transfer-Encoding: chunked\r\n\r\n", 20, True)
    response.feed(b"2\r\nhi\r\n", 30, False)
    assert seen.headed_ns == 20
    assert seen.reads == [(10, False), (20, True), (30, False)]


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (b"timeout=5, max=100", (5, 100)),
        (b"timeout=5", (5, None)),
        (b"MAX=1", (None, 1)),
        (b"timeout=-1, max=x", (None, None)),
        (b"", (None, None)),
    ],
)
def test_what_the_server_says_of_keeping_the_connection(
    value: bytes, kept: tuple[int | None, int | None]
) -> None:
    sent = OK + b"Keep-Alive: " + value + b"\r\nContent-Length: 0\r\n\r\n"
    response, _ = feed([sent], closes=False)
    assert (response.keep_alive_s, response.keep_alive_max) == kept


def test_a_fault_of_the_sink_comes_out_as_itself() -> None:
    class Faulty(Seen):
        def body(self, data: bytes) -> None:
            raise RuntimeError("planted")

    response = Response(Faulty())
    with pytest.raises(RuntimeError, match="planted"):
        response.feed(OK + b"Content-Length: 2\r\n\r\nhi", 0, True)


def test_a_request_is_its_prefix_its_id_its_length_and_its_body() -> None:
    head = RequestHead(
        "/v1/completions", "h:1", [("content-type", "application/json")], close=False
    )
    assert head.request("r-1", b'{"a":"\xc3\xa9"}') == (
        b"POST /v1/completions HTTP/1.1\r\nhost: h:1\r\n"
        b"content-type: application/json\r\nx-request-id: r-1\r\n"
        b'content-length: 10\r\n\r\n{"a":"\xc3\xa9"}'
    )


def test_a_fresh_connection_asks_to_be_closed() -> None:
    head = RequestHead("/", "h", [], close=True)
    assert b"\r\nconnection: close\r\n" in head.request("r", b"")


@pytest.mark.parametrize("value", ["a\r\nb: c", "a\nb", "a\0"])
def test_a_field_that_would_break_the_head_is_refused(value: str) -> None:
    with pytest.raises(UsageError, match="x-mine"):
        RequestHead("/", "h", [("x-mine", value)], close=False)
