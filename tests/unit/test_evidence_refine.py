"""What a log changes of an attribution, and what it leaves alone."""

from __future__ import annotations

import pytest

from loadgen.analysis.evidence import (
    RESPONSE_FLAGS,
    EngineLine,
    Evidence,
    GatewayLine,
    NotInEngineLog,
    refine,
)
from loadgen.model import Accepted, Attribution, Confidence, Layer, Resource


def guessed(
    layer: str = "unknown",
    resource: str = "unknown",
    accepted: str = "unknown",
    confidence: str = "low",
) -> Attribution:
    return Attribution(
        layer=Layer(layer),
        limiting_resource=Resource(resource),
        accepted=Accepted(accepted),
        evidence=("status 503",),
        confidence=Confidence(confidence),
    )


def gateway(*flags: str, details: str | None = None) -> GatewayLine:
    return GatewayLine(request_id="r", status=503, flags=flags, details=details)


CUT = guessed("engine_failure", "other", "yes")
# before, evidence, then layer, resource, accepted, confidence
CASES: dict[str, tuple[Attribution, Evidence, tuple[str, str, str, str]]] = {
    "a route timeout cut the stream": (
        CUT,
        gateway("UT"),
        ("network", "timeout", "yes", "high"),
    ),
    "the breaker, with retries used up": (
        guessed(),
        gateway("URX", "UO"),
        ("gateway", "concurrency", "no", "high"),
    ),
    "the same layer keeps its resource": (
        guessed("gateway", "rate_limit_tokens", "no"),
        gateway("RLSE"),
        ("gateway", "rate_limit_tokens", "no", "high"),
    ),
    "the upstream hung up: it may have had it": (
        guessed("network", "connections"),
        gateway("UC"),
        ("engine_failure", "other", "unknown", "medium"),
    ),
    "the client left": (
        guessed("client", "timeout", "unknown", "medium"),
        gateway("DC"),
        ("client", "timeout", "unknown", "high"),
    ),
    "passed on from the engine": (
        guessed("engine_admission", "queued_requests", "no"),
        gateway(details="via_upstream"),
        ("engine_admission", "queued_requests", "no", "medium"),
    ),
    "passed on: not the gateway's own page": (
        guessed("gateway", "no_capacity", "no"),
        gateway(details="via_upstream"),
        ("unknown", "no_capacity", "no", "low"),
    ),
    "a flag nobody knows": (guessed(), gateway("ZZ"), ("unknown",) * 3 + ("low",)),
    "a local answer without a flag": (
        guessed("gateway", "other", "no"),
        gateway(details="rbac_access_denied_matched_policy[x]"),
        ("gateway", "other", "no", "low"),
    ),
    "the engine says it refused": (
        guessed("engine_admission", "queued_requests", "no", "medium"),
        EngineLine(failed="The engine is currently busy"),
        ("engine_admission", "queued_requests", "no", "high"),
    ),
    "the engine answered 503 itself": (
        guessed("gateway", "no_capacity", "no"),
        EngineLine(status=503),
        ("engine_admission", "no_capacity", "no", "medium"),
    ),
    "the engine answered 500 itself": (
        guessed("unknown", "unknown"),
        EngineLine(status=500),
        ("engine_failure", "unknown", "unknown", "medium"),
    ),
    "the engine had taken what the gateway gave up": (
        guessed("network", "timeout"),
        EngineLine(received=True, added=True),
        ("network", "timeout", "yes", "low"),
    ),
    "the engine noticed that we left": (
        guessed("client", "timeout", "unknown", "medium"),
        EngineLine(added=True, aborted=True),
        ("client", "timeout", "yes", "medium"),
    ),
    "the engine failed after taking it": (
        guessed("network", "other"),
        EngineLine(added=True, failed="worker lost"),
        ("engine_failure", "other", "yes", "medium"),
    ),
    "never in the engine's log": (
        guessed("network", "timeout"),
        NotInEngineLog(),
        ("network", "timeout", "no", "low"),
    ),
    "an engine's refusal need not be named in its log": (
        guessed("engine_admission", "queued_requests", "no", "high"),
        NotInEngineLog(),
        ("engine_admission", "queued_requests", "no", "high"),
    ),
    "output proves more than a log's silence": (
        CUT,
        NotInEngineLog(),
        ("engine_failure", "other", "yes", "low"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_refine(name: str) -> None:
    before, evidence, expected = CASES[name]
    after = refine(before, evidence)
    assert (
        after.layer,
        after.limiting_resource,
        after.accepted,
        after.confidence,
    ) == expected
    assert after.evidence[: len(before.evidence)] == before.evidence


@pytest.mark.parametrize("flag", RESPONSE_FLAGS)
def test_a_flag_is_quoted(flag: str) -> None:
    assert flag in refine(guessed(), gateway(flag)).evidence[-1]


def test_output_seen_stays_accepted() -> None:
    for flag in RESPONSE_FLAGS:
        assert refine(CUT, gateway(flag)).accepted == "yes"


def test_hostile_log_text_is_bounded() -> None:
    words = "x\x1b[2J\u202e" * 1000
    (_, told) = refine(guessed(), EngineLine(failed=words)).evidence
    assert len(told) < 200
    assert told.isprintable()
