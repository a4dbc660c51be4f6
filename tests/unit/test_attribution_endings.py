"""Requests without an answer: attributed by what ended them."""

from __future__ import annotations

import pytest

from loadgen.analysis.attribution import attribute
from loadgen.analysis.signatures import load_signatures
from loadgen.model import Ending, Outcome, RequestRecord
from tests.signature_rows import changed

SIGNATURES = load_signatures()
HELD = RequestRecord(
    seq=0,
    request_id="r",
    group="g",
    scheduled_ns=0,
    sent_ns=1,
    outcome=Outcome.STALLED,
    ending=Ending.IDLE,
)
ANSWERED: dict[str, object] = {"status": 200, "headers_ns": 2}
GENERATING: dict[str, object] = {**ANSWERED, "first_token_ns": 3}

Ended = tuple[str, str, dict[str, object]]
Verdict = tuple[str, str, str]

# outcome, ending, further fields; layer, resource, accepted
CASES: dict[str, tuple[Ended, Verdict]] = {
    "never sent": (
        ("unsent", "unsent", {"sent_ns": None}),
        ("client", "other", "no"),
    ),
    "cut by the user": (
        ("cancelled", "user", GENERATING),
        ("client", "other", "yes"),
    ),
    "drain limit": (
        ("cancelled", "drain", {}),
        ("client", "timeout", "unknown"),
    ),
    "a fault of ours": (
        ("internal", "internal", {"sent_ns": None}),
        ("client", "other", "no"),
    ),
    "no file descriptors": (
        (
            "client_error",
            "client",
            {"sent_ns": None, "detail": "EMFILE: Too many open files"},
        ),
        ("client", "connections", "no"),
    ),
    "no ports": (
        (
            "client_error",
            "client",
            {"sent_ns": None, "detail": "EADDRNOTAVAIL: Cannot assign requested"},
        ),
        ("client", "connections", "no"),
    ),
    "name does not resolve": (
        (
            "client_error",
            "client",
            {"sent_ns": None, "detail": "Name or service not known"},
        ),
        ("client", "other", "no"),
    ),
    "certificate": (
        (
            "client_error",
            "tls",
            {"sent_ns": None, "detail": "TLS: certificate verify failed"},
        ),
        ("client", "other", "no"),
    ),
    "refused": (
        (
            "connect_error",
            "connect",
            {"sent_ns": None, "detail": "ECONNREFUSED: Connection refused"},
        ),
        ("network", "connections", "no"),
    ),
    "connect limit": (
        (
            "connect_error",
            "connect",
            {"sent_ns": None, "detail": "no connection within the connect limit of 5s"},
        ),
        ("network", "connections", "no"),
    ),
    "no answer in time": (
        ("timeout", "total", {}),
        ("client", "timeout", "unknown"),
    ),
    "output still coming at the limit": (
        ("timeout", "total", GENERATING),
        ("client", "timeout", "yes"),
    ),
    "no answer within the idle limit": (
        ("stalled", "idle", {}),
        ("client", "timeout", "unknown"),
    ),
    "headers and nothing more": (
        ("stalled", "idle", ANSWERED),
        ("unknown", "timeout", "unknown"),
    ),
    "output stopped": (
        ("stalled", "idle", GENERATING),
        ("engine_failure", "timeout", "yes"),
    ),
    "closed before an answer": (
        ("reset", "eof", {"conn_reused": False}),
        ("network", "other", "unknown"),
    ),
    "reset before an answer": (
        ("reset", "reset", {"detail": "ECONNRESET: Connection reset by peer"}),
        ("network", "other", "unknown"),
    ),
    "kept connection closed": (
        ("reset", "eof", {"conn_reused": True, "findings": ["stale_connection"]}),
        ("client", "connections", "no"),
    ),
    "reset before output": (
        ("reset", "reset", ANSWERED),
        ("engine_failure", "other", "unknown"),
    ),
    "cut in mid-stream": (
        ("truncated", "eof", GENERATING),
        ("engine_failure", "other", "yes"),
    ),
    "ended without finish_reason": (
        ("truncated", "complete", GENERATING),
        ("engine_failure", "other", "yes"),
    ),
    "not HTTP": (
        ("protocol_error", "protocol", {"detail": "not HTTP: bad status line"}),
        ("unknown", "unknown", "unknown"),
    ),
    "another API's stream, broken off": (
        (
            "protocol_error",
            "eof",
            {**ANSWERED, "body_excerpt": '{"x":1}', "bad_events": 1},
        ),
        ("engine_failure", "other", "unknown"),
    ),
    "another API's stream": (
        (
            "protocol_error",
            "complete",
            {**ANSWERED, "body_excerpt": '{"x":1}', "bad_events": 1},
        ),
        ("unknown", "unknown", "unknown"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_ending(name: str) -> None:
    (outcome, ending, fields), expected = CASES[name]
    record = changed(HELD, outcome=Outcome(outcome), ending=Ending(ending), **fields)
    found = attribute(record, SIGNATURES)
    assert found is not None
    assert (found.layer, found.limiting_resource, found.accepted) == expected
    assert found.evidence


def test_ok_has_no_attribution() -> None:
    done = changed(HELD, outcome=Outcome.OK, ending=Ending.COMPLETE, **GENERATING)
    assert attribute(done, SIGNATURES) is None


def test_only_our_own_limits_are_certain_to_be_ours() -> None:
    """What the client cannot see is never asserted with high confidence."""
    for (outcome, ending, fields), (layer, *_) in CASES.values():
        record = changed(
            HELD, outcome=Outcome(outcome), ending=Ending(ending), **fields
        )
        found = attribute(record, SIGNATURES)
        assert found is not None
        if found.confidence == "high":
            assert layer in ("client", "network")


def test_the_models_words_are_no_evidence() -> None:
    """A model that writes of a busy engine, cut in mid-stream."""
    words = "The engine is currently busy and cannot accept new requests."
    whole = f'{{"choices":[{{"message":{{"content":"{words}"}}}}]'
    for fields in (
        {**GENERATING, "body_excerpt": f"data: {words}"},
        {**ANSWERED, "body_excerpt": whole},
    ):
        record = changed(HELD, outcome=Outcome.TRUNCATED, ending=Ending.EOF, **fields)
        found = attribute(record, SIGNATURES)
        assert found is not None
        assert found.layer == "engine_failure"


def test_a_gateway_between_is_mentioned() -> None:
    record = changed(
        HELD,
        outcome=Outcome.TRUNCATED,
        ending=Ending.EOF,
        headers={"x-envoy-upstream-service-time": "3"},
        **GENERATING,
    )
    found = attribute(record, SIGNATURES)
    assert found is not None
    assert any("gateway" in line for line in found.evidence)
