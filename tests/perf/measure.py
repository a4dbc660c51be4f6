"""One measured run: offer a constant rate, join the records with the truth."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from loadgen.issue.launch import start
from loadgen.issue.stats import IssueStats
from loadgen.model import RequestRecord
from loadgen.units import NS_PER_MS, NS_PER_S
from tests.e2e.issuer_rig import configure, read_records, write_schedule
from tests.perf.truth import Served, TruthServer

LATE_NS = 10 * NS_PER_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is offered: streams of ``tokens`` tokens at a constant rate."""

    rate_rps: float
    seconds: float
    tokens: int
    stamps: str = "auto"

    def at_ns(self) -> list[int]:
        count = round(self.rate_rps * self.seconds)
        return [int(i * NS_PER_S / self.rate_rps) for i in range(count)]

    def body(self) -> bytes:
        return (
            b'{"model":"m","messages":[{"role":"user","content":"hello world this is '
            b'a test prompt of some words"}],"max_tokens":%d,"stream":true,'
            b'"stream_options":{"include_usage":true}}' % self.tokens
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The client's errors against the truth, ns."""

    ok: int
    mismatched: int
    ttft_error: NDArray[np.float64]
    itl_error: NDArray[np.float64]
    itl_error_all: NDArray[np.float64]
    write_to_stamp: NDArray[np.float64]
    read_lag: NDArray[np.float64]
    coalesced_share: float
    events: int
    ready_s: float
    stats: IssueStats

    @property
    def cpu_s_per_million_events(self) -> float:
        return self.stats.cpu_s / max(1, self.events) * 1e6

    @property
    def late_share(self) -> float:
        """Of sends, more than 10 ms late by the server's own clock."""
        return float(np.mean(self.read_lag > LATE_NS)) if len(self.read_lag) else 0.0


def measure(
    server: TruthServer, folder: Path, load: Load, *, core: int, preconnect: int = 0
) -> Measured:
    """Offer the load from an issuing process on that core."""
    write_schedule(folder / "schedule.jsonl", load.at_ns(), lambda _: load.body())
    records_path = folder / "requests-0.jsonl"
    records_path.unlink(missing_ok=True)
    config = configure(
        folder,
        ("127.0.0.1", server.port),
        headers=[("content-type", "application/json")],
        stamps=load.stamps,
        preconnect=preconnect,
        idle_ns=60 * NS_PER_S,
        total_ns=300 * NS_PER_S,
        drain_ns=60 * NS_PER_S,
    )

    async def run() -> tuple[float, IssueStats]:
        began = time.monotonic()
        issuing = await start(config)
        os.sched_setaffinity(issuing.pid, {core})
        try:
            await issuing.ready()
            ready_s = time.monotonic() - began
            await issuing.go(time.monotonic_ns() + 100 * NS_PER_MS)
            return ready_s, await issuing.wait()
        finally:
            await issuing.end()

    with server.log("run"):
        ready_s, stats = asyncio.run(run())
    return join(server.served("run"), read_records(records_path), stats, ready_s)


def join(
    served: dict[str, Served],
    records: list[RequestRecord],
    stats: IssueStats,
    ready_s: float,
) -> Measured:
    """What the client said beside what the server knows."""
    ttft, exact, every, stamp, lag = [], [], [], [], []
    mismatched = events = inner = clean = 0
    for record in records:
        truth = served.get(record.request_id)
        if truth is None or truth.status != 200 or record.sent_ns is None:
            continue
        lag.append(truth.read_ns - stats.t0_ns - record.scheduled_ns)
        at_ns = np.array(record.token_ns, np.int64) + stats.t0_ns
        is_exact = np.array(record.token_exact, bool)
        events += len(at_ns)
        inner += max(0, len(at_ns) - 1)
        clean += int(is_exact[:-1].sum())
        if len(at_ns) != len(truth.token_ns) or not len(at_ns):
            mismatched += 1
            continue
        sent_ns = record.sent_ns + stats.t0_ns
        ttft.append((at_ns[0] - sent_ns) - (truth.token_ns[0] - truth.read_ns))
        stamp.append(at_ns[0] - truth.token_ns[0])
        error = np.abs(np.diff(at_ns) - np.diff(truth.token_ns))
        every.append(error)
        exact.append(error[is_exact[1:] & is_exact[:-1]])
    none = np.empty(0, np.float64)
    return Measured(
        ok=stats.outcomes.get("ok", 0),
        mismatched=mismatched,
        ttft_error=np.array(ttft, np.float64),
        itl_error=np.concatenate(exact) if exact else none,
        itl_error_all=np.concatenate(every) if every else none,
        write_to_stamp=np.array(stamp, np.float64),
        read_lag=np.array(lag, np.float64),
        coalesced_share=1 - clean / inner if inner else 0.0,
        events=events,
        ready_s=ready_s,
        stats=stats,
    )
