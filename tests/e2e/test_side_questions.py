"""What a server may say beside the load: hostile answers stop and leak nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from loadgen.control.ask import Session, ask, open_session
from loadgen.control.dialect import find_api
from loadgen.control.lengths import PromptLengths, count_locally, count_on_server
from loadgen.control.preflight import look_at
from loadgen.control.secrets import to_hide
from loadgen.control.target import parse_target
from loadgen.errors import TargetError
from tests.recording_server import Answer, Recording, recording_server

T = TypeVar("T")
KEY = "sk-s3cret/key+"
JSON = "application/json"
DEEP = b'{"data":' + b"[" * 50_000 + b"]" * 50_000 + b"}"


def asked(
    gets: dict[str, Answer],
    question: Callable[[Session], Awaitable[T]],
    *,
    posts: dict[str, Answer] | None = None,
) -> T:
    recording = Recording(side_posts=posts or {})
    recording.gets |= gets

    async def run() -> T:
        target = parse_target(recording.url)
        async with open_session(target, {}, None, to_hide([], KEY)) as session:
            return await question(session)

    with recording_server(recording):
        return asyncio.run(run())


def models(*names: str) -> dict[str, Answer]:
    body = json.dumps({"data": [{"id": name} for name in names]}).encode()
    return {"/v1/models": (200, JSON, body)}


@pytest.mark.parametrize("body", [DEEP, b'{"data":5}', b'{"data":true}', b"\xff", b"["])
def test_a_list_of_models_that_is_none(body: bytes) -> None:
    gets: dict[str, Answer] = {"/v1/models": (200, JSON, body)}
    found = asked(gets, lambda session: look_at(session, "m"))
    assert found.models == ()
    with pytest.raises(TargetError, match="name one by --model"):
        asked(gets, lambda session: look_at(session, None))


def test_a_name_as_long_as_a_book_is_no_model() -> None:
    found = asked(models("x" * 100_000, "m"), lambda session: look_at(session, "m"))
    assert found.models == ("m",)


def test_a_version_is_kept_short() -> None:
    said: Answer = (200, JSON, json.dumps({"version": "v" * 100_000}).encode())
    found = asked({"/version": said}, lambda session: look_at(session, "m"))
    assert len(found.version or "") <= 1024


def test_our_key_said_back_is_not_repeated() -> None:
    said: Answer = (200, JSON, json.dumps({"version": KEY}).encode())
    gets = models(KEY) | {"/version": said}
    found = asked(gets, lambda session: look_at(session, None))
    assert KEY not in str(found)
    for status, body in ((500, b"y" * 100 + KEY.encode()), (503, KEY.encode())):
        answer: Answer = (status, "text/plain", body)
        with pytest.raises(TargetError) as raised:
            asked({"/v1/models": answer}, lambda session: look_at(session, None))
        assert "s3cret" not in str(raised.value)
    with pytest.raises(TargetError) as raised:
        asked(models(KEY, "n"), lambda session: look_at(session, None))
    assert "s3cret" not in str(raised.value)


def test_our_key_is_taken_out_of_headers_and_errors() -> None:
    async def headers_of(session: Session) -> dict[str, str]:
        assert session.said(ValueError(f"bad {KEY}")) == "bad [redacted]"
        return (await ask(session, "/x")).headers

    assert KEY not in str(asked({"/x": (200, f"a/{KEY}", b"")}, headers_of))


@pytest.mark.parametrize(
    "body",
    [
        b'{"count":-1}',
        b'{"count":99999999999}',
        b'{"count":2147483648}',
        b'{"count":1e30}',
        b'{"count":true}',
        b'{"tokens":5}',
        DEEP,
        b"\xff",
    ],
)
def test_a_count_that_cannot_be_is_none(body: bytes) -> None:
    counted = asked(
        {},
        lambda session: count_on_server(session, [b'{"prompt":"a"}'], "m"),
        posts={"/tokenize": (200, JSON, body)},
    )
    assert isinstance(counted, str)


def test_a_sealed_body_may_be_any_json() -> None:
    bodies = [b"5", b"[]", b'{"messages":5}', b'{"messages":[5]}', b'{"prompt":[1]}']
    bodies += [b'{"a":' + b"[" * 50_000 + b"]" * 50_000 + b"}", b'{"prompt":"abc"}']
    counted = asked(
        {},
        lambda session: count_on_server(session, bodies, "m"),
        posts={"/tokenize": (200, JSON, b'{"count":3}')},
    )
    assert isinstance(counted, PromptLengths)
    assert list(count_locally(bodies, len).tokens) == [-1, -1, -1, 0, -1, -1, 3]


def test_which_api_is_asked_of_nonsense() -> None:
    gets: dict[str, Answer] = {"/v1/models": (200, JSON, b'{"data":5}')}
    assert asked(gets, find_api) == "openai-chat"
