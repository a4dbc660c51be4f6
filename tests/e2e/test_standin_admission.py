"""Whom the stand-in lets in, over loopback: both checks, and those who hang up."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import pytest

from loadgen.sim.engine import EngineSpec
from loadgen.standin import StandinOptions
from loadgen.units import NS_PER_MS
from tests.e2e.standin_client import HELLO, Answer, Client, Connection, served

BUSY = "The engine is currently busy"

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
