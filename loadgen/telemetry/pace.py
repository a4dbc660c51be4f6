"""Instants on a fixed grid: a late sample is skipped over, never caught up."""

from __future__ import annotations

__all__ = ["next_tick_ns"]


def next_tick_ns(now_ns: int, origin_ns: int, period_ns: int) -> int:
    """The first instant ``origin + k * period`` that lies after now."""
    return origin_ns + ((now_ns - origin_ns) // period_ns + 1) * period_ns
