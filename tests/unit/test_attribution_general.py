"""Answers of systems no signature knows: right or unknown, never sure and wrong.

The rules are tried on answers whose system's signatures are all taken away, and
on answers of systems that have none.
"""

from __future__ import annotations

from collections import Counter

import pytest

from loadgen.analysis.attribution import Attributor
from loadgen.analysis.signatures import Signatures, built_in
from loadgen.model import Attribution
from tests.signature_rows import Row, answer, replayed, rows

TEXT = "text/plain"
PAGE = "text/html"
STREAM = "text/event-stream"
RULES_ALONE = Attributor(Signatures([]))
WANTED_RIGHT = 0.85
ACCEPTABLE_WRONG = 0.06


def judged(row: Row, attribute: Attributor = RULES_ALONE) -> Attribution:
    found = attribute(replayed(row))
    assert found is not None
    return found


def page(title: str, server: str = "acme") -> str:
    return (
        f"<html><head><title>{title}</title></head><body><h1>{title}</h1>"
        f"<hr>{server}</body></html>"
    )


# answer, layer, resource; None where the resource is anyone's guess
UNKNOWN_SYSTEMS: dict[str, tuple[Row, str, str | None]] = {
    "engine queue, 429": (
        answer('{"error":{"message":"too many queued requests","code":429}}', 429),
        "engine_admission",
        "queued_requests",
    ),
    "engine queue, flat": (
        answer('{"object":"error","message":"queue full","type":"X","code":503}', 503),
        "engine_admission",
        "queued_requests",
    ),
    "engine token backlog": (
        answer('{"error":{"message":"Queued token limit reached","code":503}}', 503),
        "engine_admission",
        "queued_tokens",
    ),
    "engine busy, detail": (
        answer('{"detail":{"msg":"Server is busy; please try again later."}}', 503),
        "engine_admission",
        "queued_requests",
    ),
    "engine loading": (
        answer('{"error":"Model x is currently loading","estimated_time":20}', 503),
        "engine_admission",
        "no_capacity",
    ),
    "engine out of KV blocks": (
        answer('{"error":{"message":"KV cache is full","code":503}}', 503),
        "engine_admission",
        "kv_memory",
    ),
    "engine concurrency": (
        answer('{"detail":"Maximum concurrent requests: 3"}', 503),
        "engine_admission",
        "concurrency",
    ),
    "engine draining": (
        answer('{"error":{"message":"Server is shutting down","code":503}}', 503),
        "engine_admission",
        "shutdown",
    ),
    "prompt too long": (
        answer('{"error":{"message":"Prompt is too long: 9000 tokens"}}', 400),
        "engine_admission",
        "context_length",
    ),
    "refused in the stream": (
        answer('data: {"error":{"message":"overloaded","code":503}}\n\n', 200, STREAM),
        "engine_admission",
        "queued_requests",
    ),
    "failed in the stream": (
        answer(
            'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
            'data: {"error":{"message":"CUDA out of memory","code":500}}\n\n',
            200,
            STREAM,
        ),
        "engine_failure",
        "kv_memory",
    ),
    "fault inside": (
        answer('{"error":{"message":"rpc error: EOF","code":500}}', 500),
        "engine_failure",
        "other",
    ),
    "router without workers": (
        answer('{"error":{"message":"No healthy backend for m","code":503}}', 503),
        "router",
        "no_capacity",
    ),
    "router gave up": (
        answer('{"error":{"message":"All retries failed for worker w"}}', 502),
        "router",
        "other",
    ),
    "router in plain text": (
        answer("no workers available", 503, TEXT),
        "router",
        "no_capacity",
    ),
    "router dropped it": (
        answer("request dropped: backpressure", 503, TEXT),
        "router",
        "queued_requests",
    ),
    "gateway rate limit, text": (
        answer("Too Many Requests", 429, TEXT),
        "gateway",
        "rate_limit_requests",
    ),
    "gateway rate limit, JSON": (
        answer('{"message":"API rate limit exceeded"}', 429),
        "gateway",
        "rate_limit_requests",
    ),
    "gateway token limit": (
        answer('{"message":"limit of 1000 tokens per minute reached"}', 429),
        "gateway",
        "rate_limit_tokens",
    ),
    "gateway limit by header": (
        answer("", 429, TEXT, x_ratelimit_remaining_tokens="0"),
        "gateway",
        "rate_limit_tokens",
    ),
    "gateway drops by header": (
        answer("", 503, TEXT, x_acme_dropped_reason="too many concurrent"),
        "gateway",
        "concurrency",
    ),
    "gateway page": (answer(page("503 Oops"), 503, PAGE), "gateway", None),
    "gateway says no": (answer("denied", 403, TEXT), "gateway", "other"),
    "page about a timeout": (
        answer(page("504 Gateway Timeout"), 504, PAGE),
        "network",
        "timeout",
    ),
    "page about the upstream": (
        answer(page("502 Bad Gateway"), 502, PAGE),
        "network",
        "connections",
    ),
    "no upstream": (
        answer("no healthy upstream", 503, TEXT),
        "network",
        "no_capacity",
    ),
    "upstream refused": (
        answer("upstream connect error: connection refused", 502, TEXT),
        "network",
        "connections",
    ),
    "upstream hung up": (
        answer("upstream prematurely closed connection", 502, TEXT),
        "engine_failure",
        "other",
    ),
    "provider by header": (
        answer('{"error":{"message":"Overloaded"}}', 503, anthropic_ratelimit_x="1"),
        "provider",
        "no_capacity",
    ),
    "provider by its envelope": (
        answer(
            '{"error":{"code":429,"message":"Quota exceeded","status":'
            '"RESOURCE_EXHAUSTED"}}',
            429,
        ),
        "provider",
        "rate_limit_requests",
    ),
    "provider by talk of accounts": (
        answer(
            '{"error":{"message":"Rate limit reached in organization org-x on tokens '
            'per min (TPM)","code":"rate_limit_exceeded"}}',
            429,
        ),
        "provider",
        "rate_limit_tokens",
    ),
    "an upstream's proof moves it inward": (
        answer("Service Unavailable", 503, TEXT, x_envoy_upstream_service_time="3"),
        "engine_admission",
        None,
    ),
    "the client left": (answer('{"error":"x"}', 499), "client", "other"),
    "nothing to go by": (answer("{}", 503), "unknown", "unknown"),
    "a status alone": (answer("", 503, ""), "unknown", "unknown"),
    "a word alone": (answer("oops", 500, TEXT), "unknown", "unknown"),
    "Server alone": (answer("", 502, "", server="nginx"), "unknown", "unknown"),
    "a redirect": (answer("", 307, "", location="/x"), "unknown", "unknown"),
}


@pytest.mark.parametrize("name", UNKNOWN_SYSTEMS)
def test_unknown_system(name: str) -> None:
    row, layer, resource = UNKNOWN_SYSTEMS[name]
    found = judged(row)
    assert found.layer == layer
    assert resource is None or found.limiting_resource == resource
    assert found.confidence == "low"


def systems_left_out() -> list[tuple[Row, Attribution]]:
    """Every row judged without the signatures of its own system."""
    entries = built_in()
    every = Attributor(Signatures(entries))
    found = []
    for row in rows():
        used = judged(row, every).evidence[0].split()
        known = {entry.system for entry in entries if entry.id in used}
        others = [entry for entry in entries if entry.system not in known]
        found.append((row, judged(row, Attributor(Signatures(others)))))
    return found


@pytest.mark.parametrize("trial", ["rules alone", "system left out"])
def test_known_answers_by_rule(trial: str) -> None:
    found = (
        [(row, judged(row)) for row in rows()]
        if trial == "rules alone"
        else systems_left_out()
    )
    kinds: Counter[str] = Counter()
    for row, attribution in found:
        layer = attribution.layer.value
        kind = "right" if layer == row["layer"] else "wrong"
        kinds["unknown" if layer == "unknown" else kind] += 1
        if kind == "wrong":
            assert attribution.confidence == "low", row["id"]
    assert kinds["right"] >= WANTED_RIGHT * len(found)
    assert kinds["wrong"] <= ACCEPTABLE_WRONG * len(found)
