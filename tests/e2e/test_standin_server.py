"""The stand-in as a process, over loopback, by a client that shares no code."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from loadgen.errors import TargetError
from loadgen.sim.engine import EngineSpec
from loadgen.standin import Faults, Standin, StandinOptions, start
from loadgen.units import NS_PER_MS

FAST = StandinOptions(speed=20)
HELLO = [{"role": "user", "content": "hello there"}]
BUSY = "The engine is currently busy"
LIMIT_S = 30.0


class Answer(msgspec.Struct):
    """One whole exchange; ``closed`` tells a cut from an ended message."""

    status: int
    headers: dict[str, str]
    body: bytes
    closed: bool

    @property
    def events(self) -> list[str]:
        return [
            event.removeprefix("data: ")
            for event in self.body.decode().split("\n\n")
            if event
        ]

    @property
    def json(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.body)
        return content


class Connection:
    """One HTTP/1.1 connection, as plain as can be; one request at a time."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def to(cls, url: str) -> Connection:
        parts = urlsplit(url)
        return cls(*await asyncio.open_connection(parts.hostname, parts.port))

    def send(
        self, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> None:
        raw = b"" if body is None else _raw(body)
        head = [f"{'GET' if body is None else 'POST'} {path} HTTP/1.1", "Host: here"]
        head += [f"{name}: {value}" for name, value in (headers or {}).items()]
        head += [f"Content-Length: {len(raw)}", "", ""]
        self.writer.write("\r\n".join(head).encode() + raw)

    async def answer(self) -> Answer:
        head = await self.reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode().strip().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        headers = {name.lower(): value for name, value in headers.items()}
        body, closed = b"", False
        if headers.get("transfer-encoding") == "chunked":
            try:
                while size := int(await self.reader.readline() or b"x", 16):
                    body += (await self.reader.readexactly(size + 2))[:-2]
                await self.reader.readline()
            except (ValueError, asyncio.IncompleteReadError, ConnectionError):
                closed = True
        else:
            body = await self.reader.readexactly(int(headers.get("content-length", 0)))
        return Answer(int(first.split()[1]), headers, body, closed)

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


def _raw(body: Any) -> bytes:
    return body if isinstance(body, bytes) else json.dumps(body).encode()


class Client:
    """Requests to one stand-in, each on a connection of its own."""

    def __init__(self, standin: Standin) -> None:
        self.standin = standin

    async def ask(
        self, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Answer:
        connection = await Connection.to(self.standin.url)
        try:
            connection.send(path, body, headers)
            return await connection.answer()
        finally:
            await connection.close()

    async def chat(self, **fields: Any) -> Answer:
        body = {"messages": HELLO, "stream": True, "max_tokens": 5, **fields}
        return await self.ask("/v1/chat/completions", body)

    async def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that have these labels."""
        text = (await self.ask("/metrics")).body.decode()
        values = [
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]
        assert values, f"no sample {name} {labels}"
        return sum(values)

    async def until(self, name: str, value: float) -> None:
        """Look at a metric until it has the value."""
        for _ in range(1000):
            if await self.metric(name) == value:
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"{name} never was {value}")


Scenario = Callable[[Client], Awaitable[None]]


def served(scenario: Scenario, options: StandinOptions = FAST) -> None:
    async def main() -> None:
        standin = await start(options)
        try:
            await asyncio.wait_for(scenario(Client(standin)), LIMIT_S)
        finally:
            assert await standin.stop() == 0

    asyncio.run(main())


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
            ({"messages": HELLO, "n": 20}, 503, BUSY),
            ({"messages": HELLO, "n": 2}, 400, "stand-in"),
        ]
        for body, status, words in cases:
            answer = await client.ask("/v1/chat/completions", body)
            assert (answer.status, words in answer.json["error"]["message"]) == (
                status,
                True,
            )

    served(scenario)


# A front slow enough that the whole burst has come before the first is pulled.
BURST = StandinOptions(
    engine=EngineSpec(max_num_queued_reqs=8), front_ns=200 * NS_PER_MS
)


async def burst(client: Client, calls: int, **fields: Any) -> Counter[str]:
    """Send on connections already open, all at once; what became of them."""
    opening = (Connection.to(client.standin.url) for _ in range(calls))
    connections = await asyncio.gather(*opening)
    body = {"messages": HELLO, "max_tokens": 16, **fields}
    for connection in connections:
        connection.send("/v1/chat/completions", body)
    answers = await asyncio.gather(*(each.answer() for each in connections))
    await asyncio.gather(*(each.close() for each in connections))
    return Counter(_fate(answer) for answer in answers)


def _fate(answer: Answer) -> str:
    if BUSY.encode() not in answer.body:
        assert answer.status == 200
        return "ok"
    if answer.status == 503:
        return "http"
    assert (answer.status, len(answer.events)) == (200, 2)
    assert json.loads(answer.events[0])["error"]["code"] == 503
    assert answer.events[1] == "[DONE]"
    return "in stream"


def test_a_tight_burst_is_refused_inside_the_200() -> None:
    async def scenario(client: Client) -> None:
        fates = await burst(client, 40, stream=True)
        assert fates["ok"] == 8
        assert fates["in stream"] + fates["http"] == 32
        assert fates["in stream"] > fates["http"]
        refused = await client.metric(
            "vllm:admission_rejections_total", reason="max_num_queued_reqs"
        )
        succeeded = await client.metric(
            "vllm:request_success_total", finished_reason="length"
        )
        assert (refused, succeeded) == (32, 8)
        by_status = await client.metric("http_requests_total", status="2xx")
        assert by_status >= 8 + fates["in stream"]  # status alone sees no refusal

    served(scenario, BURST)


def test_without_a_stream_both_checks_are_http_503() -> None:
    async def scenario(client: Client) -> None:
        assert await burst(client, 20, stream=False) == {"ok": 8, "http": 12}

    served(scenario, BURST)


def test_a_full_token_backlog_is_named() -> None:
    async def scenario(client: Client) -> None:
        connection = await Connection.to(client.standin.url)
        long = [{"role": "user", "content": "word " * 900}]
        connection.send("/v1/chat/completions", {"messages": long, "stream": True})
        await client.until("vllm:num_requests_running", 1)
        refused = await client.chat()
        assert refused.status == 503
        assert "prefill token backlog" in refused.json["error"]["message"]
        await connection.close()
        assert (
            await client.metric(
                "vllm:admission_rejections_total", reason="max_num_queued_tokens"
            )
            == 1
        )

    spec = EngineSpec(max_num_queued_tokens=500, max_num_batched_tokens=8)
    served(scenario, StandinOptions(engine=spec, front_ns=0))


@pytest.mark.parametrize("stream", [True, False])
def test_who_hangs_up_frees_the_engine_and_is_counted_nowhere(stream: bool) -> None:
    async def scenario(client: Client) -> None:
        connection = await Connection.to(client.standin.url)
        body = {"messages": HELLO, "max_tokens": 4000, "stream": stream}
        connection.send("/v1/chat/completions", body)
        await client.until("vllm:num_requests_running", 1)
        await connection.close()
        await client.until("vllm:num_requests_running", 0)
        assert await client.metric("vllm:kv_cache_usage_perc") == 0
        assert await client.metric("vllm:request_success_total") == 0

    served(scenario)


@pytest.mark.parametrize("tokens", [0, 3])
def test_a_cut_stream_has_no_end(tokens: int) -> None:
    async def scenario(client: Client) -> None:
        answer = await client.chat()
        assert (answer.status, answer.closed) == (200, True)
        assert answer.body.count(b'"token_ids"') == tokens
        assert b"[DONE]" not in answer.body

    served(scenario, msgspec.structs.replace(FAST, faults=Faults(cut_after=tokens)))


def test_a_reset_is_a_reset() -> None:
    async def scenario(client: Client) -> None:
        connection = await Connection.to(client.standin.url)
        connection.send("/v1/chat/completions", {"messages": HELLO, "stream": True})
        with pytest.raises(ConnectionResetError):
            await connection.reader.read()
        await connection.close()

    served(scenario, msgspec.structs.replace(FAST, faults=Faults(reset_after=2)))


def test_a_stalled_stream_stays_open_and_silent() -> None:
    async def scenario(client: Client) -> None:
        connection = await Connection.to(client.standin.url)
        connection.send("/v1/chat/completions", {"messages": HELLO, "stream": True})
        text = b""
        while text.count(b'"token_ids"') < 2:
            text += await connection.reader.read(4096)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(connection.reader.read(4096), 0.2)
        await connection.close()

    served(scenario, msgspec.structs.replace(FAST, faults=Faults(stall_after=2)))


def test_an_engine_fault_is_500_or_inside_the_stream() -> None:
    async def scenario(client: Client) -> None:
        stream = await client.chat()
        *_, error, done = stream.events
        assert (stream.status, done) == (200, "[DONE]")
        assert json.loads(error)["error"]["code"] == 500
        whole = await client.chat(stream=False)
        assert whole.status == 500
        assert whole.json["error"]["type"] == "InternalServerError"

    served(scenario, msgspec.structs.replace(FAST, faults=Faults(error_after=2)))


def test_each_third_is_refused_and_counted() -> None:
    async def scenario(client: Client) -> None:
        statuses = [(await client.chat()).status for _ in range(6)]
        assert statuses == [200, 200, 503] * 2
        refused = await client.metric("vllm:admission_rejections_total")
        assert refused == 2

    served(scenario, msgspec.structs.replace(FAST, faults=Faults(refuse_every=3)))


def test_the_gateway_is_no_engine() -> None:
    async def scenario(client: Client) -> None:
        assert (await client.chat()).status == 200
        limited = await client.chat()
        assert limited.status == 429
        assert int(limited.headers["retry-after"]) >= 1
        assert await client.metric("vllm:admission_rejections_total") == 0

    served(scenario, msgspec.structs.replace(FAST, faults=Faults(rate_limit_rps=0.01)))


def test_a_loading_model_is_503_also_for_health() -> None:
    async def scenario(client: Client) -> None:
        for answer in (await client.chat(), await client.ask("/health")):
            assert answer.status == 503
            assert answer.json["error"]["message"] == "Loading model"
        assert (await client.ask("/metrics")).status == 200

    faults = Faults(loading_ns=60_000 * NS_PER_MS)
    served(scenario, msgspec.structs.replace(FAST, faults=faults))


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
