"""The short ways of reading say what the long way says, of any answer in any cut."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.model import Ending
from loadgen.wire.facts import Facts
from loadgen.wire.framing import Event, SseFramer
from loadgen.wire.http import Response, whole_chunk
from loadgen.wire.protocols import PROTOCOLS
from loadgen.wire.protocols.delta import Delta
from loadgen.wire.protocols.openai import _fold, _read_chunk, decode
from loadgen.wire.reading import Reading
from loadgen.wire.twin import twin_of

HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)


class LongReading(Reading):
    """Reads each payload in full."""

    __slots__ = ()

    def whole_read(self, data: bytes, at_ns: int, queue_empty: bool) -> None:
        self.body(data)
        self.end_of_read(at_ns, queue_empty)


class LongResponse(Response):
    """Shows each byte to the parser."""

    __slots__ = ()

    def feed(self, data: bytes, at_ns: int, queue_empty: bool) -> Ending | None:
        return self._feed(data, at_ns, queue_empty)


def read(
    response: Response, reading: Reading, pieces: list[tuple[bytes, bool]]
) -> tuple[Ending, bool, list[str], Facts]:
    at_ns = 0
    for at_ns, (piece, alone) in enumerate(pieces, 1):
        if response.feed(piece, at_ns // 2, alone) is not None or reading.broken:
            break
    ending = response.ending or response.eof()
    facts = reading.close(ending, at_ns)
    response.release()
    return ending, response.reusable, response.findings, facts


def read_both_ways(
    api: str, pieces: list[tuple[bytes, bool]], *, keep_text: bool = True
) -> Facts:
    protocol = PROTOCOLS[api]
    short = Reading(protocol, stream=True, keep_text=keep_text)
    long = LongReading(protocol, stream=True, keep_text=keep_text)
    found = read(Response(short), short, pieces)
    assert found == read(LongResponse(long), long, pieces)
    return found[-1]


def chat(text: object, **more: object) -> str:
    delta = {"content": text, **more}
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
    return json.dumps({"id": "c1", "model": "m", "choices": [choice]})


def chat_of(text: str) -> str:
    return chat(text)


def completion_of(text: str) -> str:
    choice = {"index": 0, "text": text, "finish_reason": None}
    return json.dumps({"id": "c1", "model": text[:1], "choices": [choice]})


def anthropic_of(text: str) -> str:
    delta = {"type": "text_delta", "text": text}
    return json.dumps({"type": "content_block_delta", "index": 0, "delta": delta})


def responses_of(text: str) -> str:
    return json.dumps({"type": "response.output_text.delta", "delta": text})


def sglang_of(text: str) -> str:
    return json.dumps({"text": text, "meta_info": {"id": "s", "finish_reason": None}})


def tgi_of(text: str) -> str:
    return json.dumps({"index": 1, "token": {"id": 5, "text": text, "special": False}})


def llamacpp_of(text: str) -> str:
    return json.dumps({"index": 0, "content": text, "tokens": [5], "stop": False})


def ollama_of(text: str) -> str:
    return json.dumps({"model": "m", "message": {"content": text}, "done": False})


EVENT_OF = {
    "openai-chat": chat_of,
    "openai-completions": completion_of,
    "anthropic": anthropic_of,
    "openai-responses": responses_of,
    "sglang": sglang_of,
    "tgi": tgi_of,
    "llamacpp": llamacpp_of,
    "ollama": ollama_of,
}


def framed(api: str, data: str | bytes) -> bytes:
    data = data if isinstance(data, bytes) else data.encode()
    ndjson = PROTOCOLS[api].framing == "ndjson"
    return data + b"\n" if ndjson else b"data: " + data + b"\n\n"


TEXTS = st.one_of(
    st.sampled_from(
        [" cat", " the", "x", "", '"', "\\", "\n", "don't", "é", "猫", "~"]
    ),
    st.sampled_from(["\x7f", "\u2028", "\x00", "c", "m", "~loadgen~", "[DONE]", "}"]),
    st.text(max_size=4),
)
ODD = st.sampled_from(
    [
        b"data: [DONE]\n\n",
        b": ping\n\n",
        b"data: " + chat("", role="assistant").encode() + b"\n\n",
        b"data: " + chat(" cat", reasoning="x").encode() + b"\n\n",
        b"data: " + chat(None, reasoning_content="x").encode() + b"\n\n",
        b"data: " + chat([{"type": "text", "text": " cat"}]).encode() + b"\n\n",
        b"data: " + chat(" cat").encode() + b"\r\n\r\n",
        b"data: " + chat(" cat").encode() + b"\r\r",
        b": ping\ndata: " + chat(" cat").encode() + b"\n\n",
        b"event: error\ndata: " + chat(" cat").encode() + b"\n\n",
        b"\xef\xbb\xbfdata: " + chat(" cat").encode() + b"\n\n",
        b"event: error\n",
        b"data: " + chat(" cat").encode(),
        b'data: {"choices":[],"usage":{"completion_tokens":3}}\n\n',
        b'data: {"choices":[{"index":1,"delta":{"content":" cat"}}]}\n\n',
        b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n',
        b'data: {"error":{"message":"boom","code":500}}\n\n',
        b'data: {"choices":[{"index":0,"delta":{"content":"\xff"}}]}\n\n',
        b"\n",
        b"\r",
        b"data: not JSON\n\n",
    ]
)
CODINGS = st.sampled_from([b"%x\r\n", b"%X\r\n", b"0%x\r\n", b"%x;a=b\r\n"])


def chunked(payload: bytes, head: bytes) -> bytes:
    return head % len(payload) + payload + b"\r\n"


@st.composite
def answers(draw: st.DrawFn, api: str) -> list[tuple[bytes, bool]]:
    """Reads of one answer: mostly a chunk each, and now and then cut elsewhere."""
    words = st.one_of(TEXTS, TEXTS, TEXTS, ODD)
    said = ""
    payloads = []
    for word in [" one", " two", " three", *draw(st.lists(words, max_size=40))]:
        if isinstance(word, bytes):
            payloads.append(word)
            continue
        said = said + word if PROTOCOLS[api].cumulative else word
        payloads.append(framed(api, EVENT_OF[api](said)))
    usual = draw(CODINGS)
    chunks = [HEAD]
    for payload in payloads:
        head = usual if draw(st.integers(0, 5)) else draw(CODINGS)
        chunks.append(chunked(payload, head))
    if draw(st.booleans()):
        chunks.append(b"0\r\n\r\n")
    stream = b"".join(chunks)
    edges = [sum(map(len, chunks[:i])) for i in range(len(chunks) + 1)]
    dropped = draw(st.sets(st.integers(1, max(1, len(chunks) - 1)), max_size=4))
    added = draw(st.lists(st.integers(1, max(1, len(stream) - 1)), max_size=4))
    kept = {edge for i, edge in enumerate(edges) if i not in dropped}
    points = sorted({0, len(stream), *kept, *added})
    pieces = [stream[a:b] for a, b in pairwise(points)]
    return [(piece, draw(st.booleans())) for piece in pieces]


@pytest.mark.parametrize("api", PROTOCOLS)
@settings(deadline=None, max_examples=120)
@given(data=st.data())
def test_short_and_long_ways_agree(api: str, data: st.DataObject) -> None:
    read_both_ways(api, data.draw(answers(api)), keep_text=data.draw(st.booleans()))


@pytest.mark.parametrize("tail", [b"5", b"5\r", b"5\r\n", b"5;x", b"5\r\nab", b"0\r\n"])
@pytest.mark.parametrize("then", [b"3\r\nabc\r\n", b"1\r\n\n\r\n"])
def test_a_chunk_behind_the_beginning_of_another_is_none(
    tail: bytes, then: bytes
) -> None:
    event = chunked(framed("openai-chat", chat(" cat")), b"%x\r\n")
    read_both_ways(
        "openai-chat",
        [(piece, True) for piece in (HEAD, event, event, event + tail, then, event)],
    )


@settings(deadline=None)
@given(st.binary(max_size=40), st.integers(0, 5000))
def test_a_whole_chunk_is_one_to_the_parser_too(tail: bytes, size: int) -> None:
    for data in (
        chunked(b"x" * size, b"%x\r\n"),
        chunked(b"x" * size, b"%X\r\n"),
        b"%x\r\n" % size + tail,
        tail,
    ):
        payload = whole_chunk(data)
        if payload is not None:
            assert payload
            assert data.lower() == chunked(payload, b"%x\r\n").lower()


def test_every_short_chunk_is_known_as_one() -> None:
    for size in (*range(1, 2030), 9_999):
        for head in (b"%x\r\n", b"%X\r\n"):
            data = chunked(b"y" * size, head)
            assert whole_chunk(data) == (b"y" * size if len(data) < 2048 else None)
    assert whole_chunk(b"0\r\n\r\n") is None
    assert whole_chunk(b"\r\n") is None
    assert whole_chunk(b"") is None


def test_plain_events_are_decoded_once() -> None:
    """The short way is really taken: one decoding, one proof, and no more."""
    seen: list[bytes] = []
    reading = Reading(PROTOCOLS["openai-chat"], stream=True, keep_text=True)

    def counting(event: Event) -> Delta:
        seen.append(event.data)
        return decode(event)

    reading._decode = counting
    response = Response(reading)
    response.feed(HEAD, 1, True)
    words = [f" w{i}" for i in range(50)]
    for at_ns, text in enumerate(words, 2):
        response.feed(
            chunked(framed("openai-chat", chat(text)), b"%x\r\n"), at_ns, True
        )
    facts = reading.close(Ending.EOF, 99)
    assert facts.text == "".join(words)
    assert len(facts.token_ns) == 50
    assert all(facts.token_exact)
    assert len(seen) == 3  # the first two, and the probe


@pytest.mark.parametrize(
    "payload",
    [
        b"data: " + chat('say "x"').encode() + b"\n\n",  # escaped
        b"data: " + chat("cat").encode() + b"\r\n\r\n",
        b": hello\ndata: " + chat("cat").encode() + b"\n\n",
        b"what: 1\ndata: " + chat("cat").encode() + b"\n\n",
        b"data: " + chat("cat").encode() + b"\n\ndata: x",
        # The text stands elsewhere first: the probe does not come back.
        b'data: {"id":"cat","choices":[{"index":0,"delta":{"content":"cat"}}]}\n\n',
        b'data: {"choices":[{"index":0,"delta":{"content":"c"},'
        b'"finish_reason":"stop"}]}\n\n',
        b'data: {"choices":[{"index":0,"delta":{"content":"c"}}],'
        b'"usage":{"completion_tokens":1}}\n\n',
    ],
)
def test_what_cannot_be_proved_has_no_twin(payload: bytes) -> None:
    (event, *_) = SseFramer().feed(payload)
    assert twin_of(payload, decode(event), decode, SseFramer()) is None


def test_a_twin_gives_only_plain_text() -> None:
    payload = framed("openai-chat", chat("cat"))
    (event,) = SseFramer().feed(payload)
    twin = twin_of(payload, decode(event), decode, SseFramer())
    assert twin is not None
    before, _, after = payload.partition(b"cat")
    for text in (b" dog", b"x", "é猫".encode(), b"a, b", b"~loadgen~"):
        assert twin.piece(before + text + after) == text
    for text in (b"", b'"', b"\\n", b"\n", b"\xff", b"\x7f", b"\x00"):
        assert twin.piece(before + text + after) is None
    assert twin.piece(before[:-1] + after) is None
    assert twin.piece(after) is None


VALUES = st.sampled_from([None, "", "x", 5, [{"type": "text", "text": "a"}]])
CONTENTS = st.dictionaries(
    st.sampled_from(
        ["content", "role", "reasoning_content", "reasoning", "tool_calls", "refusal"]
    ),
    VALUES,
)
REASONS = st.sampled_from([None, "", "stop", {"type": "abort"}, 3])
CHUNKS = st.fixed_dictionaries(
    {
        "choices": st.lists(
            st.fixed_dictionaries(
                {},
                optional={
                    "index": st.integers(0, 1),
                    "delta": st.one_of(st.none(), CONTENTS),
                    "message": CONTENTS,
                    "text": VALUES,
                    "finish_reason": REASONS,
                },
            ),
            max_size=2,
        )
    },
    optional={
        "id": VALUES,
        "model": VALUES,
        "usage": st.sampled_from([None, {}, {"completion_tokens": 3}]),
        "error": st.sampled_from([None, "", {"message": "m"}]),
    },
)


@settings(deadline=None, max_examples=500)
@given(CHUNKS)
def test_a_chunk_is_decoded_the_short_way_as_the_long(given_chunk: object) -> None:
    data = json.dumps(given_chunk).encode()
    chunk = _read_chunk(data)
    assert chunk is not None
    assert decode(Event(b"", data)) == _fold(chunk, data)
