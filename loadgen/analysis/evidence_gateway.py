"""Envoy's access log and counters, read from text."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from loadgen.analysis.evidence import RESPONSE_FLAGS, GatewayLine

__all__ = [
    "GatewayCounts",
    "parse_access_log",
    "parse_gateway_counters",
]

MAX_LINE_CHARS = 16_384

_FLAG = "|".join(sorted(RESPONSE_FLAGS, key=len, reverse=True))
# A status, then the flags: how Envoy's default format and its kin order them.
_STATUS_AND_FLAGS = re.compile(
    rf"(?<![\w.:/-])(?P<status>[0-5]\d{{0,2}})\s+(?P<flags>-|(?:{_FLAG})(?:,[A-Z]+)*)"
    r"(?:\s+(?P<details>[a-z_{\[][^\s\"]*))?"
)
_TOKEN = re.compile(r"[^\s\"'=,;{}\[\]()]+")
_UPSTREAM = re.compile(r"(?:up|upstream|upstream_host)=(?P<host>[^\s\"]+)")

_STATUS_KEYS = ("status", "response_code", "code", "http_status")
_FLAG_KEYS = ("flags", "response_flags", "response_flag")
_DETAIL_KEYS = ("details", "response_code_details")
_UPSTREAM_KEYS = ("upstream", "upstream_host", "upstream_cluster_host")


def parse_access_log(
    lines: Iterable[str], wanted: Container[str]
) -> Iterator[GatewayLine]:
    """Find this run's requests in an access log, whatever its format.

    Args:
        lines: JSON objects or text with ``%RESPONSE_CODE% %RESPONSE_FLAGS%``.
        wanted: the run's request ids; a line without one of them is passed over.

    Yields:
        One line a request mentioned, in the log's order; lines that cannot be
        read are passed over too.
    """
    for line in lines:
        text = line[:MAX_LINE_CHARS].strip()
        found = _from_json(text, wanted) if text.startswith("{") else None
        if found is None:
            found = _from_text(text, wanted)
        if found is not None:
            yield found


def _from_json(text: str, wanted: Container[str]) -> GatewayLine | None:
    try:
        fields = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    request_id = next(
        (v for v in fields.values() if isinstance(v, str) and v in wanted), None
    )
    if request_id is None:
        return None
    flags = _first(fields, _FLAG_KEYS)
    return GatewayLine(
        request_id=request_id,
        status=_status(_first(fields, _STATUS_KEYS)),
        flags=_flags(flags if isinstance(flags, str) else "-"),
        details=_word(_first(fields, _DETAIL_KEYS)),
        upstream=_word(_first(fields, _UPSTREAM_KEYS)),
    )


def _from_text(text: str, wanted: Container[str]) -> GatewayLine | None:
    request_id = next((t for t in _TOKEN.findall(text) if t in wanted), None)
    match = _STATUS_AND_FLAGS.search(text)
    if request_id is None or match is None:
        return None
    upstream = _UPSTREAM.search(text)
    return GatewayLine(
        request_id=request_id,
        status=_status(match["status"]),
        flags=_flags(match["flags"]),
        details=match["details"],
        upstream=_word(upstream["host"]) if upstream else None,
    )


def _first(fields: Mapping[str, Any], names: tuple[str, ...]) -> object:
    return next((fields[name] for name in names if fields.get(name) is not None), None)


def _status(value: object) -> int | None:
    if isinstance(value, str) and value.isdigit():
        value = int(value)
    return value if isinstance(value, int) and 100 <= value <= 999 else None


def _flags(text: str) -> tuple[str, ...]:
    return tuple(flag for flag in text.split(",") if flag not in ("", "-"))


def _word(value: object) -> str | None:
    return value if isinstance(value, str) and value not in ("", "-") else None


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayCounts:
    """What Envoy counted; the difference of two of them is a run's.

    None: the series is not there. ``own_5xx`` are those it made itself: those
    it sent less those it got.
    """

    overflow: int | None = None
    rate_limited: int | None = None
    timeouts: int | None = None
    connect_failures: int | None = None
    no_healthy: int | None = None
    sent_5xx: int | None = None
    got_5xx: int | None = None

    @property
    def own_5xx(self) -> int | None:
        if self.sent_5xx is None or self.got_5xx is None:
            return None
        return self.sent_5xx - self.got_5xx

    def __sub__(self, before: GatewayCounts) -> GatewayCounts:
        """Deltas; None where a side is missing or the counter went back."""
        return GatewayCounts(
            **{
                name: _delta(getattr(before, name), getattr(self, name))
                for name in _SERIES
            }
        )


# Each count's series, plain (/stats) and Prometheus (/stats/prometheus) both
# reduced to words joined by "_".
_SERIES: dict[str, re.Pattern[str]] = {
    "overflow": re.compile(r"cluster_.*upstream_(rq_pending|rq_active|cx)_overflow$"),
    "rate_limited": re.compile(r"local_rate_?limit.*_rate_limited$|ratelimit_over_"),
    "timeouts": re.compile(r"cluster_.*upstream_rq_timeout$"),
    "connect_failures": re.compile(r"cluster_.*upstream_cx_connect_fail$"),
    "no_healthy": re.compile(r"cluster_.*upstream_cx_none_healthy$"),
    "sent_5xx": re.compile(r"http_.*downstream_rq_5xx$"),
    "got_5xx": re.compile(r"cluster_.*upstream_rq_5xx$"),
}
_COUNTER = re.compile(
    r"^(?P<name>[A-Za-z_][\w.:-]*?)(?P<labels>\{[^}]*\})?(?::\s*|\s+)"
    r"(?P<value>\d+(?:\.\d+)?(?:e\+?\d+)?)$"
)
_CLASS = re.compile(r'envoy_response_code_class="(\d)"')


def parse_gateway_counters(text: str) -> GatewayCounts:
    """Read Envoy's ``/stats`` or ``/stats/prometheus``; its admin port apart."""
    sums: dict[str, int] = {}
    for line in text.splitlines():
        counter = _COUNTER.match(line.strip())
        if counter is None:
            continue
        name, labels = counter["name"], counter["labels"] or ""
        if "admin" in name.split(".") or '="admin"' in labels:
            continue
        code_class = _CLASS.search(labels)
        plain = name.replace(".", "_").replace("-", "_")
        if code_class:
            plain = plain.replace("_rq_xx", f"_rq_{code_class[1]}xx")
        for term, pattern in _SERIES.items():
            if pattern.search(plain):
                sums[term] = sums.get(term, 0) + int(float(counter["value"]))
    return GatewayCounts(**sums)


def _delta(before: int | None, after: int | None) -> int | None:
    if before is None or after is None or after < before:
        return None
    return after - before
