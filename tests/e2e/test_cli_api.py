"""`--api auto` asks the server, by GETs alone, which API it speaks."""

from __future__ import annotations

import asyncio

import pytest

from loadgen.control.ask import open_session
from loadgen.control.dialect import find_api
from loadgen.control.target import parse_target
from loadgen.errors import TargetError
from tests.recording_server import MODELS, Answer, Recording, recording_server

JSON = "application/json"
ANTHROPIC = b'{"data":[{"type":"model","id":"m","display_name":"M"}],"has_more":false}'
NO_CHAT = {
    "/v1/models": (200, JSON, MODELS),
    "/v1/completions": (405, JSON, b"{}"),
}


def found(gets: dict[str, Answer]) -> str:
    recording = Recording(gets=gets)

    async def ask_it() -> str:
        async with open_session(parse_target(recording.url), {}, None) as session:
            return await find_api(session)

    with recording_server(recording):
        api = asyncio.run(ask_it())
    assert recording.bodies == []
    return api


@pytest.mark.parametrize(
    ("gets", "api"),
    [
        ({"/v1/models": (200, JSON, MODELS)}, "openai-chat"),
        (NO_CHAT, "openai-completions"),
        ({"/v1/models": (200, JSON, ANTHROPIC)}, "anthropic"),
        ({"/api/tags": (200, JSON, b'{"models":[]}')}, "ollama"),
        ({"/get_model_info": (200, JSON, b'{"model_path":"/m"}')}, "sglang"),
        ({"/props": (200, JSON, b'{"default_generation_settings":{}}')}, "llamacpp"),
        ({"/info": (200, JSON, b'{"model_id":"m"}')}, "tgi"),
        # junk in one place is no answer there, and does not hide the next
        (
            {
                "/v1/models": (200, "text/html", b"<html>"),
                "/api/tags": (200, JSON, b"[1]"),
                "/info": (200, JSON, b'{"model_id":"m"}'),
            },
            "tgi",
        ),
    ],
)
def test_each_server_is_known_by_what_only_it_says(
    gets: dict[str, Answer], api: str
) -> None:
    assert found(gets) == api


@pytest.mark.parametrize(
    ("gets", "said"),
    [
        ({}, "name it by --api"),
        ({"/v1/models": (401, JSON, b"{}")}, "--api-key-env"),
    ],
)
def test_a_server_that_does_not_tell_is_never_guessed(
    gets: dict[str, Answer], said: str
) -> None:
    with pytest.raises(TargetError, match=said):
        found(gets)
