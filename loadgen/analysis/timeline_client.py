"""The issuing processes over a run: ``summary.telemetry.client``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import msgspec

from loadgen.telemetry.samples import ClientSample
from loadgen.units import NS_PER_S, ns_to_s

__all__ = ["ClientSeen", "client_seen", "steal_share"]


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """A mean between two looks, ns since t0."""

    from_ns: int
    to_ns: int
    mean_s: float


class ClientSeen(msgspec.Struct, frozen=True, kw_only=True):
    """What the kernel and the counters told of the issuing processes.

    ``cpu_share`` is of one processor a process, ``involuntary`` how often they
    lost it, ``worst_send_lag`` the span between two looks in which requests were
    sent latest. None: not told.
    """

    status: str
    looks: int = 0
    cpu_share: float | None = None
    rss_peak_bytes: int | None = None
    fds_peak: int | None = None
    involuntary: int | None = None
    steal_share: float | None = None
    in_flight_peak: int | None = None
    in_flight_peak_ns: int | None = None
    worst_send_lag: Span | None = None


def client_seen(samples: Sequence[ClientSample]) -> ClientSeen:
    """Fold the samples, in order of time."""
    if not samples:
        return ClientSeen(status="not looked at")
    alive = [sample for sample in samples if sample.processes]
    busiest = max(samples, key=lambda sample: sample.in_flight)
    return ClientSeen(
        status="ok",
        looks=len(samples),
        cpu_share=_cpu_share(alive),
        rss_peak_bytes=_peak(alive, lambda sample: sample.rss_bytes),
        fds_peak=_peak(alive, lambda sample: sample.fds),
        involuntary=_growth(alive, lambda sample: sample.involuntary),
        steal_share=steal_share(samples[0], samples[-1]),
        in_flight_peak=busiest.in_flight,
        in_flight_peak_ns=busiest.at_ns,
        worst_send_lag=_worst(samples),
    )


def steal_share(first: ClientSample, last: ClientSample) -> float | None:
    """Of the processors' time between two looks, what the hypervisor took."""
    if None in (first.machine_s, last.machine_s, first.steal_s, last.steal_s):
        return None
    assert first.machine_s is not None
    assert last.machine_s is not None
    assert first.steal_s is not None
    assert last.steal_s is not None
    passed_s = last.machine_s - first.machine_s
    return (last.steal_s - first.steal_s) / passed_s if passed_s > 0 else None


def _cpu_share(alive: Sequence[ClientSample]) -> float | None:
    if len(alive) < 2 or alive[-1].at_ns <= alive[0].at_ns:
        return None
    used_s = (alive[-1].cpu_s or 0.0) - (alive[0].cpu_s or 0.0)
    passed_s = (alive[-1].at_ns - alive[0].at_ns) / NS_PER_S
    return used_s / passed_s / max(1, alive[0].processes)


def _peak(
    alive: Sequence[ClientSample], of: Callable[[ClientSample], int | None]
) -> int | None:
    return max((v for one in alive if (v := of(one)) is not None), default=None)


def _growth(
    alive: Sequence[ClientSample], of: Callable[[ClientSample], int | None]
) -> int | None:
    known = [value for one in alive if (value := of(one)) is not None]
    return known[-1] - known[0] if len(known) > 1 else None


def _worst(samples: Sequence[ClientSample]) -> Span | None:
    worst: Span | None = None
    for one, other in pairwise(samples):
        sent = other.sent - one.sent
        if sent <= 0:
            continue
        mean_s = ns_to_s((other.send_lag_sum_ns - one.send_lag_sum_ns) / sent) or 0.0
        if worst is None or mean_s > worst.mean_s:
            worst = Span(from_ns=one.at_ns, to_ns=other.at_ns, mean_s=mean_s)
    return worst
