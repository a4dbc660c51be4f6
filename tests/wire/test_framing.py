"""Bytes to events: the format's rules, and what servers make of them."""

from __future__ import annotations

import pytest

from loadgen.wire.framing import Event, FramingError, NdjsonFramer, SseFramer


def events(data: bytes) -> list[tuple[bytes, bytes]]:
    framer = SseFramer()
    return [(e.kind, e.data) for e in [*framer.feed(data), *framer.flush()]]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"data: a\n\n", [(b"", b"a")]),
        (b"data:a\n\n", [(b"", b"a")]),
        (b"data:  a\n\n", [(b"", b" a")]),
        (b"data: a\r\n\r\n", [(b"", b"a")]),
        (b"data: a\r\r", [(b"", b"a")]),
        (b"data: a\n\r\ndata: b\r\n\n", [(b"", b"a"), (b"", b"b")]),
        (b"data: a\ndata: b\n\n", [(b"", b"a\nb")]),
        (b"data\ndata\n\n", [(b"", b"\n")]),
        (b"data: \n\n", [(b"", b"")]),
        (b"\n\n\ndata: a\n\n\n\n", [(b"", b"a")]),
        (b"\xef\xbb\xbfdata: a\n\n", [(b"", b"a")]),
        (b"\xef\xbb\xbf\ndata: a\n\n", [(b"", b"a")]),
        (b"data: \xef\xbb\xbfa\n\n", [(b"", b"\xef\xbb\xbfa")]),
        (b"event: ping\n\n", []),
        (b"event: a\ndata: b\n\ndata: c\n\n", [(b"a", b"b"), (b"", b"c")]),
        (b"event: a\nevent: b\ndata: c\n\n", [(b"b", b"c")]),
        (b"id: 1\nretry: 9\ndata: a\n\n", [(b"", b"a")]),
        (b": x\ndata: a\n: y\n\n", [(b"", b"a")]),
        (b"Data: a\n\n", []),
        (b" data: a\n\n", []),
        (b'error: {"code":400}\n\n', [(b"error", b'{"code":400}')]),
        (b"event: error\n\n", [(b"error", b"")]),
        (b'{"error":1}\n\n', [(b"", b'{"error":1}')]),
        (
            b"data: a\xe2\x80\xa8\x0b\x0c\xc2\x85b\n\n",
            [(b"", b"a\xe2\x80\xa8\x0b\x0c\xc2\x85b")],
        ),
        (b"data: a\n", [(b"", b"a")]),
        (b"data: [DONE]", [(b"", b"[DONE]")]),
        (b"data: \xff\xfe\n\n", [(b"", b"\xff\xfe")]),
        (b"", []),
    ],
)
def test_sse(data: bytes, expected: list[tuple[bytes, bytes]]) -> None:
    assert events(data) == expected


def test_the_events_come_with_the_read_that_completes_them() -> None:
    framer = SseFramer()
    assert framer.feed(b"data: a\n\ndata: b\n") == [Event(b"", b"a")]
    assert framer.pending
    assert framer.feed(b"\n") == [Event(b"", b"b")]
    assert not framer.pending


def test_a_cr_ends_its_line_at_once_and_takes_no_second_line_with_its_lf() -> None:
    framer = SseFramer()
    assert framer.feed(b"data: a\r\n\r") == [Event(b"", b"a")]
    assert framer.feed(b"") == []
    assert framer.feed(b"\ndata: b\n\n") == [Event(b"", b"b")]


def test_what_is_left_aside_is_counted() -> None:
    framer = SseFramer()
    framer.feed(b": a\n:\nnonsense\nodd: thing\nid: 1\ndata: x\n\n")
    assert (framer.comments, framer.ignored) == (2, 2)


@pytest.mark.parametrize(
    "flood",
    [
        b"x" * 40,
        b"data: " + b"x" * 40,
        b"data\n" * 40,
        b"event: " + b"x" * 40,
        b"data: x\n" * 9,
    ],
)
def test_an_event_beyond_the_cap_is_refused_and_let_go(flood: bytes) -> None:
    framer = SseFramer(max_event_bytes=500)

    def pour() -> None:
        for _ in range(100):
            framer.feed(flood)

    with pytest.raises(FramingError):
        pour()
    assert not framer.pending
    assert framer.flush() == []


def test_events_within_the_cap_may_go_on_for_ever() -> None:
    framer = SseFramer(max_event_bytes=500)
    for _ in range(1000):
        assert framer.feed(b": ping\n\ndata: abc\n\nevent: e\n\n") == [
            Event(b"", b"abc")
        ]


def test_one_large_event_in_one_read_meets_the_cap_too() -> None:
    with pytest.raises(FramingError):
        SseFramer(max_event_bytes=500).feed(b"data: " + b"x" * 600 + b"\n\n")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"a":1}\n{"b":2}\n', [b'{"a":1}', b'{"b":2}']),
        (b'{"a":1}\r\n\r\n \n{"b":2}', [b'{"a":1}', b'{"b":2}']),
        (b'\xef\xbb\xbf{"a":1}\n', [b'{"a":1}']),
        (b'{"a":"\xe2\x80\xa8"}\n', [b'{"a":"\xe2\x80\xa8"}']),
        (b"", []),
    ],
)
def test_ndjson(data: bytes, expected: list[bytes]) -> None:
    for size in (1, 2, len(data) or 1):
        framer = NdjsonFramer()
        pieces = [data[i : i + size] for i in range(0, len(data), size)]
        found = [event for piece in pieces for event in framer.feed(piece)]
        assert [event.data for event in found + framer.flush()] == expected


def test_an_ndjson_line_beyond_the_cap_is_refused() -> None:
    for flood in (b"x" * 600, b"x" * 600 + b"\n"):
        with pytest.raises(FramingError):
            NdjsonFramer(max_event_bytes=500).feed(flood)
