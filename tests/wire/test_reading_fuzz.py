"""Nothing a server sends makes the reading raise, and its facts always hold."""

from __future__ import annotations

from itertools import pairwise

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.model import Ending, Outcome, ServerError
from loadgen.wire.answer import MAX_EXCERPT_BYTES
from loadgen.wire.facts import Facts
from loadgen.wire.headers import kept_headers, retry_after
from loadgen.wire.protocols import PROTOCOLS
from loadgen.wire.reading import Reading
from tests.cases import cases

STREAMS = [
    "".join(text for _, text in case["input"]["chunks"]).encode("latin-1")
    for case in cases("sse").values()
    if all(isinstance(text, str) for _, text in case["input"]["chunks"])
]
PIECES = st.sampled_from(
    [
        b"data: ",
        b"\n\n",
        b"\r",
        b"[DONE]",
        b'{"choices":[',
        b'{"delta":{"content":',
        b'"\\ud83d"',
        b"]}",
        b"}",
        b"null",
        b"-1e999",
        b'"error":',
        b'"usage":{"completion_tokens":',
        b'"finish_reason":"abort"',
        b"event: error\n",
        b"error: {",
        b"<html>",
        b"\xff\xfe",
        b"\x00",
        b"9" * 400,
        b"[" * 3000,
        b'{"a":' * 3000,
    ]
)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A real stream with pieces cut out, put in or turned."""
    stream = bytearray(draw(st.sampled_from(STREAMS))[:4000])
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(0, len(stream)))
        upto = min(len(stream), at + draw(st.integers(0, 40)))
        stream[at:upto] = draw(st.one_of(PIECES, st.binary(max_size=8), st.just(b"")))
    return bytes(stream)


BODIES = st.one_of(
    mutated(),
    st.lists(PIECES, max_size=30).map(b"".join),
    st.binary(max_size=200),
)
READS = st.lists(st.tuples(st.integers(0, 300), st.booleans()), max_size=12)


def check(facts: Facts) -> None:
    """What holds of every answer."""
    assert isinstance(facts.outcome, Outcome)
    assert len(facts.token_ns) == len(facts.token_exact)
    assert all(a <= b for a, b in pairwise(facts.token_ns))
    assert (facts.first_token_ns is None) == (not facts.token_ns)
    assert len(facts.body_excerpt or "") <= MAX_EXCERPT_BYTES
    if facts.outcome is Outcome.OK:
        assert facts.status is not None
        assert 200 <= facts.status < 300
        assert facts.error is None
    if facts.error is not None:
        assert isinstance(facts.error, ServerError)
        assert len(str(facts.error)) < 4000
    # Every string is Unicode that can be written and read again.
    assert msgspec.json.decode(msgspec.json.encode(facts), type=Facts) == facts


@settings(deadline=None)
@given(
    st.sampled_from(list(PROTOCOLS.values())),
    st.booleans(),
    st.booleans(),
    st.sampled_from([200, 200, 200, 204, 302, 429, 503, 99]),
    BODIES,
    READS,
    st.sampled_from(list(Ending)),
)
def test_hostile_answers(
    protocol: object,
    stream: bool,
    keep_text: bool,
    status: int,
    body: bytes,
    reads: list[tuple[int, bool]],
    ending: Ending,
) -> None:
    reading = Reading(
        protocol,  # type: ignore[arg-type]
        stream=stream,
        keep_text=keep_text,
        secrets=("k" * 20,),
    )
    reading.head(status, [(b"\xff", b"\xfe"), (b"server", b"\x00")], 0)
    at_ns, begin = 0, 0
    for size, queue_empty in reads:
        reading.body(body[begin : begin + size])
        reading.end_of_read(at_ns, queue_empty)
        begin, at_ns = begin + size, at_ns + size
    reading.body(body[begin:])
    reading.end_of_read(at_ns, True)
    check(reading.close(ending, at_ns))


@settings(deadline=None)
@given(
    st.sampled_from(list(PROTOCOLS.values())), st.booleans(), BODIES, st.integers(1, 70)
)
def test_facts_do_not_depend_on_the_reads(
    protocol: object, stream: bool, body: bytes, size: int
) -> None:
    def read(pieces: list[bytes]) -> Facts:
        reading = Reading(protocol, stream=stream, keep_text=True)  # type: ignore[arg-type]
        reading.head(200, [], 0)
        for piece in pieces:
            reading.body(piece)
            reading.end_of_read(0, False)
        return reading.close(Ending.COMPLETE, 0)

    pieces = [body[i : i + size] for i in range(0, len(body), size)]
    assert read(pieces) == read([body])


HEADERS = st.lists(
    st.tuples(
        st.one_of(
            st.binary(max_size=80),
            st.sampled_from(
                [b"Retry-After", b"retry-after-ms", b"Date", b"X-RateLimit-Limit"]
            ),
        ),
        st.one_of(
            st.binary(max_size=40),
            st.sampled_from(
                [
                    b"Mon, 30 Nov 2026 21:16:00 GMT",
                    b"Mon, 30 Nov 99999 21:16:00 GMT",
                    b"30 Nov",
                    b"-1",
                    b"1e9",
                    b"0x10",
                ]
            ),
        ),
    ),
    max_size=12,
)


@settings(deadline=None)
@given(HEADERS)
def test_hostile_headers(pairs: list[tuple[bytes, bytes]]) -> None:
    kept = kept_headers(pairs)
    wait_s, raw = retry_after(kept)
    assert wait_s is None or 0 <= wait_s < float("inf")
    assert wait_s is None or raw is not None
    assert msgspec.json.decode(msgspec.json.encode(kept)) == kept
