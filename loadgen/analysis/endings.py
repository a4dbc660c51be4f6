"""Attribution of requests that no answer explains: what ended them.

The client sees its own limits and the socket's errors, and little of why.
"""

from __future__ import annotations

import re

from loadgen.analysis.answer import quote
from loadgen.model import (
    Accepted,
    Attribution,
    Confidence,
    Ending,
    Layer,
    Outcome,
    RequestRecord,
    Resource,
)

__all__ = ["STALE_CONNECTION", "attribute_ending"]

# What the issuer notes when a kept-alive connection died under a request.
STALE_CONNECTION = "stale_connection"

_BROKEN = (Ending.EOF, Ending.RESET)
_OWN_LIMITS = re.compile(
    r"too many open files|emfile|enfile|cannot assign requested address"
    r"|eaddrnotavail|address not available|no buffer space|file descriptor|\bport",
    re.IGNORECASE,
)
_TOO_SLOW = re.compile(r"time[d]?[ -]?out|etimedout|limit", re.IGNORECASE)


def attribute_ending(record: RequestRecord) -> Attribution:
    """Attribute a request by its outcome, ending and how far it had come."""
    match record.outcome:
        case Outcome.UNSENT:
            return _client(record, Resource.OTHER, "never sent: the run ended first")
        case Outcome.CANCELLED:
            return _cancelled(record)
        case Outcome.CLIENT_ERROR:
            return _client_error(record)
        case Outcome.INTERNAL:
            return _client(record, Resource.OTHER, "a fault of loadgen's own")
        case Outcome.CONNECT_ERROR:
            return _connect_error(record)
        case Outcome.TIMEOUT:
            return _timed_out(record)
        case Outcome.STALLED:
            return _stalled(record)
        case Outcome.RESET | Outcome.TRUNCATED:
            return _cut(record)
        case _ if record.status is not None and record.ending in _BROKEN:
            return _cut(record)
        case _:
            return _attribution(
                (Layer.UNKNOWN, Resource.UNKNOWN),
                _progress(record),
                Confidence.LOW,
                f"{record.outcome.value}: no answer of this API; is --api right?",
                *_printable(record.detail),
            )


def _progress(record: RequestRecord) -> Accepted:
    """Accepted as far as the client saw: only output proves it."""
    if record.first_token_ns is not None:
        return Accepted.YES
    return Accepted.NO if record.sent_ns is None else Accepted.UNKNOWN


def _attribution(
    where: tuple[Layer, Resource],
    accepted: Accepted,
    confidence: Confidence,
    *evidence: str,
) -> Attribution:
    return Attribution(
        layer=where[0],
        limiting_resource=where[1],
        accepted=accepted,
        evidence=evidence,
        confidence=confidence,
    )


def _client(record: RequestRecord, resource: Resource, *evidence: str) -> Attribution:
    return _attribution(
        (Layer.CLIENT, resource), _progress(record), Confidence.HIGH, *evidence
    )


def _cancelled(record: RequestRecord) -> Attribution:
    if record.ending is Ending.USER:
        return _client(record, Resource.OTHER, "cut by the user")
    return _client(record, Resource.TIMEOUT, "still open at the drain limit")


def _client_error(record: RequestRecord) -> Attribution:
    detail = _printable(record.detail)
    resource = (
        Resource.CONNECTIONS
        if record.detail and _OWN_LIMITS.search(record.detail)
        else Resource.OTHER
    )
    why = "TLS failed" if record.ending is Ending.TLS else "failed on our side"
    return _client(record, resource, why, *detail)


def _connect_error(record: RequestRecord) -> Attribution:
    slow = bool(record.detail and _TOO_SLOW.search(record.detail))
    why = (
        "no connection within the limit: a dead path and a full accept queue look alike"
        if slow
        else "connection refused or unreachable: nothing listens there"
    )
    return _attribution(
        (Layer.NETWORK, Resource.CONNECTIONS),
        Accepted.NO,
        Confidence.MEDIUM if slow else Confidence.HIGH,
        why,
        *_printable(record.detail),
    )


def _timed_out(record: RequestRecord) -> Attribution:
    if record.status is None:
        why = "no answer within our total limit: queued in silence, or lost"
    elif record.first_token_ns is None:
        why = f"status {record.status} but no output within our total limit"
    else:
        why = "output still coming at our total limit"
    return _attribution(
        (Layer.CLIENT, Resource.TIMEOUT), _progress(record), Confidence.MEDIUM, why
    )


def _stalled(record: RequestRecord) -> Attribution:
    if record.status is None:
        return _attribution(
            (Layer.CLIENT, Resource.TIMEOUT),
            _progress(record),
            Confidence.LOW,
            "no answer within our idle limit: queued in silence, or lost",
        )
    if record.first_token_ns is None:
        return _attribution(
            (Layer.UNKNOWN, Resource.TIMEOUT),
            Accepted.UNKNOWN,
            Confidence.LOW,
            f"status {record.status}, then no byte within our idle limit",
            "a queue that never moved and an engine stopped under us look alike",
        )
    return _attribution(
        (Layer.ENGINE_FAILURE, Resource.TIMEOUT),
        Accepted.YES,
        Confidence.LOW,
        "output stopped and no byte came within our idle limit",
    )


def _cut(record: RequestRecord) -> Attribution:
    if STALE_CONNECTION in record.findings:
        return _attribution(
            (Layer.CLIENT, Resource.CONNECTIONS),
            Accepted.NO,
            Confidence.MEDIUM,
            "a kept-alive connection was closed before any byte of an answer",
        )
    if record.status is None:
        return _attribution(
            (Layer.NETWORK, Resource.OTHER),
            Accepted.UNKNOWN,
            Confidence.MEDIUM,
            "the connection was lost before any answer",
            *_printable(record.detail),
        )
    accepted = _progress(record)
    between = "x-envoy-upstream-service-time" in record.headers
    return _attribution(
        (Layer.ENGINE_FAILURE, Resource.OTHER),
        accepted,
        Confidence.LOW,
        f"status {record.status}, then the answer was cut without its end",
        *(["a gateway stood between: its own limits cut the same way"] * between),
    )


def _printable(detail: str | None) -> tuple[str, ...]:
    return (quote(detail),) if detail else ()
