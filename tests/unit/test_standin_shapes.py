"""The answers' JSON against what a real vLLM 0.33.0 sent, key for key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from loadgen.sim.engine import Refusal
from loadgen.standin import errors, shapes
from loadgen.standin.shapes import Chat, Completion, Head, Json

HEAD = Head(
    request_id="r1",
    model="stand-in",
    created_s=1_796_071_659,
    prompt_tokens=5,
    finish_reason="length",
    include_usage=True,
    continuous_usage=False,
)
BARE = msgspec.structs.replace(HEAD, include_usage=False)
CONTINUOUS = msgspec.structs.replace(HEAD, continuous_usage=True)

OURS: dict[str, Json | None] = {
    "chat opening": Chat().opening(HEAD),
    "chat opening, continuous usage": Chat().opening(CONTINUOUS),
    "chat token": Chat().token(HEAD, " the", 1, last=False),
    "chat token, continuous usage": Chat().token(CONTINUOUS, " the", 1, last=False),
    "chat last token": Chat().token(HEAD, " end", 8, last=True),
    "chat last token, no usage": Chat().token(BARE, " end", 8, last=True),
    "chat usage": Chat().usage(HEAD, 8),
    "chat whole": Chat().whole(HEAD, "Words", 8),
    "completion token": Completion().token(HEAD, " the", 1, last=False),
    "completion last token": Completion().token(HEAD, " the", 8, last=True),
    "completion last token, no usage": Completion().token(BARE, " end", 8, last=True),
    "completion usage": Completion().usage(HEAD, 8),
    "tokenize": shapes.tokenized([1, 2], 2048, None),
}
ERRORS = {
    "busy": errors.refused(Refusal.QUEUED_REQS),
    "token backlog": errors.refused(Refusal.QUEUED_TOKENS),
    "engine fault": errors.engine_fault(),
    "unknown model": errors.unknown_model("nope", "tiny"),
    "max_tokens": errors.max_tokens_too_large(5000, 2048),
}


def captured() -> dict[str, str]:
    """What vLLM 0.33.0 sent, by what it was; read from the file beside this one."""
    lines = Path(__file__).with_suffix(".jsonl").read_text().splitlines()
    return {line["what"]: line["sent"] for line in map(json.loads, lines)}


def skeleton(value: Any) -> Any:
    """The keys in their order and the kinds of the values, without the values."""
    if isinstance(value, dict):
        return [(key, skeleton(item)) for key, item in value.items()]
    if isinstance(value, list):
        return [skeleton(item) for item in value[:1]]
    return type(value).__name__


def test_every_capture_has_its_counterpart() -> None:
    assert captured().keys() == OURS.keys() | ERRORS.keys()


@pytest.mark.parametrize("what", OURS)
def test_keys_order_and_kinds_are_the_captured_ones(what: str) -> None:
    ours = json.loads(msgspec.json.encode(OURS[what]))
    assert skeleton(ours) == skeleton(json.loads(captured()[what]))


@pytest.mark.parametrize("what", ERRORS)
def test_errors_are_byte_for_byte_the_captured_ones(what: str) -> None:
    body = ERRORS[what].body()
    assert body.decode() == captured()[what]
    assert Chat().stream_error(ERRORS[what]) == b"data: " + body + b"\n\n"
    assert ERRORS[what].headers == {}


@pytest.mark.parametrize(
    ("shape", "identity"), [(Chat(), "chatcmpl-r1"), (Completion(), "cmpl-r1")]
)
def test_the_request_id_is_in_the_response_id(
    shape: Chat | Completion, identity: str
) -> None:
    assert shape.token(HEAD, "x", 1, last=False)["id"] == identity
    assert shape.whole(HEAD, "x", 1)["id"] == identity


def test_every_answer_says_what_it_is() -> None:
    assert "stand-in" in Chat().whole(HEAD, "x", 1)["system_fingerprint"]
    assert "stand-in" in Chat().usage(HEAD, 1)["system_fingerprint"]
    (served,) = shapes.models("stand-in", 4096, 1)["data"]
    assert "stand-in" in served["owned_by"]
    assert served["max_model_len"] == 4096


def test_the_completions_endpoint_spaces_its_stream_errors() -> None:
    event = Completion().stream_error(errors.refused(Refusal.QUEUED_REQS))
    assert event.startswith(b'data: {"error": {"message": "The engine')
    assert event.endswith(b'"param": null, "code": 503}}\n\n')
