"""The stand-in as a process: its endpoints, its beginning and its end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from loadgen.errors import TargetError
from loadgen.standin import start
from tests.e2e.standin_client import (
    FAST,
    HELLO,
    LIMIT_S,
    Answer,
    Client,
    Connection,
    served,
)


def test_each_endpoint_answers_and_says_stand_in() -> None:
    async def scenario(client: Client) -> None:
        health = await client.ask("/health")
        assert (health.status, health.body) == (200, b"")
        assert "stand-in" in (await client.ask("/version")).json["version"]
        (model,) = (await client.ask("/v1/models")).json["data"]
        assert (model["id"], model["max_model_len"]) == ("stand-in", 4096)
        unknown = await client.ask("/nope")
        assert (unknown.status, unknown.json) == (404, {"detail": "Not Found"})
        for answer in (health, unknown, await client.chat(), await client.chat(n=2)):
            assert answer.headers["server"].startswith("loadgen-stand-in/")
            assert answer.headers["x-request-id"]

    served(scenario)


def test_a_stream_carries_its_tokens_usage_and_id() -> None:
    async def scenario(client: Client) -> None:
        body = {
            "messages": HELLO,
            "max_tokens": 5,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        headers = {"X-Request-Id": "mine-7"}
        answer = await client.ask("/v1/chat/completions", body, headers)
        assert answer.status == 200
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        *chunks, done = answer.events
        assert done == "[DONE]"
        opening, *tokens, usage = [json.loads(chunk) for chunk in chunks]
        assert {chunk["id"] for chunk in tokens} == {"chatcmpl-mine-7"}
        assert opening["choices"][0]["delta"] == {"role": "assistant", "content": ""}
        reasons = [chunk["choices"][0]["finish_reason"] for chunk in tokens]
        assert reasons == [None] * 4 + ["length"]
        assert usage["choices"] == []
        counted = await client.ask("/tokenize", {"messages": HELLO})
        assert usage["usage"] == {
            "prompt_tokens": counted.json["count"],
            "completion_tokens": 5,
            "total_tokens": counted.json["count"] + 5,
        }
        again = await client.ask("/v1/chat/completions", body, headers)
        assert _text(again) == _text(answer) != ""

    served(scenario)


def _text(answer: Answer) -> str:
    chunks = (json.loads(event) for event in answer.events if event != "[DONE]")
    return "".join(
        choice["delta"].get("content", "")
        for chunk in chunks
        for choice in chunk["choices"]
    )


def test_whole_answers_and_completions() -> None:
    async def scenario(client: Client) -> None:
        whole = await client.chat(stream=False)
        assert whole.json["choices"][0]["finish_reason"] == "length"
        assert whole.json["usage"]["completion_tokens"] == 5
        text = await client.ask("/v1/completions", {"prompt": "a b c"})
        assert text.json["usage"]["prompt_tokens"] == 3
        assert text.json["usage"]["completion_tokens"] == 16
        stream = await client.ask(
            "/v1/completions", {"prompt": [7, 8], "max_tokens": 2, "stream": True}
        )
        assert [json.loads(e)["object"] for e in stream.events[:-1]] == [
            "text_completion"
        ] * 2

    served(scenario)


def test_bad_requests_are_refused_as_vllm_does() -> None:
    async def scenario(client: Client) -> None:
        long = [{"role": "user", "content": "word " * 5000}]
        cases: list[tuple[Any, int, str]] = [
            (b"{bad json", 400, "validation error"),
            ({"messages": HELLO, "model": "nope"}, 404, "`nope` does not exist"),
            ({"messages": long}, 400, "maximum context length is 4096 tokens"),
            ({"messages": HELLO, "max_tokens": 5000}, 400, "max_model_len=4096"),
            ({"messages": HELLO, "n": 20}, 503, "engine is currently busy"),
            ({"messages": HELLO, "n": 2}, 400, "stand-in"),
        ]
        for body, status, words in cases:
            answer = await client.ask("/v1/chat/completions", body)
            assert (answer.status, words in answer.json["error"]["message"]) == (
                status,
                True,
            )

    served(scenario)


def test_its_options_must_be_possible() -> None:
    async def main() -> None:
        taken = await start(FAST)
        try:
            port = urlsplit(taken.url).port
            assert port is not None
            with pytest.raises(TargetError, match="cannot listen"):
                await start(msgspec.structs.replace(FAST, port=port))
        finally:
            await taken.stop()

    asyncio.run(main())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly_with_streams_open(
    number: signal.Signals, tmp_path: Path
) -> None:
    async def main() -> None:
        standin = await start(log_path=tmp_path / "log")
        connection = await Connection.to(standin.url)
        body = {"messages": HELLO, "max_tokens": 4000, "stream": True}
        connection.send("/v1/chat/completions", body)
        await connection.reader.readuntil(b"role")
        os.kill(standin.pid, number)
        await asyncio.wait_for(connection.reader.read(), LIMIT_S)
        await connection.close()
        assert await standin.stop(grace_s=LIMIT_S) == 0
        assert "Traceback" not in (tmp_path / "log").read_text()

    asyncio.run(main())


def test_an_orphan_ends_by_itself() -> None:
    async def main() -> None:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "loadgen.standin", "--parent-stdin"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        ready = json.loads(await process.stdout.readline())
        assert ready["pid"] == process.pid
        process.stdin.close()
        assert await asyncio.wait_for(process.wait(), LIMIT_S) == 0

    asyncio.run(main())
