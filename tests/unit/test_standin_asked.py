"""Reading request bodies: what is taken, and how the rest is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from loadgen.standin import asked
from loadgen.standin.asked import ChatBody, CompletionBody, TokenizeBody
from loadgen.standin.errors import ApiError

HELLO = {"role": "user", "content": "hello there"}


def chat(**fields: Any) -> ChatBody:
    return asked.read(msgspec.json.encode({"messages": [HELLO], **fields}), ChatBody)


def refusal(raw: bytes, kind: type[msgspec.Struct]) -> dict[str, Any]:
    with pytest.raises(ApiError) as caught:
        asked.read(raw, kind)
    assert caught.value.status == 400
    error: dict[str, Any] = caught.value.content["error"]
    return error


def test_unknown_fields_do_not_matter() -> None:
    body = chat(temperature=0, ignore_eos=True, stream_options={"other": 1})
    assert body.n == 1
    assert not body.stream


def test_the_newer_name_of_the_limit_goes_first() -> None:
    assert chat(max_tokens=7).answer_tokens == 7
    assert chat(max_tokens=7, max_completion_tokens=3).answer_tokens == 3
    assert chat().answer_tokens is None


@pytest.mark.parametrize(
    "content",
    ["hello there", [{"type": "text", "text": "hello "}, {"text": "there"}]],
)
def test_a_chat_and_its_tokenize_count_the_same(content: Any) -> None:
    messages = [{"role": "user", "content": content}, {"role": "assistant"}]
    raw = msgspec.json.encode({"messages": messages})
    body = asked.read(raw, ChatBody)
    assert body.pieces() == asked.read(raw, TokenizeBody).pieces()
    assert len(body.pieces()) == 2 + 3 * 3


@pytest.mark.parametrize(
    ("prompt", "tokens"), [("a b", 2), (["a b c"], 3), ([5, 6, 7, 8], 4)]
)
def test_one_prompt_as_text_or_numbers(prompt: Any, tokens: int) -> None:
    body = asked.read(msgspec.json.encode({"prompt": prompt}), CompletionBody)
    assert len(body.pieces()) == tokens
    assert body.answer_tokens == 16


@pytest.mark.parametrize("prompt", [["a", "b"], []])
def test_several_prompts_or_none_are_refused(prompt: list[str]) -> None:
    body = asked.read(msgspec.json.encode({"prompt": prompt}), CompletionBody)
    with pytest.raises(ApiError) as caught:
        body.pieces()
    assert caught.value.status == 400


@pytest.mark.parametrize("content", [5, [{"type": "image_url"}], ["text"]])
def test_what_is_not_text_is_refused(content: Any) -> None:
    body = chat(messages=[{"role": "user", "content": content}])
    with pytest.raises(ApiError) as caught:
        body.pieces()
    assert caught.value.status == 400


@pytest.mark.parametrize(
    ("raw", "param"),
    [
        (b"{bad json", "body"),
        (b"", "body"),
        (b'{"messages": "\xff"}', "body.messages"),
        (b'{"messages":"x"}', "body.messages"),
        (b'{"model":"m"}', "body.messages"),
        (b'{"messages":[],"max_tokens":"many"}', "body.max_tokens"),
        (b"[]", "body"),
    ],
)
def test_a_wrong_body_names_the_place(raw: bytes, param: str) -> None:
    error = refusal(raw, ChatBody)
    assert error["type"] == "Bad Request"
    assert error["param"] == param
    assert error["message"].startswith("1 validation error:\n  {'type': ")


def test_tokenize_needs_something_to_count() -> None:
    body = asked.read(b"{}", TokenizeBody)
    with pytest.raises(ApiError) as caught:
        body.pieces()
    assert caught.value.content["error"]["param"] == "body.prompt"


@pytest.mark.parametrize(
    ("wanted", "prompt", "given"),
    [
        (7, 5, (7, "length")),
        (1, 99, (1, "length")),
        (95, 5, (95, "length")),
        (None, 60, (40, "length")),
    ],
)
def test_the_answer_is_as_long_as_asked(
    wanted: int | None, prompt: int, given: tuple[int, str]
) -> None:
    assert asked.answer_length(wanted, prompt, max_model_len=100) == given


def test_without_a_limit_the_model_ends_by_itself() -> None:
    assert asked.answer_length(None, 5, 4096) == (asked.DEFAULT_ANSWER_TOKENS, "stop")


@pytest.mark.parametrize(
    ("wanted", "prompt", "param", "words"),
    [
        (5000, 5, "max_tokens", "max_tokens=5000 cannot be greater than max_model_len"),
        (0, 5, "max_tokens", "must be at least 1"),
        (None, 100, "input_tokens", "your prompt contains 100 input tokens, which"),
        (10, 95, "input_tokens", "you requested 10 output tokens and your prompt"),
    ],
)
def test_what_does_not_fit_is_worded_as_vllm_does(
    wanted: int | None, prompt: int, param: str, words: str
) -> None:
    with pytest.raises(ApiError) as caught:
        asked.answer_length(wanted, prompt, max_model_len=100)
    error = caught.value.content["error"]
    assert (error["type"], error["code"]) == ("BadRequestError", 400)
    assert error["param"] == param
    assert words in error["message"]
