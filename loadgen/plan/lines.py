"""The lines of a schedule file: a header, an entry a request, a seal."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

__all__ = ["SCHEMA", "Asked", "Entry", "Header", "Named", "Seal"]

SCHEMA = "loadgen.schedule/1"


class Named(msgspec.Struct):
    """As much of a header as tells what and which version it is."""

    schema: str = ""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for; what came of it is ``Schedule.realised``."""

    rate_rps: float
    duration_s: float


class Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What holds for every request of a schedule.

    ``arrivals`` describes the process and holds ``duration_ns``; every request is
    due in [0, duration_ns). ``groups`` are the names an entry may have.
    """

    schema: str = SCHEMA
    api: str
    method: str = "POST"
    path: str
    model: str
    stream: bool
    workload: str
    seed: int
    arrivals: dict[str, Any]
    asked: Asked
    groups: list[str]
    created_by: str

    @property
    def duration_ns(self) -> int:
        return int(self.arrivals["duration_ns"])


class Entry(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """One request: due ``at_ns`` after the schedule's start.

    ``prompt_tokens`` is the planned length (an estimate). ``max_tokens`` is None
    where the server's own limit is meant.
    """

    at_ns: Annotated[int, msgspec.Meta(ge=0, le=2**62)]
    group: str
    tenant: str | None
    max_tokens: int | None
    prompt_tokens: int
    body: msgspec.Raw


class Seal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last line: the digest of all bytes before it, and what they hold."""

    seal: str
    requests: int
    duration_ns: int
