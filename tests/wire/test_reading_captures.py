"""What real servers sent, read again."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from loadgen.model import Ending, Outcome
from loadgen.wire.facts import Facts
from loadgen.wire.protocols import PROTOCOLS
from loadgen.wire.reading import Reading

FOLDER = Path(__file__).parent / "captures"
READ = re.compile(r"  \[([0-9.]+) len=[0-9]+\] (b['\"].*)")
STATUS = re.compile(r"status=([0-9]+) .*error=(.*)")


class Answer(NamedTuple):
    status: int
    whole: bool
    headers: list[tuple[bytes, bytes]]
    reads: list[tuple[int, bytes]]


def answers(name: str) -> dict[str, Answer]:
    """The answers of one file by request id."""
    text = (FOLDER / f"{name}.txt").read_text("utf-8")
    found = {}
    for block in re.split(r"^==== ", text, flags=re.MULTILINE)[1:]:
        first, *rest = block.splitlines()
        told = STATUS.search(first)
        assert told is not None
        reads = [m for m in map(READ.fullmatch, rest) if m is not None]
        fields = (line.strip().partition(": ") for line in rest if ": " in line[:60])
        found[first.split()[0]] = Answer(
            int(told[1]),
            told[2] == "None",
            [(k.encode(), v.encode()) for k, _, v in fields if not k.startswith("[")],
            [(round(float(m[1]) * 1e9), ast.literal_eval(m[2])) for m in reads],
        )
    return found


def read(name: str, request_id: str, *, stream: bool = True) -> Facts:
    answer = answers(name)[request_id]
    reading = Reading(PROTOCOLS["openai-chat"], stream=stream, keep_text=True)
    reading.head(answer.status, answer.headers, 0)
    for at_ns, data in answer.reads:
        reading.body(data)
        reading.end_of_read(at_ns, True)
    ending = Ending.COMPLETE if answer.whole else Ending.EOF
    return reading.close(ending, 10**12)


@pytest.mark.parametrize("request_id", ["burst-000", "burst-001"])
def test_vllm_under_a_burst(request_id: str) -> None:
    facts = read("vllm_burst", request_id)
    assert facts.outcome is Outcome.OK
    assert (facts.prompt_tokens, facts.output_tokens) == (512, 64)
    assert (facts.model, facts.response_id) == ("tiny", f"chatcmpl-{request_id}")
    assert facts.finish_reason == "length"
    # Empty strings are tokens here, but for the role's and the finish reason's.
    short = 64 - len(facts.token_ns)
    assert facts.findings == (["last_token_without_text"] if short else [])
    assert short in (0, 1)
    assert facts.first_answer_ns == facts.first_token_ns


@pytest.mark.parametrize("request_id", ["burst-008", "burst-009"])
def test_vllm_refusing_inside_a_200(request_id: str) -> None:
    facts = read("vllm_burst", request_id)
    assert facts.outcome is Outcome.IN_STREAM_REJECT
    assert facts.error is not None
    assert facts.error.code == 503
    assert (facts.done, facts.token_ns, facts.output_tokens) == (True, [], 0)


@pytest.mark.parametrize(
    ("request_id", "tokens"), [("burst-000", True), ("burst-004", False)]
)
def test_vllm_with_its_engine_killed(request_id: str, tokens: bool) -> None:
    facts = read("vllm_engine_killed", request_id)
    assert facts.outcome is Outcome.IN_STREAM_ERROR
    assert facts.error is not None
    assert (facts.error.type, facts.error.code) == ("InternalServerError", 500)
    assert bool(facts.token_ns) == tokens
    assert facts.done


@pytest.mark.parametrize(
    ("request_id", "tokens"), [("burst-003", True), ("burst-004", False)]
)
def test_vllm_with_its_server_killed(request_id: str, tokens: bool) -> None:
    facts = read("vllm_server_killed", request_id)
    assert facts.outcome is Outcome.TRUNCATED
    assert facts.error is None
    assert bool(facts.token_ns) == tokens


def test_vllm_not_streaming() -> None:
    facts = read("vllm_whole", "burst-000", stream=False)
    assert (facts.outcome, facts.output_tokens) == (Outcome.OK, 128)
    assert (len(facts.token_ns), facts.findings) == (1, [])
    refused = [i for i, a in answers("vllm_whole").items() if a.status == 503]
    assert read("vllm_whole", refused[0]).outcome is Outcome.HTTP_REJECT


def test_vllm_asked_for_two_choices_and_for_running_usage() -> None:
    both = read("vllm_asked_otherwise", "n2")
    assert both.outcome is Outcome.OK
    assert "several_choices" in both.findings
    running = read("vllm_asked_otherwise", "running-usage")
    assert running.output_tokens == 4
    assert len(running.token_ns) in (3, 4)


@pytest.mark.parametrize("request_id", ["burst-000", "burst-001"])
def test_llamacpp(request_id: str) -> None:
    facts = read("llamacpp_burst", request_id)
    assert facts.outcome is Outcome.OK
    assert facts.output_tokens == len(facts.token_ns) == 16
    assert facts.token_ns[0] == facts.first_byte_ns
    assert (facts.findings, facts.model) == ([], "gemma3-270m")


def test_transformers_sends_no_end_mark_and_here_no_text() -> None:
    facts = read("transformers", "my-req-2")
    assert (facts.outcome, facts.done, facts.token_ns) == (Outcome.OK, False, [])
    assert facts.output_tokens == 4
    assert facts.findings == ["events_ne_tokens", "no_done", "no_token_events"]


@pytest.mark.parametrize(
    ("name", "status", "excerpt", "kept"),
    [
        ("envoy_down", 503, "upstream connect error", {"server": "envoy"}),
        ("envoy_rate_limit", 429, "local_rate_limited", {"x-ratelimit-limit": "5"}),
        ("envoy_breaker", 503, "overflow", {"x-envoy-overloaded": "true"}),
        ("envoy_over_vllm", 503, "currently busy", {"server": "envoy"}),
        ("router", 408, "", {"access-control-expose-headers": "*"}),
        ("router", 503, "currently busy", {"server": "uvicorn"}),
    ],
)
def test_proxies(name: str, status: int, excerpt: str, kept: dict[str, str]) -> None:
    refused = [i for i, a in answers(name).items() if a.status == status]
    facts = read(name, refused[0])
    assert (facts.outcome, facts.status) == (Outcome.HTTP_REJECT, status)
    assert excerpt in (facts.body_excerpt or "")
    assert kept.items() <= facts.headers.items()
    assert (facts.error is not None) == (excerpt == "currently busy")


def test_a_proxy_in_front_of_a_refusal_inside_a_200() -> None:
    inside = [i for i, a in answers("envoy_over_vllm").items() if a.status == 200]
    facts = read("envoy_over_vllm", inside[0])
    assert facts.outcome is Outcome.IN_STREAM_REJECT
    assert "x-envoy-upstream-service-time" in facts.headers
