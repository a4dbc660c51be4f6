"""The knee: the highest rate at which enough of the offered requests are good.

A grid of rates, a fit that never rises, and the point where it crosses the target.
Each schedule is offered at every rate, so it is the schedules that are drawn again
for the interval: requests that share a queue are no independent sample.
"""

from __future__ import annotations

import msgspec

__all__ = ["Flag", "Knee"]


class Flag:
    """What to know before a knee is used; the words of ``Knee.flags``."""

    NEVER_SATURATED = "never_saturated"
    FAILS_AT_LOWEST = "fails_at_lowest"
    NOT_MONOTONE = "not_monotone"
    CLIFF = "cliff"
    CLIENT_LIMITED = "client_limited"
    ENGINE_RESTARTED = "engine_restarted"
    FEW_SCHEDULES = "few_schedules"


class Knee(msgspec.Struct, frozen=True, kw_only=True):
    """The highest rate with goodput at ``target`` or above.

    ``rate_rps`` is None where the target is met at every rate or at none: then
    ``at_least_rps`` or ``below_rps`` is the bound, and no measure of capacity. An
    end of ``ci95`` is None where it lies outside the rates that were offered;
    ``ci95`` is None where nothing can be said (one schedule, or no crossing).
    ``between_rps`` are the two offered rates that the crossing lies between.
    ``text`` says all this in words.
    """

    rate_rps: float | None
    ci95: tuple[float | None, float | None] | None
    target: float
    flags: list[str]
    at_least_rps: float | None
    below_rps: float | None
    between_rps: tuple[float, float] | None
    schedules: int
    text: str
