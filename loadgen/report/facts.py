"""A summary as the report reads it, whichever version of loadgen wrote it.

The only door from ``summary.json`` into this room. Every key may be missing (an
older run) and unknown ones are passed over (a newer one); what is absent is shown
as absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from loadgen.errors import RunDirError

__all__ = [
    "Client",
    "Facts",
    "Fairness",
    "Finding",
    "Goodput",
    "Group",
    "Latency",
    "Lengths",
    "Made",
    "Reason",
    "Rejection",
    "Spread",
    "Tenant",
    "read_manifest",
    "read_summary",
]

T = TypeVar("T")


class Spread(msgspec.Struct, frozen=True):
    """A quantity over many requests; numbers in its own unit, None when absent."""

    n: int = 0
    n_missing: int = 0
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    max: float | None = None


class Latency(msgspec.Struct, frozen=True):
    """Seconds."""

    ttft_s: Spread = Spread()
    ttft_answer_s: Spread = Spread()
    itl_s: Spread = Spread()
    tpot_s: Spread = Spread()
    e2e_s: Spread = Spread()
    time_to_reject_s: Spread = Spread()


class Goodput(msgspec.Struct, frozen=True):
    """Good requests over all offered."""

    slo: dict[str, float] = {}
    good: int = 0
    offered: int = 0
    ci95: tuple[float, float] | None = None
    rate_rps: float | None = None
    attainment: dict[str, float] = {}
    scope: str = "this schedule"


class Tokens(msgspec.Struct, frozen=True):
    """Token counts of one source."""

    total: int = 0
    min: int | None = None
    per_request: Spread = Spread()


class Lengths(msgspec.Struct, frozen=True):
    """Token counts by who counted them."""

    by_source: dict[str, Tokens] = {}
    n_missing: int = 0


class Group(msgspec.Struct, frozen=True):
    """One group of the workload."""

    offered: int = 0
    outcomes: dict[str, int] = {}
    latency: Latency = Latency()
    goodput: Goodput = Goodput()
    prompt_tokens: Lengths = Lengths()


class Rejection(msgspec.Struct, frozen=True):
    """Requests lost at one layer for want of one thing."""

    layer: str
    limiting_resource: str
    count: int
    unit: str = "unknown"
    by_outcome: dict[str, int] = {}
    by_group: dict[str, int] = {}
    statuses: dict[str, int] = {}
    accepted: str = "unknown"
    evidence: list[str] = []
    confidence: str = "unknown"
    prompt_tokens: Lengths = Lengths()


class Reason(msgspec.Struct, frozen=True):
    """A doubt about the run, and what to do about it."""

    text: str
    remedy: str = ""
    code: str = ""


class Verdict(msgspec.Struct, frozen=True):
    """Whether the numbers may be believed; None when nobody judged."""

    status: str | None = None
    reasons: list[Reason] = []
    warnings: list[Reason] = []
    lost_records: int = 0


class Offered(msgspec.Struct, frozen=True):
    """The schedule."""

    requests: int = 0
    duration_s: float = 0.0
    rate_rps: float | None = None
    schedule_digest: str = ""
    asked: dict[str, float] = {}


class Lag(msgspec.Struct, frozen=True):
    """Seconds."""

    p99: float | None = None
    max: float | None = None


class Client(msgspec.Struct, frozen=True):
    """The client's part in the numbers."""

    send_lag_s: Spread = Spread()
    client_lag_s: Spread = Spread()
    loop_lag_s: Lag = Lag()
    retries: int | None = None
    receive_clock: str | None = None
    coalesced_share: float | None = None
    processes: int | None = None
    connections: dict[str, int] = {}
    stopped: str | None = None


class Tenant(msgspec.Struct, frozen=True):
    """One tenant's part of the load and of the refusals."""

    offered: int = 0
    refused: int = 0
    good: int = 0
    offered_share: float | None = None
    refused_share: float | None = None


class Fairness(msgspec.Struct, frozen=True):
    """How evenly goodput fell on the tenants."""

    tenants: dict[str, Tenant] = {}
    jain_index: float | None = None


class Finding(msgspec.Struct, frozen=True):
    """Something odd on ``count`` requests. The text is hostile until escaped."""

    text: str
    code: str = ""
    count: int = 1
    first_seq: int | None = None


class Throughput(msgspec.Struct, frozen=True):
    """Output tokens per second of wall time, by who counted them."""

    output_tokens_per_s_over_wall: dict[str, float] = {}


class Warmup(msgspec.Struct, frozen=True):
    """Requests before t0, in no other number."""

    requests: int = 0


class Run(msgspec.Struct, frozen=True):
    """Which run this is."""

    name: str = ""
    started_utc: str = ""
    loadgen_version: str = ""


class Facts(msgspec.Struct, frozen=True):
    """What the report shows of a summary."""

    basis: str
    outcomes: dict[str, int]
    run: Run = Run()
    verdict: Verdict = Verdict()
    offered: Offered = Offered()
    rejections: list[Rejection] = []
    latency: Latency = Latency()
    groups: dict[str, Group] = {}
    goodput: Goodput = Goodput()
    throughput: Throughput = Throughput()
    fairness: Fairness | None = None
    client: Client = Client()
    findings: list[Finding] = []
    warmup: Warmup = Warmup()
    output_tokens: Lengths = Lengths()
    telemetry: dict[str, Any] | None = None
    definitions: dict[str, str] = {}
    reconciliation: dict[str, Any] | None = None


class Made(msgspec.Struct, frozen=True):
    """What the report shows of a manifest: where it went, by which command."""

    name: str = ""
    started_utc: str = ""
    loadgen_version: str = ""
    python_version: str = ""
    host: dict[str, Any] = {}
    command: list[str] = []
    target: dict[str, Any] = {}
    config: dict[str, Any] = {}


def read_summary(summary: Mapping[str, Any] | msgspec.Struct) -> Facts:
    """A summary just judged, or the JSON of a stored one.

    Raises:
        RunDirError: it is no summary.
    """
    return _read(summary, Facts, "summary.json")


def read_manifest(manifest: Mapping[str, Any] | msgspec.Struct) -> Made:
    """The same of a manifest.

    Raises:
        RunDirError: it is no manifest.
    """
    return _read(manifest, Made, "manifest.json")


def _read(value: Mapping[str, Any] | msgspec.Struct, kind: type[T], name: str) -> T:
    try:
        return msgspec.convert(_without_nulls(msgspec.to_builtins(value)), kind)
    except msgspec.ValidationError as error:
        raise RunDirError(f"{name} cannot be read: {error}") from None


def _without_nulls(value: Any) -> Any:
    """Null and missing mean the same; so every field falls to its default."""
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    return value
