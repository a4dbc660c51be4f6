"""What vLLM says it did, and a way to keep it busy."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.engines.burst import bursting
from tests.engines.plain_http import counter
from tests.engines.servers import Server

__all__ = [
    "FILL",
    "LONG_ANSWER",
    "Counts",
    "counts",
    "full",
    "settled",
    "wait_until_idle",
]

LONG_ANSWER = ("--max-tokens", "1500", "--extra-body", '{"ignore_eos": true}')
# As many requests as the shared server takes: 4 that run and 4 that wait.
FILL = 8
CHAT = "/v1/chat/completions"


class Counts(NamedTuple):
    """What the engine has counted since it started.

    ``refused`` is by the given cap; ``http_ok`` counts answers that began with 2xx.
    """

    refused: float
    succeeded: float
    http_ok: float

    def __sub__(self, earlier: Counts) -> Counts:
        return Counts(*(a - b for a, b in zip(self, earlier, strict=True)))


def counts(server: Server, reason: str = "max_num_queued_reqs") -> Counts:
    try:
        http_ok = counter(server.url, "http_requests_total", handler=CHAT, status="2xx")
    except LookupError:  # the series appears with the first such answer
        http_ok = 0.0
    return Counts(
        counter(server.url, "vllm:admission_rejections_total", reason=reason),
        counter(server.url, "vllm:request_success_total"),
        http_ok,
    )


def settled(server: Server, reason: str = "max_num_queued_reqs") -> Counts:
    """The counts once they no longer move: they follow the answers a step behind."""
    deadline = time.monotonic() + 20
    before = counts(server, reason)
    while time.monotonic() < deadline:
        time.sleep(0.3)
        now = counts(server, reason)
        if now == before:
            break
        before = now
    return before


def load(server: Server) -> tuple[float, float]:
    return (
        counter(server.url, "vllm:num_requests_running"),
        counter(server.url, "vllm:num_requests_waiting"),
    )


@contextmanager
def full(server: Server, out: Path) -> Iterator[None]:
    """Keep a server at its cap for some 10 s at least, or until leaving."""
    at_once = ("--rate", f"{FILL * 1000}/s", "--duration", "1ms")
    with bursting(server.url, out, *at_once, *LONG_ANSWER) as filling:
        deadline = time.monotonic() + 60
        while sum(load(server)) < FILL:
            assert filling.under_way(), "the server was never full"
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield
        assert filling.under_way(), "the server was not full to the end"
    wait_until_idle(server)


def wait_until_idle(server: Server) -> None:
    deadline = time.monotonic() + 30
    while sum(load(server)) > 0 and time.monotonic() < deadline:
        time.sleep(0.05)
