"""However a stream is cut into reads, its events are the same."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.wire.framing import Event, FramingError, NdjsonFramer, SseFramer

PIECES = st.sampled_from(
    [
        b"data: ",
        b"data:",
        b"data",
        b"event: error",
        b"error: ",
        b"id: 1",
        b"retry: 1",
        b": ping",
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b'{"a":"b"}',
        b"[DONE]",
        b" ",
        b":",
        b"\xef\xbb\xbf",
        b"\xe2\x80\xa8",
        b"\xff",
        b"\x00",
    ]
)
STREAMS = st.one_of(st.lists(PIECES, max_size=40).map(b"".join), st.binary(max_size=80))
CUTS = st.lists(st.integers(0, 400), max_size=12)


def cut(stream: bytes, points: list[int]) -> list[bytes]:
    edges = [0, *sorted(min(p, len(stream)) for p in points), len(stream)]
    return [stream[a:b] for a, b in pairwise(edges)]


def drain(framer: SseFramer | NdjsonFramer, pieces: list[bytes]) -> list[Event]:
    events = [event for piece in pieces for event in framer.feed(piece)]
    return events + framer.flush()


@settings(deadline=None)
@given(STREAMS, CUTS)
def test_sse_events_do_not_depend_on_the_reads(
    stream: bytes, points: list[int]
) -> None:
    whole, other = SseFramer(), SseFramer()
    assert drain(other, cut(stream, points)) == drain(whole, [stream])
    assert (other.comments, other.ignored) == (whole.comments, whole.ignored)
    assert not whole.pending


@settings(deadline=None)
@given(STREAMS, CUTS)
def test_ndjson_events_do_not_depend_on_the_reads(
    stream: bytes, points: list[int]
) -> None:
    assert drain(NdjsonFramer(), cut(stream, points)) == drain(NdjsonFramer(), [stream])


@settings(deadline=None)
@given(STREAMS)
def test_bytes_one_by_one_give_the_same(stream: bytes) -> None:
    single = [stream[i : i + 1] for i in range(len(stream))]
    assert drain(SseFramer(), single) == drain(SseFramer(), [stream])


@settings(deadline=None)
@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\r\n")), max_size=8
    )
)
def test_what_is_written_as_events_is_read_back(texts: list[str]) -> None:
    stream = "".join(f"data: {text}\n\n" for text in texts).encode()
    assert [e.data.decode() for e in drain(SseFramer(), [stream])] == texts


@settings(deadline=None)
@given(st.lists(PIECES, min_size=1, max_size=200), st.integers(64, 300))
def test_memory_is_bounded_by_the_cap(pieces: list[bytes], cap: int) -> None:
    framer = SseFramer(max_event_bytes=cap)
    try:
        for piece in pieces:
            for event in framer.feed(piece):
                assert len(event.data) <= cap
        assert sum(len(event.data) for event in framer.flush()) <= cap
    except FramingError:
        assert not framer.pending


def test_the_fast_way_and_the_long_way_agree() -> None:
    for stream in (b"data: a\n\n", b"data: \n\n", b"data: a\r\n\n", b"data: a\rb\n\n"):
        by_bytes = [stream[i : i + 1] for i in range(len(stream))]
        assert drain(SseFramer(), [stream]) == drain(SseFramer(), by_bytes)
    with pytest.raises(FramingError):
        SseFramer(max_event_bytes=8).feed(b"data: 123456789\n\n")
