"""Whether a run can be offered to a server, by what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from loadgen.doctor.check import Check, Status
from loadgen.doctor.server.reply import MODELS, Reply
from tests.unit.doctor_replies import look, models, reply


def only(first: Reply, thing: str) -> Check:
    return look(first)[thing]


def test_no_answer_ends_the_looking() -> None:
    first = Reply(path=MODELS, trouble="connect", words="no connection: \x1b[31mno")
    checks = look(first)
    assert list(checks) == ["reach"]
    assert checks["reach"].status is Status.FAIL
    assert "\x1b" not in checks["reach"].found


@pytest.mark.parametrize(
    ("first", "thing", "found"),
    [
        (reply(MODELS, {"error": "no"}, 401), "access", "not let in (401"),
        (reply(MODELS, b"", 302, location="http://a\x1b/"), "access", "\\x1b"),
        (reply(MODELS, b"<!DOCTYPE html><p>Log in"), "api", "an HTML page (200)"),
        (reply(MODELS, b"\x00\xffjunk"), "api", "no JSON"),
        (reply(MODELS, b"[" * 100_000), "api", "no JSON"),
        (
            reply(MODELS, {"error": {"message": "Loading model"}}, 503),
            "ready",
            "503 'Loading model'",
        ),
    ],
)
def test_what_makes_a_run_pointless(first: Reply, thing: str, found: str) -> None:
    check = only(first, thing)
    assert check.status is Status.FAIL
    assert found in check.found


@pytest.mark.parametrize(
    ("listed", "model", "status"),
    [
        (("a",), None, Status.OK),
        (("a",), "a", Status.OK),
        (("a", "b"), None, Status.WARN),
        (("a", "b"), "b", Status.OK),
        (("a", "b"), "c", Status.FAIL),
    ],
)
def test_the_model_that_a_run_would_name(
    listed: tuple[str, ...], model: str | None, status: Status
) -> None:
    checks = look(reply(MODELS, models("vllm", *listed)), model=model)
    assert checks["models"].status is status


@pytest.mark.parametrize("data", [None, 3, [3, None, {"id": 3}], {"a": 1}])
def test_lists_of_anything_else_name_no_model(data: object) -> None:
    check = only(reply(MODELS, {"data": data}), "models")
    assert (check.status, check.found) == (Status.WARN, "none listed")


POSTED: Mapping[str, int] = {
    "/v1/chat/completions": 405,
    "/v1/completions": 405,
    "/api/chat": 404,
}


def test_dialects_by_what_a_get_is_told() -> None:
    replies = [reply(path, b"", status) for path, status in POSTED.items()]
    assert look(*replies)["api"].found == "openai-chat, openai-completions"
    check = look(*replies, api="ollama")["api"]
    assert check.status is Status.FAIL
    assert check.found.startswith("no ollama (/api/chat)")
    told_apart = [reply(path, b"", 404) for path in POSTED]
    assert look(*told_apart, api="ollama")["api"].status is Status.OK


@pytest.mark.parametrize(
    ("generated", "status", "found"),
    [
        (
            {
                "choices": [{"message": {"content": "Hi"}, "finish_reason": "length"}],
                "usage": {"prompt_tokens": 9, "completion_tokens": 1},
            },
            Status.OK,
            "9 prompt and 1 output tokens",
        ),
        ({"error": {"message": "busy"}}, Status.FAIL, "200, but 'busy'"),
        (b"<html>", Status.FAIL, "200, but"),
    ],
)
def test_one_generation(generated: Any, status: Status, found: str) -> None:
    check = look(generated=reply("/v1/chat/completions", generated))["generation"]
    assert check.status is status
    assert found in check.found


def test_a_generation_that_is_refused_or_lost() -> None:
    refused = reply("/v1/chat/completions", {"error": {"message": "busy"}}, 503)
    assert "503 'busy'" in look(generated=refused)["generation"].found
    lost = Reply(path="/v1/chat/completions", trouble="timeout", words="no answer")
    assert look(generated=lost)["generation"].status is Status.FAIL


def test_a_generation_needs_a_models_name() -> None:
    check = look(reply(MODELS, models("vllm", "a", "b")), probe=True)["generation"]
    assert (check.status, check.do) == (Status.UNKNOWN, "name one by --model")
