"""OpenAI's chat and completions: what an event says, what a request asks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loadgen.errors import UsageError
from loadgen.model import ServerError
from loadgen.plan.prompts import Prompt
from loadgen.wire.framing import Event
from loadgen.wire.protocols import PROTOCOLS
from loadgen.wire.protocols.delta import DONE, MALFORMED, NOTHING, Delta, Usage

CHAT = PROTOCOLS["openai-chat"]
TEXT = PROTOCOLS["openai-completions"]


def decode(value: Any, kind: bytes = b"") -> Delta:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    assert CHAT.decode(Event(kind, data)) == TEXT.decode(Event(kind, data))
    return CHAT.decode(Event(kind, data))


def choice(delta: Any, reason: Any = None, index: int = 0) -> dict[str, Any]:
    return {
        "id": "c",
        "model": "m",
        "choices": [{"index": index, "delta": delta, "finish_reason": reason}],
    }


@pytest.mark.parametrize(
    ("delta", "output", "text"),
    [
        ({"content": "Hi"}, "answer", "Hi"),
        ({"role": "assistant", "content": "Hi"}, "answer", "Hi"),
        ({"content": ""}, "empty", ""),
        ({"content": "", "reasoning_content": None}, "empty", ""),
        ({"role": "assistant", "content": ""}, "none", ""),
        ({"role": "assistant"}, "none", ""),
        ({"role": "assistant", "content": None}, "none", ""),
        ({"content": None}, "none", ""),
        ({}, "none", ""),
        (None, "none", ""),
        ({"reasoning_content": "Let"}, "reasoning", ""),
        ({"reasoning": "Let"}, "reasoning", ""),
        ({"content": "", "reasoning": "Let"}, "reasoning", ""),
        ({"content": None, "reasoning_content": ""}, "empty", ""),
        ({"content": "a", "reasoning": "b"}, "answer", "a"),
        ({"tool_calls": [{"index": 0, "function": {"name": "f"}}]}, "answer", ""),
        ({"content": "", "tool_calls": [{"index": 0}]}, "answer", ""),
        ({"tool_calls": []}, "none", ""),
        ({"function_call": {"arguments": "{"}}, "answer", ""),
        ({"refusal": "No"}, "answer", ""),
        ({"content": [{"type": "text", "text": "a"}, {"text": 3}, 5]}, "answer", "a"),
        ({"content": 5}, "none", ""),
    ],
)
def test_what_a_delta_carries(delta: Any, output: str, text: str) -> None:
    found = decode(choice(delta))
    assert (found.output, found.text) == (output, text)
    assert not found.malformed
    assert found.choices == (0,)


@pytest.mark.parametrize(
    ("text", "output"), [(" culture", "answer"), ("", "empty"), (None, "none")]
)
def test_text_completions(text: str | None, output: str) -> None:
    found = decode({"choices": [{"index": 0, "text": text, "finish_reason": None}]})
    assert (found.output, found.text) == (output, text or "")


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("stop", "stop"),
        ("", None),
        (None, None),
        ({"type": "abort"}, "abort"),
        (7, None),
    ],
)
def test_finish_reasons(reason: Any, expected: str | None) -> None:
    found = decode(choice({}, reason))
    assert found.finish_reason == expected
    assert found.finished == ((0,) if expected else ())


def test_the_last_token_beside_its_finish_reason() -> None:
    found = decode(choice({"content": "b"}, "length"))
    assert (found.output, found.text, found.finish_reason) == ("answer", "b", "length")


def test_two_choices_in_one_event_are_one_event() -> None:
    chunk = choice({"content": "a"})
    chunk["choices"].append({"index": 1, "delta": {}, "finish_reason": "stop"})
    found = decode(chunk)
    assert (found.output, found.choices, found.finished) == ("answer", (0, 1), (1,))
    assert decode(choice({"content": "x"}, index=1)).text == ""


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 5, "completion_tokens": 2}, Usage(5, 2)),
        ({"completion_tokens": 2}, Usage(None, 2)),
        (
            {
                "prompt_tokens": 5,
                "completion_tokens": 9,
                "completion_tokens_details": {"reasoning_tokens": 7},
            },
            Usage(5, 9, 7),
        ),
        ({"prompt_tokens": -5, "completion_tokens": 10**30}, None),
        ({"prompt_tokens": True, "completion_tokens": "2"}, None),
        ({"prompt_tokens": 5, "completion_tokens_details": "?"}, Usage(5)),
        (None, None),
        ([], None),
        ({}, None),
    ],
)
def test_usage(usage: Any, expected: Usage | None) -> None:
    assert decode({"id": "c", "choices": [], "usage": usage}).usage == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            {"error": {"message": "m", "type": "t", "code": 503}},
            ServerError("m", "t", 503),
        ),
        ({"error": {"message": "m", "code": "503"}}, ServerError("m", None, "503")),
        ({"error": "m"}, ServerError("m")),
        ({"error": "m", "error_type": "generation"}, ServerError("m", "generation")),
        (
            {"error": {"message": "m", "http_status_code": 422}},
            ServerError("m", None, 422),
        ),
        (
            {"object": "error", "message": "m", "type": "503", "code": 503},
            ServerError("m", "503", 503),
        ),
        (
            {"message": "m", "type": "Overloaded", "code": 529},
            ServerError("m", "Overloaded", 529),
        ),
        ({"detail": "Not Found"}, ServerError("Not Found")),
        ({"error_code": 10402, "text": "m"}, ServerError("m", None, 10402)),
        (
            {"type": "error", "error": {"type": "t", "message": "m"}},
            ServerError("m", "t"),
        ),
        ({"error": [{"message": "m"}]}, ServerError("m")),
        ({"error": {"message": {"a": 1}}}, ServerError('{"a": 1}')),
        ({"error": {"message": "m", "code": None, "type": None}}, ServerError("m")),
        ({"error": True}, ServerError("true")),
    ],
)
def test_errors_in_every_shape(value: Any, expected: ServerError) -> None:
    assert decode(value).error == expected
    assert CHAT.decode_whole(json.dumps(value).encode()).error == expected


@pytest.mark.parametrize("error", [None, "", {}, [], False, 0])
def test_an_error_field_without_an_error(error: Any) -> None:
    assert decode({**choice({"content": "a"}), "error": error}).error is None


def test_an_error_beside_choices() -> None:
    found = decode({**choice({"content": ""}, "error"), "error": {"code": 502}})
    assert found.error == ServerError(code=502)
    assert found.finish_reason == "error"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"code":400,"message":"m"}', ServerError("m", None, 400)),
        (b'{"error":{"message":"m"}}', ServerError("m")),
        (b"plain words", ServerError("plain words")),
        (b'"quoted"', ServerError("quoted")),
        (b"", ServerError()),
        (b"\xff\xfe", ServerError("\ufffd\ufffd")),
    ],
)
def test_an_event_of_type_error(data: bytes, expected: ServerError) -> None:
    assert decode(data, b"error").error == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"[DONE]", DONE),
        (b" [DONE] ", DONE),
        (b"", NOTHING),
        (b"  ", NOTHING),
        (b"null", MALFORMED),
        (b"[]", MALFORMED),
        (b'"text"', MALFORMED),
        (b"{", MALFORMED),
        (b"{}", MALFORMED),
        (b'{"x":1}', MALFORMED),
        (b"[" * 50_000, MALFORMED),
        (b'{"choices":' + b"[" * 50_000, MALFORMED),
        (b'{"choices":[{"delta":' + b'{"a":' * 50_000, MALFORMED),
    ],
)
def test_what_is_no_chunk(data: bytes, expected: Delta) -> None:
    assert decode(data) == expected


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b'{"choices":[{"delta":{"content":"a\xff"}}]}', "a\ufffd"),
        (b'{"choices":[{"delta":{"content":"a\\ud83d"}}]}', "a?"),
        (b'{"choices":[{"delta":{"content":"a"},"logprobs":NaN}]}', "a"),
        (b'{"choices":[{"delta":{"content":"a\tb"}}]}', "a\tb"),
        (b'{"choices":[{"delta":{"content":"a"},"index":"0"}]}', "a"),
        (b'{"choices":[7,{"delta":{"content":"a"}}],"usage":3}', "a"),
        (b'{"choices":[{"delta":{"content":"a"},"x":1e999}]}', "a"),
    ],
)
def test_broken_json_is_read_as_far_as_it_makes_sense(data: bytes, text: str) -> None:
    found = decode(data)
    assert (found.output, found.text) == ("answer", text)


def test_a_whole_answer() -> None:
    body = {
        "id": "c",
        "model": "m",
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hi", "reasoning": None},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 5, "completion_tokens": 1},
    }
    found = CHAT.decode_whole(json.dumps(body).encode())
    assert (found.output, found.text, found.finish_reason) == ("answer", "Hi", "stop")
    assert found.usage == Usage(5, 1)
    assert (found.model, found.response_id) == ("m", "c")


PROMPT = Prompt("g", None, 'What "é" is\n', 64, 5)


def test_a_chat_request() -> None:
    encode = CHAT.encoder("m", stream=True, extra_body={"temperature": 0})
    body = encode(PROMPT)
    assert encode(PROMPT) == body
    assert json.loads(body) == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0,
        "max_tokens": 64,
        "messages": [{"role": "user", "content": 'What "é" is\n'}],
    }


def test_a_completions_request_that_does_not_stream() -> None:
    body = TEXT.encoder("m", stream=False, extra_body={})(PROMPT)
    assert json.loads(body) == {
        "model": "m",
        "stream": False,
        "max_tokens": 64,
        "prompt": 'What "é" is\n',
    }


def test_what_differs_between_requests() -> None:
    encode = CHAT.encoder("m", stream=True, extra_body={"stream_options": None})
    own = b'[{"role":"system","content":"x"}]'
    body = encode(PROMPT._replace(tenant="t1", max_tokens=None, text="", messages=own))
    assert json.loads(body) == {
        "model": "m",
        "stream": True,
        "user": "t1",
        "messages": json.loads(own),
    }
    named = CHAT.encoder("m", stream=True, extra_body={"user": "u"})
    assert json.loads(named(PROMPT._replace(tenant="t1")))["user"] == "u"


@pytest.mark.parametrize("field", ["model", "stream", "max_tokens", "messages"])
def test_the_schedule_s_own_fields_are_not_the_user_s(field: str) -> None:
    with pytest.raises(UsageError, match=field):
        CHAT.encoder("m", stream=True, extra_body={field: 1})


def test_completions_cannot_carry_a_chat() -> None:
    encode = TEXT.encoder("m", stream=True, extra_body={})
    with pytest.raises(UsageError, match="openai-chat"):
        encode(PROMPT._replace(messages=b"[]"))
