"""Keeps the stamps of a run on one clock, and voids those it cannot vouch for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from loadgen.issue.stats import ClockStats
from loadgen.wire.stamps import KernelClock

__all__ = ["StampGuard"]


class Epoch(Protocol):
    """Where stamps are turned into instants of the run.

    Attributes:
        epoch_ns: CLOCK_REALTIME of t0.
        suspect: an impossible stamp was seen.
    """

    epoch_ns: int
    suspect: bool


class StampGuard:
    """Looks at both clocks every second and before each record.

    A record is made only after a look, so every request that was under way while
    the wall clock moved is voided, and none that ended before it did.

    Args:
        clock: the two clocks.
        epoch: told whenever the offset changes.
        t0_ns: CLOCK_MONOTONIC of t0.
        void: called when the stamps of all that is under way are in doubt.
    """

    def __init__(
        self,
        clock: KernelClock,
        epoch: Epoch,
        t0_ns: int,
        void: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._epoch = epoch
        self._t0_ns = t0_ns
        self._void = void
        self.look()

    def check(self) -> None:
        """The cheap look; a full one only if it is not satisfied."""
        if self._epoch.suspect or not self._clock.agrees():
            self.look()

    def look(self) -> None:
        """Bracket the clocks anew; void what is under way if they stepped."""
        step = self._clock.look()
        self._epoch.epoch_ns = self._clock.offset_ns + self._t0_ns
        self._epoch.suspect = False
        if step is not None:
            self._void()

    def stats(self) -> ClockStats:
        """What the clocks did."""
        clock = self._clock
        return ClockStats(
            offset_ns=clock.first.offset_ns,
            drift_ns=clock.offset_ns - clock.first.offset_ns,
            width_ns=clock.widest_ns,
            looks=clock.looks,
            steps=[
                {
                    "found_ns": step.found_ns - self._t0_ns,
                    "clean_ns": step.clean_ns - self._t0_ns,
                    "step_ns": step.step_ns,
                }
                for step in clock.steps
            ],
        )
