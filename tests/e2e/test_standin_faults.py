"""Each fault layer, seen from the other end of the connection."""

from __future__ import annotations

import asyncio
import json

import msgspec
import pytest

from loadgen.standin import Faults
from loadgen.units import NS_PER_S
from tests.e2e.standin_client import FAST, HELLO, Client, Connection, served


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

    faults = Faults(loading_ns=60 * NS_PER_S)
    served(scenario, msgspec.structs.replace(FAST, faults=faults))
