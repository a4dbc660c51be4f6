"""Which response headers are kept, and what Retry-After means. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache

__all__ = ["header_findings", "kept_headers", "retry_after"]

MAX_NAME_CHARS = 64
MAX_VALUE_CHARS = 512
MAX_KEPT = 64

_NAMES = frozenset(
    {
        "access-control-expose-headers",
        "age",
        "apim-request-id",
        "cache-control",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "date",
        "keep-alive",
        "location",
        "openai-model",
        "openai-processing-ms",
        "openai-version",
        "rate_limit_type",
        "ratelimit",
        "request-id",
        "reset_at",
        "retry-after",
        "server",
        "server-timing",
        "transfer-encoding",
        "vary",
        "via",
        "www-authenticate",
        "x-accel-buffering",
        "x-cache",
        "x-compute-type",
        "x-content-type-options",
        "x-correlation-id",
        "x-frame-options",
        "x-generated-tokens",
        "x-generation-id",
        "x-inference-time",
        "x-powered-by",
        "x-prompt-tokens",
        "x-queue-time",
        "x-request-id",
        "x-response-time",
        "x-runtime",
        "x-served-by",
        "x-time-per-token",
        "x-timer",
        "x-total-time",
        "x-trace-id",
        "x-validation-time",
    }
)
_PREFIXES = (
    "anthropic-ratelimit-",
    "azureml-",
    "cf-",
    "fly-",
    "llm_provider-",
    "ratelimit-",
    "retry-after",
    "x-ai-",
    "x-aibrix-",
    "x-amz",
    "x-apisix-",
    "x-azure-",
    "x-b3-",
    "x-cloud-trace",
    "x-dynamo-",
    "x-envoy-",
    "x-error-",
    "x-fastly-",
    "x-goog-",
    "x-groq-",
    "x-haproxy-",
    "x-inference-",
    "x-istio-",
    "x-kong-",
    "x-litellm-",
    "x-llm-",
    "x-ms-",
    "x-nginx-",
    "x-openrouter-",
    "x-portkey-",
    "x-ratelimit-",
    "x-ray-",
    "x-sglang-",
    "x-smg-",
    "x-traefik-",
    "x-triton-",
    "x-vercel-",
    "x-vllm-",
)
# Words by which proxies nobody listed tell what they did.
_TELLS = (
    "attempt",
    "backend",
    "backpressure",
    "dropped",
    "error-code",
    "gateway",
    "overload",
    "proxy",
    "queue",
    "rate-limit",
    "ratelimit",
    "reject",
    "router",
    "routing",
    "shed",
    "throttl",
    "upstream",
)
_SECRETS = (
    "access-token",
    "api-key",
    "apikey",
    "auth",
    "cookie",
    "credential",
    "csrf",
    "id-token",
    "jwt",
    "password",
    "refresh-token",
    "secret",
    "session",
    "security-token",
    "signature",
    "xsrf",
)
_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")


def kept_headers(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """The fields that tell who answered and why, by lower-case name.

    Repeated fields are joined by ``, ``; values and their number are bounded.
    Anything that may hold a credential is left out, whatever its prefix.
    """
    kept: dict[str, str] = {}
    for raw_name, raw_value in pairs:
        name = _kept_name(raw_name) if len(raw_name) <= MAX_NAME_CHARS else None
        if name is None:
            continue
        value = raw_value[:MAX_VALUE_CHARS].decode("latin-1").strip()
        if name == "location":
            value = value.partition("?")[0]
        if name in kept:
            kept[name] = f"{kept[name]}, {value}"[:MAX_VALUE_CHARS]
        elif len(kept) < MAX_KEPT:
            kept[name] = value
    return kept


def retry_after(headers: Mapping[str, str]) -> tuple[float | None, str | None]:
    """How long the server asks to wait: seconds, and its words as sent.

    ``retry-after-ms`` is the finer one and wins. A date counts from the
    answer's own Date header, as no clock of ours is known to agree with it; one
    already past is 0.0.

    Returns:
        (None, raw) where the words make no sense; (None, None) without any.
    """
    raw_ms = headers.get("retry-after-ms")
    if raw_ms is not None and _SECONDS.fullmatch(raw_ms):
        return float(raw_ms) / 1000, raw_ms
    raw = headers.get("retry-after")
    if raw is None:
        return None, raw_ms
    if _SECONDS.fullmatch(raw):
        return float(raw), raw
    until, now = _date(raw), _date(headers.get("date", ""))
    if until is None or now is None:
        return None, raw
    return max(0.0, (until - now).total_seconds()), raw


def header_findings(headers: Mapping[str, str]) -> list[str]:
    """What the kept headers say that is odd about the whole answer."""
    found = []
    if headers.get("content-encoding", "identity") != "identity":
        found.append("content_encoded")
    if headers.get("x-envoy-attempt-count", "1") not in ("", "0", "1"):
        found.append("gateway_retried")
    return found


@lru_cache(maxsize=1024)
def _kept_name(raw: bytes) -> str | None:
    """A field's lower-case name; None where it is not to be kept."""
    name = raw.decode("latin-1").strip().lower()
    if name in _NAMES:
        return name
    if any(word in name for word in _SECRETS):
        return None
    told = name.startswith(_PREFIXES) or any(word in name for word in _TELLS)
    return name if told else None


def _date(text: str) -> datetime | None:
    """An HTTP date; None for anything else, and for one without a zone."""
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return None if found.tzinfo is None else found
