"""The server without an engine, by a plain client that shares no code with ours."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

LIMIT_S = 20


class Null:
    """A running null server, and its account once it has ended."""

    def __init__(self, process: subprocess.Popen[bytes], host: str, port: int) -> None:
        self.process, self.host, self.port = process, host, port
        self.stats: dict[str, Any] = {}

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.host, self.port, timeout=LIMIT_S)


@contextmanager
def serving(*flags: str) -> Iterator[Null]:
    with subprocess.Popen(
        [sys.executable, "-m", "loadgen.standin.null", *flags],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        url = urlsplit(json.loads(process.stdout.readline())["url"])
        null = Null(process, str(url.hostname), int(url.port or 0))
        yield null
        process.stdin.close()
        null.stats = json.loads(process.stdout.readline())
        assert process.wait(LIMIT_S) == 0


def post(connection: http.client.HTTPConnection, tokens: int) -> list[str]:
    """The events of one answer."""
    connection.request(
        "POST",
        "/v1/chat/completions",
        json.dumps({"messages": [], "max_tokens": tokens}),
        {"X-Request-Id": f"id-{tokens}"},
    )
    answer = connection.getresponse()
    assert answer.status == 200
    events = answer.read().decode().split("\n\n")
    assert events.pop() == ""
    return [event.removeprefix("data: ") for event in events]


@pytest.mark.parametrize("pace", [(), ("--ttft-us=3000", "--itl-us=1000")])
def test_an_answer_has_its_tokens_usage_and_end(pace: tuple[str, ...]) -> None:
    with serving(*pace) as null:
        connection = null.connect()
        for tokens in (3, 1):  # over one connection, one after another
            *events, done = post(connection, tokens)
            assert done == "[DONE]"
            choices = [json.loads(event)["choices"] for event in events]
            words = [c[0]["delta"].get("content") for c in choices[:tokens]]
            assert words == [" word"] * tokens
            assert choices[tokens][0]["finish_reason"] == "length"
            usage = json.loads(events[-1])["usage"]
            assert usage["completion_tokens"] == tokens
        connection.close()
    assert (null.stats["requests"], null.stats["tokens"]) == (2, 4)


def test_more_than_a_socket_takes_at_once_arrives_whole() -> None:
    with serving() as null:
        connection = null.connect()
        assert len(post(connection, 60_000)) == 60_003
        connection.close()
    assert null.stats["tokens"] == 60_000


def test_a_request_in_pieces_is_one_request() -> None:
    body = b'{"max_tokens":2}'
    request = b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b"
    data = request % (len(body), body)
    with serving() as null:
        with socket.create_connection((null.host, null.port), LIMIT_S) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for at in range(0, len(data), 20):
                sock.sendall(data[at : at + 20])
            answer = b""
            while not answer.endswith(b"0\r\n\r\n"):
                answer += sock.recv(65_536)
        assert answer.count(b" word") == 2
    assert null.stats["requests"] == 1


def test_what_else_is_asked_is_answered_too() -> None:
    with serving() as null:
        connection = null.connect()
        connection.request("GET", "/v1/models")
        models = json.loads(connection.getresponse().read())
        assert [model["id"] for model in models["data"]] == ["null"]
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (404, b"{}")
        connection.close()
    assert null.stats["requests"] == 0


def test_a_client_that_leaves_is_forgotten(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with serving("--ttft-us=1000", "--itl-us=5000", f"--log={log}") as null:
        leaving, staying = null.connect(), null.connect()
        leaving.request("POST", "/v1/chat/completions", '{"max_tokens":1000}')
        leaving.getresponse().read1(10)
        leaving.close()
        assert len(post(staying, 20)) == 23
        staying.close()
    served = [json.loads(line) for line in log.read_bytes().splitlines()]
    (whole,) = [one for one in served if one["request_id"] == "id-20"]
    assert len(whole["token_ns"]) == 20
    assert whole["token_ns"] == sorted(whole["token_ns"])
    assert whole["read_ns"] < whole["token_ns"][0]
