"""When requests are due: arrival processes as pure functions of spec and seed.

Each gives ``int64`` nanoseconds since the start of the schedule, sorted, all in
[0, duration). Nothing in them depends on what is sent.

A random process is drawn in *operational time*, in which one arrival is expected a
unit, and carried to real time by the inverse of the expected count. Gaps are summed
as integers, so that no order of summation can change a bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from loadgen.errors import UsageError
from loadgen.plan.draws import Floats, Ints, Stream, exponential, gamma
from loadgen.units import NS_PER_S

__all__ = ["ARRIVALS", "MAX_REQUESTS", "Arrivals", "offsets"]

MAX_REQUESTS = 10_000_000
MIN_BURSTINESS = 0.01
MAX_BURSTINESS = 10_000.0

_TICKS = 2.0**32
_CHUNK = 1 << 16


class Arrivals(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An arrival process and its numbers.

    ``rate_rps`` is the mean over the duration, but for a ramp: there it is the rate
    at the start. ``burstiness`` is the gamma shape of the gaps, as in vLLM: 1 is
    Poisson, below 1 is burstier. ``on-off`` starts on, offers nothing while off, and
    concentrates the whole mean in its on-time. ``fixed_count`` asks for exactly
    round(mean rate x duration) arrivals: gaps are scaled to fit, which for Poisson
    is the process given its count.
    """

    process: str
    rate_rps: float
    duration_ns: int
    burstiness: float = 1.0
    end_rate_rps: float | None = None
    on_ns: int | None = None
    off_ns: int | None = None
    fixed_count: bool = False

    @property
    def mean_rate_rps(self) -> float:
        """Requests per second asked for, over the whole duration."""
        if self.end_rate_rps is None:
            return self.rate_rps
        return (self.rate_rps + self.end_rate_rps) / 2

    @property
    def expected(self) -> float:
        """Requests expected in the duration."""
        return self.mean_rate_rps * self.duration_ns / NS_PER_S

    def describe(self) -> dict[str, Any]:
        """What a schedule's header keeps of it."""
        facts: dict[str, Any] = msgspec.to_builtins(self)
        if self.process != "constant":
            facts["burstiness"] = self.burstiness
        return facts


def offsets(spec: Arrivals, seed: int) -> Ints:
    """The due times of one schedule, ns from its start.

    Raises:
        UsageError: a process or number that makes no schedule, more than
            MAX_REQUESTS arrivals, or none.
    """
    _check(spec)
    due = ARRIVALS[spec.process](spec, Stream(seed, "arrivals"))
    if len(due) == 0:
        raise UsageError(
            f"no request falls into the schedule ({spec.expected:.3g} expected)",
            "raise the rate or the duration",
        )
    return due


def _check(spec: Arrivals) -> None:
    if spec.process not in ARRIVALS:
        known = ", ".join(ARRIVALS)
        raise UsageError(f"no arrival process {spec.process!r}", f"there are {known}")
    for name, rate in (("rate", spec.rate_rps), ("end rate", spec.end_rate_rps)):
        if rate is not None and not (math.isfinite(rate) and rate > 0):
            raise UsageError(f"the {name} must be above zero, not {rate}")
    if spec.duration_ns <= 0:
        raise UsageError("the duration must be above zero")
    if not MIN_BURSTINESS <= spec.burstiness <= MAX_BURSTINESS:
        raise UsageError(
            f"burstiness {spec.burstiness} is outside "
            f"{MIN_BURSTINESS:g} to {MAX_BURSTINESS:g}"
        )
    if spec.expected > MAX_REQUESTS:
        raise UsageError(
            f"{spec.expected:.3g} requests are more than a schedule holds "
            f"({MAX_REQUESTS:,})",
            "lower the rate or the duration",
        )
    _check_applies(spec)


def _check_applies(spec: Arrivals) -> None:
    """A number its process does not use is a mistake, never ignored."""
    ramp, on_off = spec.process == "ramp", spec.process == "on-off"
    if ramp != (spec.end_rate_rps is not None):
        raise UsageError("a ramp needs an end rate, and only a ramp has one")
    times = (spec.on_ns, spec.off_ns)
    if any((time is not None) != on_off for time in times):
        raise UsageError(
            "on-off needs an on-time and an off-time, and only it has them"
        )
    if on_off and any(time is None or time <= 0 for time in times):
        raise UsageError("on-time and off-time must be above zero")
    if spec.process in ("constant", "poisson") and spec.burstiness != 1:
        raise UsageError(
            f"{spec.process} arrivals have no burstiness", "use --arrivals gamma"
        )


def _constant(spec: Arrivals, stream: Stream) -> Ints:
    if spec.fixed_count:
        count = max(1, round(spec.expected))
        period_ns = spec.duration_ns / count
    else:
        count = math.ceil(spec.expected) + 1
        period_ns = NS_PER_S / spec.rate_rps
    due = np.rint(np.arange(count) * period_ns).astype(np.int64)
    inside: Ints = due[due < spec.duration_ns]
    return inside


def _even(spec: Arrivals, stream: Stream) -> Ints:
    """Poisson and gamma: the same rate throughout."""
    return _whole(spec, _operational(spec, stream) * (NS_PER_S / spec.rate_rps))


def _on_off(spec: Arrivals, stream: Stream) -> Ints:
    on_ns, off_ns = spec.on_ns or 1, spec.off_ns or 0
    cycles, rest_ns = divmod(spec.duration_ns, on_ns + off_ns)
    on_time_ns = cycles * on_ns + min(rest_ns, on_ns)
    ns_per_arrival = on_time_ns / spec.expected
    on_clock = (_operational(spec, stream) * ns_per_arrival).astype(np.int64)
    on_clock = np.minimum(on_clock, on_time_ns - 1)
    return on_clock + on_clock // on_ns * off_ns


def _ramp(spec: Arrivals, stream: Stream) -> Ints:
    start = spec.rate_rps / NS_PER_S
    slope = ((spec.end_rate_rps or 0) - spec.rate_rps) / NS_PER_S / spec.duration_ns
    arrival = _operational(spec, stream)
    root = np.sqrt(np.maximum(start * start + 2 * slope * arrival, 0))
    return _whole(spec, 2 * arrival / (start + root))


ARRIVALS: dict[str, Callable[[Arrivals, Stream], Ints]] = {
    "constant": _constant,
    "poisson": _even,
    "gamma": _even,
    "on-off": _on_off,
    "ramp": _ramp,
}


def _operational(spec: Arrivals, stream: Stream) -> Floats:
    """Arrival times with one expected a unit, sorted, in [0, expected)."""
    if spec.fixed_count:
        count = max(1, round(spec.expected))
        ticks = np.cumsum(_gaps(spec, stream, 0, count + 1))
        return ticks[:-1] / max(1, int(ticks[-1])) * spec.expected
    limit = round(spec.expected * _TICKS)
    chunks: list[Ints] = []
    reached = 0
    while reached < limit:
        gaps = _gaps(spec, stream, len(chunks) * _CHUNK, _CHUNK)
        chunks.append(np.cumsum(gaps) + reached)
        reached = int(chunks[-1][-1])
    ticks = np.concatenate(chunks)
    return ticks[ticks < limit] / _TICKS


def _gaps(spec: Arrivals, stream: Stream, start: int, count: int) -> Ints:
    if spec.burstiness == 1:
        gaps = exponential(stream, start, count)
    else:
        gaps = gamma(stream, spec.burstiness, start, count)
    return np.rint(gaps * _TICKS).astype(np.int64)


def _whole(spec: Arrivals, due_ns: Floats) -> Ints:
    return np.minimum(due_ns.astype(np.int64), spec.duration_ns - 1)
