"""One answer read into facts: what the body is, and what was odd about it."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from loadgen.model import Ending, Outcome, ServerError, TokenSource
from loadgen.wire import answer as answer_module
from loadgen.wire import reading as reading_module
from loadgen.wire.answer import Answer
from loadgen.wire.facts import Facts
from loadgen.wire.framing import SseFramer
from loadgen.wire.protocols import PROTOCOLS
from loadgen.wire.protocols.delta import Delta
from loadgen.wire.reading import Reading
from loadgen.wire.room import Room

Headers = dict[str, str]


def chunk(text: str | None = None, reason: str | None = None, **more: Any) -> bytes:
    delta = {} if text is None else {"content": text}
    value = {
        "id": "c",
        "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
        **more,
    }
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def usage(prompt: int, completion: int) -> bytes:
    counts = {"prompt_tokens": prompt, "completion_tokens": completion}
    return b"data: " + json.dumps({"choices": [], "usage": counts}).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"
STOP = chunk(None, "stop")
BUSY = {"message": "The engine is currently busy", "type": "x", "code": 503}
WHOLE = json.dumps(
    {
        "id": "c",
        "choices": [
            {"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 9},
    }
).encode()


def read(
    *reads: bytes,
    status: int = 200,
    headers: Headers | None = None,
    ending: Ending = Ending.COMPLETE,
    stream: bool = True,
    keep_text: bool = False,
    secrets: tuple[str, ...] = (),
) -> Facts:
    """Reads at 10, 20, 30 … ns, the end at 1000."""
    reading = Reading(
        PROTOCOLS["openai-chat"], stream=stream, keep_text=keep_text, secrets=secrets
    )
    pairs = [(k.encode(), v.encode()) for k, v in (headers or {}).items()]
    reading.head(status, pairs, 5)
    for number, data in enumerate(reads, 1):
        reading.body(data)
        reading.end_of_read(number * 10, True)
    return reading.close(ending, 1000)


def test_a_stream_that_went_well() -> None:
    facts = read(
        chunk("", role="x"), chunk("Hi"), chunk(" you"), STOP + usage(7, 2) + DONE
    )
    assert facts.outcome is Outcome.OK
    assert (facts.headers_ns, facts.first_byte_ns, facts.first_event_ns) == (5, 10, 10)
    assert facts.token_ns == [20, 30]
    assert facts.token_exact == [True, True]
    assert (facts.first_token_ns, facts.last_token_ns, facts.end_ns) == (20, 30, 1000)
    assert facts.first_answer_ns == 20
    assert (facts.prompt_tokens, facts.output_tokens) == (7, 2)
    assert facts.prompt_tokens_source is TokenSource.USAGE
    assert (facts.model, facts.response_id) == ("m", "c")
    assert facts.text_sha256 == hashlib.sha256(b"Hi you").hexdigest()
    assert facts.text is None
    assert facts.body_excerpt is None
    assert facts.findings == []


def test_text_is_kept_only_when_asked() -> None:
    facts = read(chunk("Hé"), chunk("\ud83d\ude80" * 5000), STOP, keep_text=True)
    assert facts.text == "Hé" + "🚀" * 5000
    assert facts.text_sha256 == hashlib.sha256(facts.text.encode()).hexdigest()


def test_two_choices_have_no_one_text_and_both_must_end() -> None:
    other = chunk("x").replace(b'"index": 0', b'"index": 1')
    ended = other.replace(b"null", b'"stop"')
    facts = read(chunk("a"), other, STOP, ended, keep_text=True)
    assert facts.outcome is Outcome.OK
    assert (facts.text, facts.text_sha256) == (None, None)
    assert "several_choices" in facts.findings
    assert read(chunk("a"), other, STOP).outcome is Outcome.TRUNCATED


@pytest.mark.parametrize(
    ("reads", "outcome", "findings"),
    [
        ([chunk("a"), STOP], Outcome.OK, ["no_done"]),
        ([chunk("a"), DONE], Outcome.TRUNCATED, ["done_without_finish"]),
        ([chunk("a")], Outcome.TRUNCATED, []),
        ([], Outcome.TRUNCATED, []),
        ([b" \n\r\n"], Outcome.TRUNCATED, []),
        ([b": ping\n\n"], Outcome.TRUNCATED, []),
        ([DONE], Outcome.TRUNCATED, ["done_without_finish"]),
        ([STOP, DONE], Outcome.OK, ["no_token_events"]),
        ([chunk("a"), STOP, DONE, chunk("z")], Outcome.OK, ["events_after_done"]),
        ([chunk("a"), STOP, DONE, DONE], Outcome.OK, []),
        ([chunk("a"), b"data: ?\n\n", STOP, DONE], Outcome.OK, ["bad_events"]),
        ([chunk("a"), STOP[:-2]], Outcome.OK, ["no_done"]),
        ([chunk("a"), STOP, b"data: [DONE]"], Outcome.OK, []),
        ([chunk("a"), STOP[:-20]], Outcome.TRUNCATED, ["event_cut"]),
        ([b"data: ?\n\n"], Outcome.PROTOCOL_ERROR, ["bad_events"]),
        ([b'data: {"x":1}\n\n'], Outcome.PROTOCOL_ERROR, ["bad_events"]),
        ([b"Internal Server Error"], Outcome.PROTOCOL_ERROR, []),
        ([b"\x1f\x8b\x08\x00\x00\n\xff\xff"], Outcome.PROTOCOL_ERROR, []),
        ([b"<!DOCTYPE html><html>"], Outcome.PROTOCOL_ERROR, []),
        ([b"\n <html>\ndata: x\n\n"], Outcome.PROTOCOL_ERROR, []),
        ([b'{"status":"ok"}'], Outcome.PROTOCOL_ERROR, []),
        ([b'{"choices":[{"mes'], Outcome.PROTOCOL_ERROR, []),
        ([b"[]"], Outcome.PROTOCOL_ERROR, []),
        ([WHOLE], Outcome.OK, ["not_streamed"]),
        ([WHOLE[:9], WHOLE[9:]], Outcome.OK, ["not_streamed"]),
        ([b'{"error":{"message":"m","code":500}}'], Outcome.IN_STREAM_ERROR, []),
        ([json.dumps({"error": BUSY}).encode()], Outcome.IN_STREAM_REJECT, []),
        ([b'[{"error":{"code":429}}]'], Outcome.IN_STREAM_REJECT, []),
    ],
)
def test_what_a_200_is(
    reads: list[bytes], outcome: Outcome, findings: list[str]
) -> None:
    facts = read(*reads)
    assert (facts.outcome, facts.findings) == (outcome, findings)
    assert (facts.body_excerpt is None) == (
        outcome is Outcome.OK or not reads or len(facts.token_ns) > 0
    )


@pytest.mark.parametrize("ending", [Ending.RESET, Ending.EOF, Ending.IDLE])
def test_a_finish_reason_is_success_whatever_comes_after(ending: Ending) -> None:
    facts = read(chunk("a"), STOP, ending=ending)
    assert facts.outcome is Outcome.OK
    assert facts.findings == ["no_done", f"{ending}_after_finish"]


@pytest.mark.parametrize(
    ("body", "ending", "outcome"),
    [
        (b'{"choices":[', Ending.EOF, Outcome.TRUNCATED),
        (b"<html>", Ending.EOF, Outcome.PROTOCOL_ERROR),
        (b"<html>", Ending.RESET, Outcome.RESET),
        (b'data: {"cho', Ending.TOTAL, Outcome.TIMEOUT),
        (b"", Ending.IDLE, Outcome.STALLED),
        (b"", Ending.USER, Outcome.CANCELLED),
    ],
)
def test_half_a_body(body: bytes, ending: Ending, outcome: Outcome) -> None:
    facts = read(body, ending=ending)
    assert facts.outcome is outcome
    assert facts.bad_events == 0


def test_an_event_that_the_limit_cut_off_is_not_the_server_s_fault() -> None:
    facts = read(chunk("a"), b'data: {"cho', ending=Ending.TOTAL)
    assert (facts.outcome, facts.bad_events) == (Outcome.TIMEOUT, 0)
    assert len(facts.token_ns) == 1


def test_an_answer_that_was_not_to_stream() -> None:
    facts = read(WHOLE[:20], WHOLE[20:], stream=False, keep_text=True)
    assert facts.outcome is Outcome.OK
    assert (facts.text, facts.finish_reason) == ("Hi", "stop")
    assert facts.token_ns == [20]
    assert (facts.first_byte_ns, facts.first_event_ns) == (10, 20)
    assert facts.output_tokens == 9
    assert facts.findings == []


def test_a_stream_nobody_asked_for() -> None:
    facts = read(chunk("a"), STOP, DONE, stream=False)
    assert (facts.outcome, facts.findings) == (Outcome.OK, ["streamed_unasked"])


@pytest.mark.parametrize(
    ("content_type", "reads", "findings"),
    [
        ("application/json", [chunk("a"), STOP, DONE], ["content_type_mismatch"]),
        ("text/event-stream", [chunk("a"), STOP, DONE], []),
        ("text/plain", [chunk("a"), STOP, DONE], []),
        ("text/event-stream", [WHOLE], ["content_type_mismatch", "not_streamed"]),
    ],
)
def test_content_type_is_not_trusted(
    content_type: str, reads: list[bytes], findings: list[str]
) -> None:
    facts = read(*reads, headers={"Content-Type": content_type})
    assert (facts.outcome, facts.findings) == (Outcome.OK, findings)


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (
            503,
            json.dumps({"error": BUSY}).encode(),
            ServerError("The engine is currently busy", "x", 503),
        ),
        (503, b'data: {"error":{"message":"m"}}\n\ndata: [DONE]\n\n', ServerError("m")),
        (429, b"local_rate_limited", None),
        (503, b"<html>503</html>", None),
        (408, b"", None),
        (404, b'{"detail":"Not Found"}', ServerError("Not Found")),
        (
            429,
            b'{"message":"API rate limit exceeded"}',
            ServerError("API rate limit exceeded"),
        ),
        (429, b'{"error_msg":"Too frequent"}', ServerError("Too frequent")),
        (302, b"", None),
        (500, b"\xff\xfe", None),
        (529, b'{"error":{"message":', None),
    ],
)
def test_an_answer_that_is_not_2xx(
    status: int, body: bytes, error: ServerError | None
) -> None:
    facts = read(body, status=status)
    assert (facts.outcome, facts.status) == (Outcome.HTTP_REJECT, status)
    assert facts.error == error
    assert facts.body_excerpt == (body.decode("utf-8", "replace") or None)
    assert facts.token_ns == []


def test_tokens_in_a_refusal_are_none() -> None:
    facts = read(chunk("a"), STOP, DONE, status=503)
    assert (facts.outcome, facts.token_ns) == (Outcome.HTTP_REJECT, [])


def test_what_failed_before_any_token_put_out_none() -> None:
    event = b'data: {"error":{"message":"m","code":504}}\n\n'
    assert read(event).output_tokens == 0
    assert read(chunk("a"), event).output_tokens is None
    assert read(status=503).output_tokens is None


def test_the_error_s_own_event_is_what_is_quoted() -> None:
    event = b'data: {"error":{"message":"m","code":500}}\n\n'
    facts = read(b": ping\n\n" * 400, chunk("a"), event)
    assert facts.body_excerpt == '{"error":{"message":"m","code":500}}'
    assert facts.comments == 400


def test_interim_answers_are_passed_over() -> None:
    reading = Reading(PROTOCOLS["openai-chat"], stream=True, keep_text=False)
    reading.head(100, [], 1)
    reading.head(103, [(b"server", b"x")], 2)
    reading.head(200, [], 3)
    facts = reading.close(Ending.EOF, 9)
    assert (facts.status, facts.headers_ns, facts.headers) == (200, 3, {})


def test_nothing_came_at_all() -> None:
    reading = Reading(PROTOCOLS["openai-chat"], stream=True, keep_text=False)
    facts = reading.close(Ending.CONNECT, 9)
    assert (facts.status, facts.outcome) == (None, Outcome.CONNECT_ERROR)
    assert facts.first_byte_ns is None


def test_a_count_that_was_still_running_says_so() -> None:
    running = {"prompt_tokens": 5, "completion_tokens": 1}
    facts = read(chunk("a", usage=running), ending=Ending.RESET)
    assert (facts.output_tokens, facts.output_tokens_source) == (1, "continuous_usage")
    ended = read(chunk("a", usage=running), chunk("b", "stop", usage=running), DONE)
    assert ended.output_tokens_source is TokenSource.USAGE


def test_the_first_bad_finish_stands() -> None:
    facts = read(chunk("a"), chunk(None, "abort"), STOP, DONE)
    assert (facts.outcome, facts.finish_reason) == (Outcome.IN_STREAM_ERROR, "abort")


# Hostile amounts ------------------------------------------------------------


def test_an_endless_event_ends_as_a_protocol_error_in_bounded_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading_module, "SseFramer", lambda: SseFramer(10_000))
    reading = Reading(PROTOCOLS["openai-chat"], stream=True, keep_text=False)
    reading.head(200, [], 1)
    reading.body(chunk("a"))
    reading.end_of_read(2, True)
    for _ in range(20):
        reading.body(b"data: " + b"x" * 1000)
        reading.end_of_read(3, True)
    assert reading.broken
    facts = reading.close(Ending.USER, 9)
    assert (facts.outcome, facts.ending) == (Outcome.PROTOCOL_ERROR, Ending.PROTOCOL)
    assert facts.findings == ["event_too_large"]
    assert facts.token_ns == [2]
    assert facts.bytes_received == 20 * 1006 + len(chunk("a"))


def test_an_endless_whole_body_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_module, "MAX_WHOLE_BYTES", 1000)
    facts = read(b"{" + b" " * 2000, b" " * 2000)
    assert (facts.outcome, facts.findings) == (
        Outcome.PROTOCOL_ERROR,
        ["body_too_large"],
    )


def test_an_endless_stream_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_module, "MAX_BODY_BYTES", 1000)
    facts = read(*[chunk("a")] * 20)
    assert (facts.outcome, facts.findings) == (
        Outcome.PROTOCOL_ERROR,
        ["body_too_large", "no_done"][:1],
    )


def test_endless_tokens_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_module, "MAX_TOKEN_EVENTS", 100)
    facts = read(*[chunk("a" * 64)] * 200)
    assert facts.outcome == Outcome.PROTOCOL_ERROR
    assert facts.findings[0] == "too_many_tokens"
    assert len(facts.token_ns) < 200


@pytest.mark.parametrize("opening", [b"data: ", b"{"])
def test_many_endless_answers_share_one_room(opening: bytes) -> None:
    room = Room(1 << 20)
    honest = new_reading(room)
    honest.body(chunk("a")[:-1])
    hostile = [new_reading(room) for _ in range(20)]
    piece = b"x" * 65_536
    for reading in hostile:
        reading.body(opening)
    for _ in range(20):
        for reading in hostile:
            reading.body(piece)
    held = sum(len(piece) * 20 for reading in hostile if not reading.broken)
    assert held <= 1 << 20
    honest.body(b"\n")
    assert not honest.broken
    broken = next(reading for reading in hostile if reading.broken)
    facts = broken.close(Ending.USER, 9)
    assert facts.outcome == Outcome.PROTOCOL_ERROR
    assert facts.findings[0] == "out_of_room"
    for reading in hostile:
        if reading is not broken:
            reading.close(Ending.USER, 9)
    assert room.settle(0, 1 << 20) == (1 << 20, True), "all is given back"


def new_reading(room: Room) -> Reading:
    reading = Reading(PROTOCOLS["openai-chat"], stream=True, keep_text=False, room=room)
    reading.head(200, [], 1)
    return reading


def test_kept_text_and_choices_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_module, "MAX_TEXT_BYTES", 3000)
    monkeypatch.setattr(answer_module, "MAX_CHOICES", 8)
    facts = read(*[chunk("é" * 100)] * 50, keep_text=True)
    assert facts.text is not None
    assert len(facts.text.encode()) <= 3003
    answer = Answer(PROTOCOLS["openai-chat"], keep_text=False)
    for index in range(100):
        answer.fold(Delta("answer", choices=(index,)), b"")
    assert len(answer.choices) <= 9


def test_no_depth_of_nesting_is_a_fault_of_ours() -> None:
    around = [1, *range(850, 1010)]
    for depth in around:
        lists, objects = b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1"
        objects += b"}" * depth
        for body in (
            lists,
            b'{"error":' * depth + b"1" + b"}" * depth,
            b'{"code":5,"message":%b}' % objects,
            b'{"error":{"message":%b}}' % lists,
        ):
            assert read(body, status=500).outcome == Outcome.HTTP_REJECT
            assert read(b"event: error\ndata: %b\n\n" % body).error is not None


def test_words_of_the_server_are_bounded() -> None:
    long = "x" * 100_000
    error = {"message": long, "type": long, "code": long}
    event = {"id": long, "model": long, "error": error}
    facts = read(b"data: " + json.dumps(event).encode() + b"\n\n")
    assert len(json.dumps(facts.headers)) + len(str(facts.error)) < 3000
    assert facts.body_excerpt is not None
    assert len(facts.body_excerpt) <= 2048
    assert facts.response_id is not None
    assert len(facts.response_id) == 256
    assert len(read(long.encode() * 2, status=500).body_excerpt or "") == 2048


def test_our_key_reaches_no_fact_though_the_server_echo_it() -> None:
    key = "sk-0123456789abcdef"
    echo = f'{{"error":{{"message":"bad key {key}","type":"{key}","code":"{key}"}}}}'
    facts = read(echo.encode(), status=401, headers={"via": key}, secrets=(key,))
    assert key not in str(facts)
    assert "[redacted]" in str(facts.error)
    asks_to_wait = read(b"", status=429, headers={"retry-after": key}, secrets=(key,))
    assert key not in str(asks_to_wait)
    named = read(b"", status=429, headers={f"x-envoy-{key}": "1"}, secrets=(key,))
    assert key not in str(named)
    text = read(chunk(key[:9]), chunk(key[9:]), keep_text=True, secrets=(key,))
    assert (text.text or "").startswith("[redacted]")
    cut_off = read(b"y" * 2030 + key.encode(), status=500, secrets=(key,))
    assert "sk-01234567" not in (cut_off.body_excerpt or "")
