"""What one client did at one load, told from what the server saw."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from loadgen.units import NS_PER_MS, NS_PER_S
from tests.perf.truth import Served, TruthServer

__all__ = ["Client", "Load", "Stamped", "Trial", "Watch", "judge"]

LATE_NS = 10 * NS_PER_MS
_NONE = np.empty(0, np.float64)

Errors = NDArray[np.float64]


class Load(NamedTuple):
    """Streams of ``tokens`` tokens at a constant rate."""

    rate_rps: float
    seconds: float
    tokens: int

    @property
    def requests(self) -> int:
        return max(1, round(self.rate_rps * self.seconds))

    def at_ns(self) -> list[int]:
        return [int(i * NS_PER_S / self.rate_rps) for i in range(self.requests)]

    def body(self) -> bytes:
        return (
            b'{"model":"m","messages":[{"role":"user","content":"hello world this '
            b'is a test prompt of some words"}],"max_tokens":%d,"stream":true,'
            b'"stream_options":{"include_usage":true}}' % self.tokens
        )


class Stamped(NamedTuple):
    """One request as a client says it saw it, ns of CLOCK_MONOTONIC.

    ``scheduled_ns`` is when it was due; ``exact`` says of which token the client
    vouches for the instant; None: it makes no difference between them.
    """

    scheduled_ns: int | None
    sent_ns: int
    token_ns: NDArray[np.int64]
    exact: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Errors and lateness in ns.

    Attributes:
        asked: requests that were to be sent.
        whole: of these, answered and, where the client says so, read to the end.
        late_share: of those asked, read by the server more than 10 ms late, or never.
        lag: how late each was read.
        coalesced_share: of all tokens but each last, no exact instant; None: not told.
        cpu_s: what the client took, its start left out.
        rss_mb: at most; None: not looked at.
        peak: most requests in flight at once.
        launch_s: from the client's start to its first request.
    """

    asked: int
    whole: int
    tokens: int
    late_share: float
    lag: Errors
    ttft_error: Errors = field(default_factory=lambda: _NONE)
    itl_error: Errors = field(default_factory=lambda: _NONE)
    coalesced_share: float | None = None
    cpu_s: float = 0.0
    rss_mb: float | None = None
    peak: int = 0
    launch_s: float | None = None

    @property
    def cpu_us_per_token(self) -> float:
        return self.cpu_s * 1e6 / max(1, self.tokens)

    @property
    def cpu_us_per_request(self) -> float:
        return self.cpu_s * 1e6 / max(1, self.asked)


class Client(Protocol):
    """Whoever can be asked to offer a load."""

    @property
    def name(self) -> str: ...
    @property
    def coalesces(self) -> bool:
        """It tells exact instants from others, so its share is held to a limit."""

    @property
    def first_rps(self) -> float:
        """Where to begin to look for its highest rate of streams."""

    def offer(self, server: TruthServer, load: Load) -> Trial: ...


def judge(
    load: Load,
    served: list[Served],
    stamped: Mapping[str, Stamped],
    *,
    watch: Watch,
    cpu_s: float | None = None,
    began_ns: int | None = None,
) -> Trial:
    """Lay beside each other what a client said and what the server knows.

    Args:
        load: what was asked for.
        served: the server's log.
        stamped: the client's, by request id; empty where it tells nothing.
        watch: saw the client at work.
        cpu_s: what it took by its own account; None: tell it from the watch.
        began_ns: when it was started.
    """
    good = [one for one in served if one.status == 200]
    if stamped:
        good = [one for one in good if one.request_id in stamped]
    else:  # a client's own trial requests come first
        good = sorted(good, key=lambda one: one.read_ns)[-load.requests :]
    lag = _lag(load, good, stamped)
    missing = load.requests - len(lag)
    late = int(np.sum(lag > LATE_NS)) + max(0, missing)
    ttft, itl, inner, clean, whole = [], [], 0, 0, 0
    for truth in good:
        said = stamped.get(truth.request_id)
        if said is None or len(said.token_ns) != len(truth.token_ns):
            continue
        whole += 1
        away_ns = truth.token_ns[0] - truth.read_ns
        ttft.append(said.token_ns[0] - said.sent_ns - away_ns)
        error = np.abs(np.diff(said.token_ns) - np.diff(truth.token_ns))
        if said.exact is not None:
            # The last comes with its end mark, which is the server's doing.
            inner += len(error)
            clean += int(said.exact[:-1].sum())
            error = error[said.exact[1:] & said.exact[:-1]]
        itl.append(error)
    first_ns = min((one.read_ns for one in served), default=None)
    launch_s = None
    if began_ns is not None and first_ns is not None:
        launch_s = (first_ns - began_ns) / NS_PER_S
    return Trial(
        asked=load.requests,
        whole=whole if stamped else len(good),
        tokens=sum(len(one.token_ns) for one in good),
        late_share=late / load.requests,
        lag=lag,
        ttft_error=np.array(ttft, np.float64),
        itl_error=np.concatenate(itl).astype(np.float64) if itl else _NONE,
        coalesced_share=1 - clean / inner if inner else None,
        cpu_s=watch.cpu_s(*_span(served)) if cpu_s is None else cpu_s,
        rss_mb=watch.rss_mb,
        peak=_peak(served),
        launch_s=launch_s,
    )


def _lag(load: Load, served: list[Served], stamped: Mapping[str, Stamped]) -> Errors:
    """How late each request was read: after its due time, or after the grid's.

    Of a client that does not say when a request was due, the grid is the earliest
    its first tenth fits.
    """
    due = [
        (one.read_ns, said.scheduled_ns)
        for one in served
        if (said := stamped.get(one.request_id)) and said.scheduled_ns is not None
    ]
    if due:
        return np.array([read - at for read, at in due], np.float64)
    read_ns = np.sort(np.array([one.read_ns for one in served], np.float64))
    behind = read_ns - np.arange(len(read_ns)) * NS_PER_S / load.rate_rps
    if not len(behind):
        return behind
    start: Errors = behind - np.percentile(behind[: max(20, len(behind) // 10)], 5)
    return start


def _span(served: list[Served]) -> tuple[int, int]:
    """From the first read to the last write."""
    reads = [one.read_ns for one in served]
    ends = [int(one.token_ns[-1]) for one in served if len(one.token_ns)]
    return min(reads, default=0), max(ends, default=0)


def _peak(served: list[Served]) -> int:
    edges = [(one.read_ns, 1) for one in served]
    edges += [(int(one.token_ns[-1]), -1) for one in served if len(one.token_ns)]
    return int(np.cumsum([step for _, step in sorted(edges)]).max(initial=0))


class Watch:
    """The memory and the work of a process and of those it started, now and then."""

    def __init__(self, pid: int, *, every_s: float) -> None:
        self._pid = pid
        self._every_s = every_s
        self._over = threading.Event()
        self._cpu_s: list[tuple[int, float]] = []
        self.rss_mb = 0.0

    @contextmanager
    def on(self) -> Iterator[Watch]:
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._over.set()
            thread.join()

    def cpu_s(self, begin_ns: int, end_ns: int) -> float:
        """What it took between two instants, told from the looks around them."""
        at_ns = [at for at, _ in self._cpu_s]
        if not at_ns:
            return 0.0
        used_s = [used for _, used in self._cpu_s]
        first, last = np.interp([begin_ns, end_ns], at_ns, used_s)
        return float(last - first)

    def _run(self) -> None:
        while not self._over.wait(self._every_s):
            family = list(_family(self._pid))
            self.rss_mb = max(self.rss_mb, sum(map(_rss_mb, family)))
            used_s = sum(map(_cpu_s, family))
            self._cpu_s.append((time.monotonic_ns(), used_s))


def _cpu_s(pid: int) -> float:
    """What it took, and those that it started and that have ended."""
    with suppress(OSError, IndexError, ValueError):
        behind_name = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2]
        ticks = sum(map(int, behind_name.split()[11:15]))
        return ticks / os.sysconf("SC_CLK_TCK")
    return 0.0


def _rss_mb(pid: int) -> float:
    with suppress(OSError, IndexError, ValueError):
        pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    return 0.0


def _family(pid: int) -> Iterator[int]:
    yield pid
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text("ascii").split():
                yield from _family(int(child))
