"""One outcome a request, by how it ended and what the answer said."""

from __future__ import annotations

from typing import Any

import pytest

from loadgen.model import Ending, Outcome, ServerError
from loadgen.wire.outcome import decide, is_refusal

BUSY = ServerError("The engine is currently busy", "Service Unavailable", 503)
DEAD = ServerError("The server had an error", "InternalServerError", 500)


def outcome(**given: Any) -> Outcome:
    plain: dict[str, Any] = {
        "ending": Ending.COMPLETE,
        "status": 200,
        "error": None,
        "tokens": 0,
        "finish_reason": None,
        "finished": False,
        "alien": False,
    }
    return decide(**(plain | given))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"finish_reason": "stop", "finished": True, "tokens": 3}, Outcome.OK),
        ({"finish_reason": "length", "finished": True}, Outcome.OK),
        ({"finished": True}, Outcome.OK),
        ({"finish_reason": "stop", "finished": False}, Outcome.TRUNCATED),
        ({"tokens": 5}, Outcome.TRUNCATED),
        ({}, Outcome.TRUNCATED),
        ({"alien": True}, Outcome.PROTOCOL_ERROR),
        ({"status": 503}, Outcome.HTTP_REJECT),
        ({"status": 302}, Outcome.HTTP_REJECT),
        ({"status": 529, "error": BUSY}, Outcome.HTTP_REJECT),
        ({"status": 503, "ending": Ending.RESET}, Outcome.HTTP_REJECT),
        ({"status": 503, "ending": Ending.IDLE}, Outcome.HTTP_REJECT),
        ({"error": BUSY}, Outcome.IN_STREAM_REJECT),
        ({"error": BUSY, "tokens": 1}, Outcome.IN_STREAM_ERROR),
        ({"error": DEAD}, Outcome.IN_STREAM_ERROR),
        ({"error": DEAD, "finished": True}, Outcome.IN_STREAM_ERROR),
        ({"error": BUSY, "ending": Ending.RESET}, Outcome.IN_STREAM_REJECT),
        ({"finish_reason": "abort", "finished": True}, Outcome.IN_STREAM_REJECT),
        (
            {"finish_reason": "abort", "finished": True, "tokens": 1},
            Outcome.IN_STREAM_ERROR,
        ),
        ({"finish_reason": "error", "finished": True}, Outcome.IN_STREAM_REJECT),
        ({"ending": Ending.DRAIN, "finished": True}, Outcome.OK),
        ({"ending": Ending.RESET, "finished": True}, Outcome.OK),
    ],
)
def test_an_answer_decides(given: dict[str, Any], expected: Outcome) -> None:
    assert outcome(**given) is expected


@pytest.mark.parametrize(
    ("ending", "answered", "silent"),
    [
        (Ending.EOF, Outcome.TRUNCATED, Outcome.RESET),
        (Ending.RESET, Outcome.RESET, Outcome.RESET),
        (Ending.IDLE, Outcome.STALLED, Outcome.STALLED),
        (Ending.TOTAL, Outcome.TIMEOUT, Outcome.TIMEOUT),
        (Ending.PROTOCOL, Outcome.PROTOCOL_ERROR, Outcome.PROTOCOL_ERROR),
        (Ending.DRAIN, Outcome.CANCELLED, Outcome.CANCELLED),
        (Ending.USER, Outcome.CANCELLED, Outcome.CANCELLED),
        (Ending.CONNECT, Outcome.CONNECT_ERROR, Outcome.CONNECT_ERROR),
        (Ending.TLS, Outcome.CLIENT_ERROR, Outcome.CLIENT_ERROR),
        (Ending.CLIENT, Outcome.CLIENT_ERROR, Outcome.CLIENT_ERROR),
        (Ending.UNSENT, Outcome.UNSENT, Outcome.UNSENT),
        (Ending.INTERNAL, Outcome.INTERNAL, Outcome.INTERNAL),
    ],
)
def test_the_wire_decides_what_no_answer_finished(
    ending: Ending, answered: Outcome, silent: Outcome
) -> None:
    assert outcome(ending=ending) is answered
    assert outcome(ending=ending, status=None) is silent


def test_every_ending_has_an_outcome_with_and_without_an_answer() -> None:
    for ending in Ending:
        for status in (None, 200, 404):
            assert isinstance(outcome(ending=ending, status=status), Outcome)


@pytest.mark.parametrize(
    "error",
    [
        BUSY,
        ServerError("anything", None, 429),
        ServerError("anything", None, 529),
        ServerError("anything", None, "503"),
        ServerError("anything", "503", None),
        ServerError("Overloaded", "overloaded_error"),
        ServerError("Model is overloaded", None, 422),
        ServerError("Generation is paused.", "InternalServerError", 503),
        ServerError("server busy, please try again. maximum pending requests exceeded"),
        ServerError("The request queue is full."),
        ServerError("x", "tokens", "rate_limit_exceeded"),
        ServerError("Resource exhausted", "RESOURCE_EXHAUSTED"),
        ServerError("Exceeds maximum queue size", None, 500),
        ServerError("All workers are busy, please retry later", None, 500),
        ServerError("Too many concurrent requests"),
        ServerError("the request exceeds the available context size", None, 400),
        ServerError("You exceeded your current quota", "insufficient_quota"),
    ],
)
def test_a_refusal(error: ServerError) -> None:
    assert is_refusal(error)


@pytest.mark.parametrize(
    "error",
    [
        DEAD,
        ServerError("something broke"),
        ServerError(),
        ServerError("TimeoutError", "GatewayTimeout", 504),
        ServerError("CUDA out of memory: GPU 0 has a total capacity of 79 GiB"),
        ServerError("CUDA error: all CUDA-capable devices are busy or unavailable"),
        ServerError("runner stopped", None, "abc"),
        ServerError("context shift is disabled", "server_error", 500),
        ServerError("Internal server error, please try again later", None, 500),
    ],
)
def test_a_fault(error: ServerError) -> None:
    assert not is_refusal(error)
