"""The only source of time. Everything else is handed a clock or an instant."""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["Clock", "MonotonicClock", "VirtualClock"]


class Clock(Protocol):
    """Nanoseconds that never go back."""

    def now_ns(self) -> int: ...


class MonotonicClock:
    """CLOCK_MONOTONIC, shared by all processes of one host."""

    def now_ns(self) -> int:
        return time.monotonic_ns()


class VirtualClock:
    """A clock that moves when told to; tests and the simulator use it."""

    def __init__(self, now_ns: int = 0) -> None:
        self._now_ns = now_ns

    def now_ns(self) -> int:
        return self._now_ns

    def advance_to_ns(self, instant_ns: int) -> None:
        """Move forward; an instant already past leaves the clock where it is."""
        self._now_ns = max(self._now_ns, instant_ns)
