"""Which headers are kept, which never are, and what Retry-After means."""

from __future__ import annotations

import pytest

from loadgen.wire.headers import (
    MAX_KEPT,
    MAX_VALUE_CHARS,
    header_findings,
    kept_headers,
    retry_after,
)

NOW = "Mon, 30 Nov 2026 21:15:00 GMT"


@pytest.mark.parametrize(
    "name",
    [
        "Server",
        "Via",
        "Date",
        "Content-Type",
        "Retry-After",
        "retry-after-ms",
        "X-Request-Id",
        "request-id",
        "x-envoy-overloaded",
        "x-envoy-upstream-service-time",
        "X-RateLimit-Remaining",
        "x-ratelimit-remaining-tokens",
        "anthropic-ratelimit-tokens-remaining",
        "cf-ray",
        "x-amzn-errortype",
        "x-amz-apigw-id",
        "x-kong-response-latency",
        "x-litellm-call-id",
        "llm_provider-server",
        "x-smg-error-code",
        "x-llm-d-request-dropped-reason",
        "x-error-tpm-exceeded",
        "x-ai-ratelimit-limit-openai",
        "openai-processing-ms",
        "WWW-Authenticate",
        "proxy-status",
        "x-acme-gateway-verdict",
        "x-acme-queue-depth",
    ],
)
def test_kept(name: str) -> None:
    assert kept_headers([(name.encode(), b"v")]) == {name.lower(): "v"}


@pytest.mark.parametrize(
    "name",
    [
        "Set-Cookie",
        "Authorization",
        "Proxy-Authorization",
        "x-api-key",
        "x-gateway-api-key",
        "llm_provider-set-cookie",
        "x-amz-security-token",
        "x-envoy-jwt-claims",
        "x-goog-iam-authorization-token",
        "cf-access-jwt-assertion",
        "x-session-id",
        "x-anything-else",
        "etag",
    ],
)
def test_never_kept(name: str) -> None:
    assert kept_headers([(name.encode(), b"v")]) == {}


def test_values_and_their_number_are_bounded() -> None:
    pairs = [(b"x-envoy-%d" % number, b"v" * 9000) for number in range(500)]
    kept = kept_headers([*pairs, (b"x-ratelimit-" + b"y" * 9000, b"v")])
    assert len(kept) == MAX_KEPT
    assert {len(value) for value in kept.values()} == {MAX_VALUE_CHARS}
    many = kept_headers([(b"via", b"p" * 100)] * 100)
    assert len(many["via"]) == MAX_VALUE_CHARS


def test_repeated_fields_are_one() -> None:
    assert kept_headers([(b"via", b"a"), (b"Via", b"b")]) == {"via": "a, b"}


def test_a_redirect_is_kept_without_its_query() -> None:
    pairs = [(b"location", b"/login?token=abc")]
    assert kept_headers(pairs) == {"location": "/login"}


@pytest.mark.parametrize(
    ("headers", "wait_s", "raw"),
    [
        ({}, None, None),
        ({"retry-after": "2"}, 2.0, "2"),
        ({"retry-after": "0"}, 0.0, "0"),
        ({"retry-after": "0.493"}, 0.493, "0.493"),
        ({"retry-after": "-5"}, None, "-5"),
        ({"retry-after": ""}, None, ""),
        ({"retry-after": "soon"}, None, "soon"),
        ({"retry-after": "1e9"}, None, "1e9"),
        ({"retry-after": "9" * 400}, None, "9" * 400),
        ({"retry-after": "37", "retry-after-ms": "36500"}, 36.5, "36500"),
        ({"retry-after": "37", "retry-after-ms": "junk"}, 37.0, "37"),
        ({"retry-after-ms": "junk"}, None, "junk"),
        (
            {"retry-after": "Mon, 30 Nov 2026 21:16:00 GMT", "date": NOW},
            60.0,
            "Mon, 30 Nov 2026 21:16:00 GMT",
        ),
        (
            {"retry-after": "Mon, 30 Nov 2026 21:14:00 GMT", "date": NOW},
            0.0,
            "Mon, 30 Nov 2026 21:14:00 GMT",
        ),
        (
            {"retry-after": "Mon, 30 Nov 2026 21:16:00 GMT"},
            None,
            "Mon, 30 Nov 2026 21:16:00 GMT",
        ),
        (
            {"retry-after": "Mon, 30 Nov 2026 21:16:00", "date": NOW},
            None,
            "Mon, 30 Nov 2026 21:16:00",
        ),
    ],
)
def test_retry_after(
    headers: dict[str, str], wait_s: float | None, raw: str | None
) -> None:
    assert retry_after(headers) == (wait_s, raw)


@pytest.mark.parametrize(
    ("headers", "findings"),
    [
        ({}, []),
        ({"content-encoding": "identity"}, []),
        ({"content-encoding": "gzip"}, ["content_encoded"]),
        ({"x-envoy-attempt-count": "1"}, []),
        ({"x-envoy-attempt-count": "3"}, ["gateway_retried"]),
    ],
)
def test_findings(headers: dict[str, str], findings: list[str]) -> None:
    assert header_findings(headers) == findings
