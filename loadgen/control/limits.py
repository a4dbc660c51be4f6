"""The limits of one request and of the run, as typed, in nanoseconds."""

from __future__ import annotations

from dataclasses import dataclass

from loadgen.errors import naming
from loadgen.units import parse_duration_ns

__all__ = ["Limits", "parse_limits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """All in nanoseconds; see ``issue.config.IssueConfig``."""

    connect_ns: int
    idle_ns: int
    total_ns: int
    drain_ns: int


def parse_limits(*, connect: str, idle: str, total: str, drain: str) -> Limits:
    """Read the limits' flags; ``--drain 0s`` is allowed, the others must be above 0.

    Raises:
        UsageError: naming the flag.
    """
    return Limits(
        connect_ns=_read("--connect-timeout", connect),
        idle_ns=_read("--idle-timeout", idle),
        total_ns=_read("--timeout", total),
        drain_ns=_read("--drain", drain, allow_zero=True),
    )


def _read(flag: str, text: str, *, allow_zero: bool = False) -> int:
    with naming(flag):
        return parse_duration_ns(text, allow_zero=allow_zero)
