"""One thing looked at: what was found, what it means and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec

__all__ = ["SCHEMA", "Check", "Status", "any_failed", "encode"]

SCHEMA = "loadgen.doctor/1"


class Status(StrEnum):
    """How a check came out; unknown means that it could not be found out."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One row.

    Attributes:
        id: for programs: the part looked at, a dot, the thing.
        name: the thing, for people.
        status: how it came out.
        found: what was seen.
        meaning: what follows from it for a load test; empty where nothing does.
        do: what to do; None where nothing is to be done.
    """

    id: str
    name: str
    status: Status
    found: str
    meaning: str = ""
    do: str | None = None


class _Row(msgspec.Struct, frozen=True):
    id: str
    status: Status
    found: str
    meaning: str
    do: str | None


class _Document(msgspec.Struct, frozen=True):
    schema: str
    checks: list[_Row]


def any_failed(checks: Sequence[Check]) -> bool:
    """Whether one of them failed; what is unknown or a warning did not."""
    return any(check.status is Status.FAIL for check in checks)


def encode(checks: Sequence[Check]) -> bytes:
    """The checks as one JSON document that ends in a newline."""
    rows = [_Row(c.id, c.status, c.found, c.meaning, c.do) for c in checks]
    document = msgspec.json.encode(_Document(SCHEMA, rows))
    return msgspec.json.format(document, indent=2) + b"\n"
