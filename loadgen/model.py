"""The nouns every room shares: one request's record and the words it uses.

Every ``*_ns`` of a record is an ``int`` of nanoseconds since the run's t0 on
CLOCK_MONOTONIC. None means "did not happen" or "not known", never zero.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

__all__ = [
    "NO_RECORD",
    "RESOURCE_UNIT",
    "Accepted",
    "Attribution",
    "Basis",
    "Confidence",
    "Ending",
    "Layer",
    "Manifest",
    "Outcome",
    "RequestRecord",
    "Resource",
    "ServerError",
    "TokenSource",
]


NO_RECORD = "no record (killed)"
"""``detail`` of the record put in the place of one a killed process never wrote."""


class Outcome(StrEnum):
    """How one offered request ended; exactly one each, summing to the offered."""

    OK = "ok"
    HTTP_REJECT = "http_reject"
    IN_STREAM_REJECT = "in_stream_reject"
    IN_STREAM_ERROR = "in_stream_error"
    TRUNCATED = "truncated"
    STALLED = "stalled"
    TIMEOUT = "timeout"
    RESET = "reset"
    CONNECT_ERROR = "connect_error"
    PROTOCOL_ERROR = "protocol_error"
    CLIENT_ERROR = "client_error"
    CANCELLED = "cancelled"
    UNSENT = "unsent"
    INTERNAL = "internal"


class Ending(StrEnum):
    """What ended the exchange on the wire; an outcome is decided from it."""

    COMPLETE = "complete"  # the HTTP message ended as its framing says
    EOF = "eof"  # the peer closed before the message was whole
    RESET = "reset"  # ECONNRESET, EPIPE
    IDLE = "idle"  # no byte for the idle limit
    TOTAL = "total"  # the total limit passed
    CONNECT = "connect"  # refused, unreachable or slower than the connect limit
    TLS = "tls"  # handshake or certificate
    PROTOCOL = "protocol"  # bytes that are not HTTP, or beyond our limits
    CLIENT = "client"  # fds, ports, memory: our own side
    DRAIN = "drain"  # still open when the drain limit passed
    USER = "user"  # cut by the user's second interrupt
    UNSENT = "unsent"  # never offered
    INTERNAL = "internal"  # a fault of ours


class Layer(StrEnum):
    """Where a request that is not ok was lost."""

    CLIENT = "client"
    NETWORK = "network"
    GATEWAY = "gateway"
    ROUTER = "router"
    ENGINE_ADMISSION = "engine_admission"
    ENGINE_FAILURE = "engine_failure"
    PROVIDER = "provider"
    UNKNOWN = "unknown"


class Resource(StrEnum):
    """What ran out."""

    QUEUED_REQUESTS = "queued_requests"
    QUEUED_TOKENS = "queued_tokens"
    ACTIVE_SEQUENCES = "active_sequences"
    KV_MEMORY = "kv_memory"
    CONTEXT_LENGTH = "context_length"
    RATE_LIMIT_REQUESTS = "rate_limit_requests"
    RATE_LIMIT_TOKENS = "rate_limit_tokens"
    CONCURRENCY = "concurrency"
    CONNECTIONS = "connections"
    NO_CAPACITY = "no_capacity"
    SHUTDOWN = "shutdown"
    TIMEOUT = "timeout"
    OTHER = "other"
    UNKNOWN = "unknown"


RESOURCE_UNIT: dict[Resource, str] = {
    Resource.QUEUED_REQUESTS: "requests",
    Resource.QUEUED_TOKENS: "tokens",
    Resource.ACTIVE_SEQUENCES: "sequences",
    Resource.KV_MEMORY: "blocks",
    Resource.CONTEXT_LENGTH: "tokens",
    Resource.RATE_LIMIT_REQUESTS: "requests per interval",
    Resource.RATE_LIMIT_TOKENS: "tokens per interval",
    Resource.CONCURRENCY: "requests in flight",
    Resource.CONNECTIONS: "connections",
    Resource.NO_CAPACITY: "healthy backends",
    Resource.SHUTDOWN: "process",
    Resource.TIMEOUT: "seconds",
    Resource.OTHER: "other",
    Resource.UNKNOWN: "unknown",
}


class Accepted(StrEnum):
    """Whether the engine took the request before it was lost."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Confidence(StrEnum):
    """How well the evidence supports an attribution."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Basis(StrEnum):
    """What the numbers stand on; every output says it."""

    MEASURED = "measured"
    STAND_IN = "stand-in"
    SIMULATED = "simulated"


class TokenSource(StrEnum):
    """Where a token count comes from; counts of two sources are never mixed."""

    USAGE = "usage"
    CONTINUOUS_USAGE = "continuous_usage"
    TOKENIZE = "tokenize"
    LOCAL_TOKENIZER = "local_tokenizer"
    ESTIMATE = "estimate"
    UNKNOWN = "unknown"


class ServerError(msgspec.Struct, frozen=True, omit_defaults=False):
    """An error as the server worded it. The text is hostile until escaped.

    ``code`` is an integer where the server gave one, else its text.
    """

    message: str | None = None
    type: str | None = None
    code: int | str | None = None


class Attribution(msgspec.Struct, frozen=True, kw_only=True):
    """Which layer lost a request, what ran out, and how we know."""

    layer: Layer
    limiting_resource: Resource
    accepted: Accepted
    evidence: tuple[str, ...]
    confidence: Confidence


class RequestRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One offered request, sent at most once: a line of ``requests.jsonl``.

    Instants are ns since t0; see DESIGN in the README for each one's meaning.
    ``started_ns`` is when the issuer took it up: later than ``scheduled_ns`` is
    the client's own lateness, while ``connected_ns - started_ns`` is the network's.
    ``sent_ns`` is when the last byte of the request was handed to the kernel.
    ``token_ns`` holds one stamp a counted token event; ``token_exact[i]`` is
    False where that stamp is only an upper bound (a coalesced read).
    """

    seq: int
    request_id: str
    group: str
    tenant: str | None = None
    scheduled_ns: int
    started_ns: int | None = None
    sent_ns: int | None = None
    connected_ns: int | None = None
    headers_ns: int | None = None
    first_byte_ns: int | None = None
    first_event_ns: int | None = None
    first_token_ns: int | None = None
    first_answer_ns: int | None = None
    last_token_ns: int | None = None
    end_ns: int | None = None
    token_ns: list[int] = []
    token_exact: list[bool] = []
    status: int | None = None
    outcome: Outcome
    ending: Ending
    finish_reason: str | None = None
    done: bool = False
    error: ServerError | None = None
    detail: str | None = None
    attribution: Attribution | None = None
    retry_after_s: float | None = None
    retry_after_raw: str | None = None
    prompt_tokens: int | None = None
    prompt_tokens_source: TokenSource = TokenSource.UNKNOWN
    planned_prompt_tokens: int | None = None
    output_tokens: int | None = None
    output_tokens_source: TokenSource = TokenSource.UNKNOWN
    max_tokens: int | None = None
    model: str | None = None
    response_id: str | None = None
    conn_reused: bool | None = None
    local_port: int | None = None
    headers: dict[str, str] = {}
    body_excerpt: str | None = None
    bytes_received: int = 0
    comments: int = 0
    bad_events: int = 0
    text_sha256: str | None = None
    text: str | None = None
    receive_clock: str | None = None  # "kernel", "user"; None when nothing was read
    findings: list[str] = []


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What was run, where and against what: ``manifest.json``. No secrets."""

    schema: str = "loadgen.manifest/1"
    loadgen_version: str
    python_version: str
    host: dict[str, Any]
    command: list[str]
    started_utc: str
    name: str
    basis: Basis
    config: dict[str, Any]
    target: dict[str, Any]
    schedule_digest: str
    offered_requests: int
    duration_ns: int
    clock: dict[str, Any]
