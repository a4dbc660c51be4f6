"""What one issuing process says about itself at the end: ``IssueStats``."""

from __future__ import annotations

import msgspec

__all__ = ["ClockStats", "ConnectionStats", "Histogram", "IssueStats", "Quantiles"]

_SUB_BITS = 4  # 16 buckets an octave: a quantile is at most 6 % too high
_SUB = 1 << _SUB_BITS


class Quantiles(msgspec.Struct, frozen=True, kw_only=True):
    """A summary of many durations, ns; None where there were none.

    ``max_ns`` and ``mean_ns`` are exact; a quantile is the upper edge of its
    bucket, never below the truth and at most 6 % above it.
    """

    n: int
    mean_ns: float | None
    p50_ns: int | None
    p90_ns: int | None
    p99_ns: int | None
    max_ns: int | None


class Histogram:
    """Durations counted in buckets whose width grows with their size."""

    __slots__ = ("_counts", "max_ns", "n", "total_ns")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self.n = 0
        self.total_ns = 0
        self.max_ns = 0

    def add(self, duration_ns: int, count: int = 1) -> None:
        """Count a duration; below zero counts as zero."""
        duration_ns = max(0, duration_ns)
        shift = max(0, duration_ns.bit_length() - _SUB_BITS - 1)
        bucket = (shift << _SUB_BITS) + (duration_ns >> shift)
        self._counts[bucket] = self._counts.get(bucket, 0) + count
        self.n += count
        self.total_ns += duration_ns * count
        self.max_ns = max(self.max_ns, duration_ns)

    def quantiles(self) -> Quantiles:
        """The summary."""
        edges = [self._at(share) for share in (0.5, 0.9, 0.99)]
        return Quantiles(
            n=self.n,
            mean_ns=self.total_ns / self.n if self.n else None,
            p50_ns=edges[0],
            p90_ns=edges[1],
            p99_ns=edges[2],
            max_ns=self.max_ns if self.n else None,
        )

    def _at(self, share: float) -> int | None:
        seen = 0
        for bucket in sorted(self._counts):
            seen += self._counts[bucket]
            if seen >= share * self.n:
                return min(_upper_edge(bucket), self.max_ns)
        return None


def _upper_edge(bucket: int) -> int:
    if bucket < 2 * _SUB:
        return bucket
    shift = (bucket >> _SUB_BITS) - 1
    return ((bucket - (shift << _SUB_BITS) + 1) << shift) - 1


class ClockStats(msgspec.Struct, frozen=True, kw_only=True):
    """How CLOCK_REALTIME stood to CLOCK_MONOTONIC.

    Attributes:
        offset_ns: REALTIME minus MONOTONIC at the start.
        drift_ns: by how much it had moved at the end.
        width_ns: the widest bracket used: twice the offset's possible error.
        looks: how often it was bracketed.
        steps: jumps noticed: found_ns and clean_ns since t0, step_ns.
    """

    offset_ns: int
    drift_ns: int
    width_ns: int
    looks: int
    steps: list[dict[str, int]]


class ConnectionStats(msgspec.Struct, frozen=True, kw_only=True):
    """Connections of one process.

    Attributes:
        opened: new ones begun, those opened ahead included.
        opened_ahead: of these, opened before t0.
        reused: requests that went over one used before.
        dropped: idle ones found dead or too old.
        peak_in_flight: most requests under way at once.
    """

    opened: int
    opened_ahead: int
    reused: int
    dropped: int
    peak_in_flight: int


class IssueStats(msgspec.Struct, frozen=True, kw_only=True):
    """One issuing process's account of itself.

    Attributes:
        scheduled: requests in its share of the schedule.
        offered: requests it took up.
        sent: requests whose last byte went to the kernel.
        ended: records written, unsent ones included.
        records_lost: ended, but the record could not be written.
        outcomes: count by outcome; sums to ``scheduled``.
        start_lag: how late requests were taken up, by our own fault alone.
        send_lag: sent minus scheduled; a new connection's opening is in it.
        loop_lag: how long the loop was away from its wait, by turn.
        turns: turns of the loop.
        receive_clock: ``kernel`` or ``user``.
        clock: None when nothing was stamped by the kernel.
        tokens: token events counted.
        tokens_exact: of these, with an exact stamp.
        stop: why it stopped before the end of the schedule; None: it did not.
        internal: the first faults of ours, as one line each.
        gc_collections: cyclic collections during the run; 0 unless forced.
        gc_pause_max_ns: the longest of them; 0: there was none.
        cpu_s: processor time from t0 to the end.
        waited_s: time it was runnable and had no processor; None: not told.
        preempted: involuntary context switches from t0 to the end.
        t0_ns: CLOCK_MONOTONIC of t0.
        end_ns: when the last request ended, ns since t0.
        schedule_digest: of the whole schedule, as this process computed it.
        stripe: (i, n): requests i, i + n, i + 2n, … were its share.
        died: how it died before it could say any of this; the parent then wrote
            the counts it had left behind, and all else here is not known. None:
            it lived.
    """

    scheduled: int
    offered: int
    sent: int
    ended: int
    records_lost: int
    outcomes: dict[str, int]
    start_lag: Quantiles
    send_lag: Quantiles
    loop_lag: Quantiles
    turns: int
    receive_clock: str
    clock: ClockStats | None
    connections: ConnectionStats
    tokens: int
    tokens_exact: int
    stop: str | None
    internal: list[str]
    gc_collections: int
    gc_pause_max_ns: int = 0
    cpu_s: float
    waited_s: float | None
    preempted: int
    t0_ns: int
    end_ns: int
    schedule_digest: str
    stripe: tuple[int, int]
    died: str | None = None
