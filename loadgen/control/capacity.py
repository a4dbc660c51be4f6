"""What this machine can offer, as measured before, against what a schedule asks."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from loadgen import __version__
from loadgen.control.null_rig import ITL_NS, Limit
from loadgen.plan.schedule import Schedule
from loadgen.store.files import atomic_file, io_errors
from loadgen.units import NS_PER_S, format_duration

__all__ = [
    "Calibration",
    "Demand",
    "Level",
    "Machine",
    "Most",
    "calibration_path",
    "demand_of",
    "read_calibration",
    "shortfalls",
    "this_machine",
    "write_calibration",
]

SCHEMA = "loadgen.calibration/1"

NOISE = 0.1
"""From this share of the processors on, others disturb a measurement."""

UNSAID_TOKENS = 256
"""Tokens reckoned for a request that leaves the limit to the server."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """All that a measured capacity depends on; another machine has another one."""

    host: str
    processor: str
    processors: int
    system: str
    python: str
    loadgen: str

    def key(self) -> str:
        """A short name for exactly this machine, Python and loadgen."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:12]


class Most(msgspec.Struct, frozen=True, kw_only=True):
    """The highest rate at which one issuing process still did its work properly.

    Attributes:
        rate_rps: requests a second.
        limited_by: who gave out beyond it, see ``null_rig.Limit``; ``time``: nobody
            while there was time. Only with ``client`` is the rate the client's
            own; otherwise it is a lower bound.
    """

    rate_rps: float
    limited_by: Limit | Literal["time"]


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """The client's errors at a share of its highest rate of streams.

    Attributes:
        share: of the highest rate.
        rate_rps: streams a second and process.
        tokens_per_s: token events a second and process.
        send_lag_p50_ns: sent - scheduled; the 99th percentile beside it.
        stamp_error_p50_ns: our stamp of an exact token minus the server's own of
            writing it; None: there were none.
        coalesced_share: of the tokens, those whose stamp is only an upper bound.
        processor_share: of one processor, what the busiest issuing process used.
        waited_share: of the time, how long it could have run and had no processor.
        server_late_share: of the tokens, those the null server wrote over 2 ms late.
    """

    share: float
    rate_rps: float
    tokens_per_s: float
    send_lag_p50_ns: int | None
    send_lag_p99_ns: int | None
    stamp_error_p50_ns: int | None
    stamp_error_p99_ns: int | None
    coalesced_share: float
    processor_share: float
    waited_share: float
    server_late_share: float


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """What one machine can offer, per issuing process.

    Attributes:
        processes: how many were measured together.
        requests: of one token each.
        streams: of ``stream_tokens`` tokens at ``ITL_NS``.
        took_s: how long measuring took.
        others_busy: of all processor time meanwhile, the share that went to
            programs that have nothing to do with it; None: not told.
    """

    schema: str = SCHEMA
    machine: Machine
    measured_utc: str
    took_s: float
    others_busy: float | None
    processes: int
    requests: Most
    streams: Most
    stream_tokens: int
    levels: list[Level]

    @property
    def quiet(self) -> bool:
        """Whether the machine had nothing else to do."""
        return self.others_busy is None or self.others_busy < NOISE

    @property
    def tokens_per_s(self) -> float:
        """The highest rate of token events, per process."""
        return self.streams.rate_rps * self.stream_tokens


class Demand(NamedTuple):
    """What a schedule asks of the client.

    Attributes:
        at_ns: due times.
        peak_rps: most requests due within one second.
        streams: most streams in flight if the server writes a token every 10 ms.
        tokens_per_s: most tokens that those streams bring within one second.
    """

    at_ns: NDArray[np.int64]
    peak_rps: int
    streams: int
    tokens_per_s: float


def this_machine() -> Machine:
    """The machine, Python and loadgen that run now."""
    return Machine(
        host=platform.node(),
        processor=_processor(),
        processors=len(os.sched_getaffinity(0)),
        system=f"{platform.system()} {platform.release()}",
        python=f"{platform.python_implementation()} {platform.python_version()}",
        loadgen=__version__,
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if "model name" in line)
    return next(named, platform.processor() or platform.machine())


def calibration_path(environment: Mapping[str, str], machine: Machine) -> Path:
    """Where that machine's calibration is kept for this user."""
    base = environment.get("XDG_CACHE_HOME", "")
    root = Path(base) if base.startswith("/") else Path.home() / ".cache"
    return root / "loadgen" / f"calibration-{machine.key()}.json"


def read_calibration(path: Path, machine: Machine) -> Calibration | None:
    """What was measured; None where nothing usable is kept for this machine."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Calibration)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return found if (found.schema, found.machine) == (SCHEMA, machine) else None


def write_calibration(path: Path, calibration: Calibration) -> None:
    """Keep it, in place of an earlier one.

    Raises:
        RunDirError: the folder cannot be written.
    """
    with io_errors("make", path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    raw = msgspec.json.encode(calibration)
    with atomic_file(path) as out:
        out.write(msgspec.json.format(raw, indent=2) + b"\n")


def demand_of(schedule: Schedule) -> Demand:
    """Reckon what a whole schedule asks of the client."""
    at_ns = np.frombuffer(schedule.at_ns, np.int64)
    tokens = np.frombuffer(schedule.max_tokens, np.int32).astype(np.int64)
    tokens[tokens < 0] = UNSAID_TOKENS
    within = np.searchsorted(at_ns, at_ns + NS_PER_S) - np.arange(at_ns.size)
    when_ns = np.concatenate([at_ns, at_ns + tokens * ITL_NS])
    order = np.argsort(when_ns, kind="stable")
    when_ns, open_ = when_ns[order], np.cumsum(np.where(order < at_ns.size, 1, -1))
    so_far = np.concatenate([[0], np.cumsum(open_[:-1] * np.diff(when_ns))]) / ITL_NS
    later = np.interp(when_ns + NS_PER_S, when_ns, so_far)
    return Demand(
        at_ns=at_ns,
        peak_rps=int(within.max()),
        streams=int(open_.max()),
        tokens_per_s=float((later - so_far).max()),
    )


def shortfalls(
    demand: Demand, can: Calibration, *, processes: int, lag_limit_ns: float
) -> Iterator[str]:
    """In words, each thing asked that is beyond what was measured; none: it fits.

    Args:
        demand: what the schedule asks.
        can: what one process of this machine can.
        processes: how many will share the schedule.
        lag_limit_ns: the send lag at p99 beyond which the run will be invalid.
    """
    most_rps = can.requests.rate_rps * processes
    if demand.peak_rps > most_rps:
        yield _beyond(
            f"{demand.peak_rps:,} requests come due within a second",
            f"{most_rps:,.0f} requests",
            certain=can.quiet and can.requests.limited_by == "client",
        )
    lag_ns = _lag_p99_ns(demand.at_ns, NS_PER_S / most_rps)
    if demand.peak_rps <= most_rps and lag_ns > lag_limit_ns:
        yield (
            "requests come due in bursts: the slowest 1 % will be sent about "
            f"{format_duration(lag_ns)} late, the limit is "
            f"{format_duration(lag_limit_ns)}"
        )
    most_tokens = can.tokens_per_s * processes
    if demand.tokens_per_s > most_tokens:
        yield _beyond(
            f"up to {demand.streams:,} streams bring {demand.tokens_per_s:,.0f} tokens "
            "a second if the server writes one every 10 ms",
            f"{most_tokens:,.0f} tokens",
            certain=can.quiet and can.streams.limited_by == "client",
        )


def _beyond(asked: str, most: str, *, certain: bool) -> str:
    if certain:
        return f"{asked}; this machine was measured to manage {most}"
    return f"{asked}; this machine was measured up to {most} only"


def _lag_p99_ns(at_ns: NDArray[np.int64], each_ns: float) -> float:
    """Lateness at p99 when sends take ``each_ns`` each, one after another."""
    ahead = np.arange(at_ns.size) * each_ns - at_ns
    waits = ahead - np.minimum.accumulate(ahead)
    return float(np.quantile(waits, 0.99))
