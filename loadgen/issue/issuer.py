"""One process's share of a schedule: made ready, offered, accounted for."""

from __future__ import annotations

import gc
import resource
import time
from array import array
from functools import partial
from pathlib import Path
from typing import NamedTuple

from loadgen.errors import UsageError
from loadgen.issue.ahead import open_ahead
from loadgen.issue.attempt import Attempt, Lane, Limits, Offer
from loadgen.issue.config import IssueConfig
from loadgen.issue.control import Control, LineReader
from loadgen.issue.guard import StampGuard
from loadgen.issue.journal import Journal, RecordFile
from loadgen.issue.loop import Loop, Task
from loadgen.issue.mapped import Mapped
from loadgen.issue.pool import Pool
from loadgen.issue.progress import SLOT, ProgressWriter
from loadgen.issue.ready import readiness
from loadgen.issue.stats import ConnectionStats, IssueStats
from loadgen.plan.schedule import load
from loadgen.units import NS_PER_S
from loadgen.wire.connection import Endpoint
from loadgen.wire.http import RequestHead
from loadgen.wire.protocols import PROTOCOLS
from loadgen.wire.reading import Reading
from loadgen.wire.room import Room
from loadgen.wire.stamps import KernelClock, stamping_warm

__all__ = ["Issuer"]

_UNSENT_BATCH = 256


class Issuer:
    """Construction does all that can be done before t0; ``run`` does the rest.

    Args:
        config: what to offer, to whom, within which limits.

    Attributes:
        schedule: the share of this process.
        opened_ahead: connections that stand already.

    Raises:
        UsageError: the schedule, the protocol or a file cannot be used.
        OSError: the records or the progress block cannot be opened.
    """

    def __init__(self, config: IssueConfig) -> None:
        self._config = config
        self._mapped = _map(config.schedule_path)
        self.schedule = load(self._mapped.data, stripe=config.stripe, cut=config.cut)
        self._mapped.rewind()
        if config.api not in PROTOCOLS:
            raise UsageError(f"there is no api {config.api!r}")
        self._protocol = PROTOCOLS[config.api]
        self._head = RequestHead(
            config.path,
            config.host_header,
            config.headers,
            close=config.fresh_connections,
        )
        self._room = Room()
        self._progress = ProgressWriter(config.progress_path)
        self._progress.slots[SLOT["scheduled"]] = len(self.schedule)
        self._file = RecordFile(config.records_path)
        self._journal = Journal(
            self._file,
            self._progress.slots,
            _load_prompt_tokens(config),
            config.prompt_tokens.source,
        )
        self._ready = readiness(time.monotonic_ns)
        # Held as long as the run: it keeps the kernel's stamping switched on.
        self._stamping = stamping_warm() if config.stamps == "auto" else None
        self._pool = Pool(
            _endpoint(config, stamped=self._stamping is not None),
            self._ready,
            reuse_idle_ns=config.reuse_idle_ns,
            fresh=config.fresh_connections,
        )
        self.opened_ahead = open_ahead(
            self._pool,
            self._ready,
            time.monotonic_ns,
            count=config.preconnect,
            limit_ns=config.connect_ns,
        )
        self._lane: Lane
        self._loop: Loop
        self._guard: StampGuard | None = None
        self._pauses = _Pauses()

    def settle(self) -> None:
        """Collect what construction left and spare the collector the rest."""
        gc.collect()
        gc.freeze()

    def run(
        self,
        t0_ns: int,
        commands: LineReader,
        signals: LineReader,
        *,
        stopped: str | None = None,
    ) -> IssueStats:
        """Offer the share from t0 on and see every request to its end.

        Args:
            t0_ns: CLOCK_MONOTONIC of t0.
            commands: lines from the parent; their end means that it is gone.
            signals: lines made of signals.
            stopped: why nothing at all is to be offered; None: offer.
        """
        self._compose(t0_ns)
        for reader in (commands, signals):
            if not reader.ended:
                self._listen(reader)
        self._progress.slots[SLOT["t0_ns"]] = t0_ns
        if stopped is not None:
            self._loop.drain(stopped)
        gc.disable()
        gc.callbacks.append(self._pauses)
        before = _Usage.now()
        self._loop.run()
        after = _Usage.now()
        gc.callbacks.remove(self._pauses)
        gc.enable()
        gc.unfreeze()
        self._account_for_unsent()
        self._tick(time.monotonic_ns())
        return self._stats(t0_ns, before, after)

    def close(self) -> None:
        """Let go of every file and socket."""
        self._pool.close()
        self._ready.close()
        self._file.close()
        self._progress.close()
        if self._stamping is not None:
            self._stamping.close()

    def _compose(self, t0_ns: int) -> None:
        config, now_ns = self._config, time.monotonic_ns
        self._loop = loop = Loop(
            self.schedule.at_ns,
            t0_ns,
            self._make,
            self._unmade,
            self._ready,
            now_ns,
            window_ns=self.schedule.duration_ns,
            drain_ns=config.drain_ns,
            tick=self._tick,
            stray=self._pool.stirred,
        )
        self._lane = Lane(
            self._pool,
            self._ready,
            loop.watchers,
            now_ns,
            loop.done,
            self._journal,
            Limits(config.connect_ns, config.idle_ns, config.total_ns),
            t0_ns,
        )
        self._journal.full = loop.drain
        if self._stamping is not None:
            clock = KernelClock(now_ns, time.time_ns)
            self._guard = StampGuard(clock, self._lane, t0_ns, loop.void)
            self._journal.check_clock = self._guard.check

    def _listen(self, reader: LineReader) -> None:
        def gone() -> None:
            self._ready.forget(reader.fd)
            del self._loop.watchers[reader.fd]
            self._loop.drain("the parent process is gone")

        control = Control(reader, self._loop.drain, self._loop.cut, gone)
        self._loop.watchers[reader.fd] = control
        self._ready.watch(reader.fd, write=False)

    def _make(self, index: int) -> Task:
        """The task of the request with that index of our share."""
        config = self._config
        offer, body = self._offer(index)
        request = self._head.request(offer.request_id, body)
        reading = Reading(
            self._protocol,
            stream=config.stream,
            keep_text=config.keep_text,
            secrets=config.secrets,
            room=self._room,
        )
        return Attempt(offer, request, reading, self._lane)

    def _unmade(self, index: int, error: Exception) -> None:
        self._journal.failed(self._offer(index)[0], error)

    def _offer(self, index: int) -> tuple[Offer, bytes]:
        entry, seq = self.schedule.entry(index), self.schedule.seq(index)
        offer = Offer(
            seq=seq,
            place=index,
            request_id=f"{self._config.request_id_prefix}{seq}",
            group=entry.group,
            tenant=entry.tenant,
            scheduled_ns=entry.at_ns,
            max_tokens=entry.max_tokens,
            planned_prompt_tokens=entry.prompt_tokens,
        )
        return offer, self.schedule.body(index)

    def _tick(self, now_ns: int) -> None:
        self._pool.prune(now_ns)
        if self._guard is not None:
            self._guard.look()
        slots, loop = self._progress.slots, self._loop
        if loop.offered < len(self.schedule):
            self._mapped.passed(self.schedule.offset(loop.offered))
        slots[SLOT["loop_lag_max_ns"]] = loop.lag.max_ns
        slots[SLOT["draining"]] = loop.offered >= len(self.schedule) or bool(
            loop.stopped
        )

    def _account_for_unsent(self) -> None:
        offered, detail = self._loop.offered, self._loop.stopped or "not offered"
        for first in range(offered, len(self.schedule), _UNSENT_BATCH):
            last = min(first + _UNSENT_BATCH, len(self.schedule))
            offers = [self._offer(index)[0] for index in range(first, last)]
            self._journal.unsent(offers, detail)

    def _stats(self, t0_ns: int, before: _Usage, after: _Usage) -> IssueStats:
        loop, journal, pool = self._loop, self._journal, self._pool
        waited = before.waited_s is not None and after.waited_s is not None
        return IssueStats(
            scheduled=len(self.schedule),
            offered=loop.offered,
            sent=journal.send_lag.n,
            ended=sum(journal.outcomes.values()),
            records_lost=journal.lost,
            outcomes={str(k): v for k, v in sorted(journal.outcomes.items())},
            start_lag=journal.start_lag.quantiles(),
            send_lag=journal.send_lag.quantiles(),
            loop_lag=loop.lag.quantiles(),
            turns=loop.turns,
            receive_clock="user" if self._stamping is None else "kernel",
            clock=None if self._guard is None else self._guard.stats(),
            connections=ConnectionStats(
                opened=pool.opened,
                opened_ahead=self.opened_ahead,
                reused=pool.reused,
                dropped=pool.dropped,
                peak_in_flight=loop.peak_in_flight,
            ),
            tokens=journal.tokens,
            tokens_exact=journal.tokens_exact,
            stop=loop.stopped,
            internal=journal.faults,
            gc_collections=after.collections - before.collections,
            gc_pause_max_ns=self._pauses.longest_ns,
            cpu_s=after.cpu_s - before.cpu_s,
            waited_s=(after.waited_s or 0) - (before.waited_s or 0) if waited else None,
            preempted=after.preempted - before.preempted,
            t0_ns=t0_ns,
            end_ns=journal.end_ns,
            schedule_digest=self.schedule.digest,
            stripe=self._config.stripe,
        )


class _Pauses:
    """How long the cyclic collector held us up, where somebody woke it."""

    def __init__(self) -> None:
        self._began_ns = 0
        self.longest_ns = 0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        now_ns = time.monotonic_ns()
        if phase == "start":
            self._began_ns = now_ns
        else:
            self.longest_ns = max(self.longest_ns, now_ns - self._began_ns)


class _Usage(NamedTuple):
    """What this process has used of the machine so far."""

    cpu_s: float
    waited_s: float | None
    preempted: int
    collections: int

    @classmethod
    def now(cls) -> _Usage:
        used = resource.getrusage(resource.RUSAGE_SELF)
        try:
            waited_ns = int(Path("/proc/self/schedstat").read_text("ascii").split()[1])
        except (OSError, ValueError, IndexError):
            waited_ns = None
        return cls(
            cpu_s=used.ru_utime + used.ru_stime,
            waited_s=None if waited_ns is None else waited_ns / NS_PER_S,
            preempted=used.ru_nivcsw,
            collections=sum(generation["collections"] for generation in gc.get_stats()),
        )


def _map(path: str) -> Mapped:
    try:
        return Mapped(Path(path))
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read the schedule {path}: {error}") from error


def _load_prompt_tokens(config: IssueConfig) -> array[int]:
    """The lengths of our share, in its order."""
    tokens, path = array("i"), config.prompt_tokens.path
    if path is not None:
        try:
            tokens.frombytes(Path(path).read_bytes())
        except (OSError, ValueError) as error:
            raise UsageError(f"cannot read {path}: {error}") from error
    part, parts = config.stripe
    return tokens if config.cut else tokens[part::parts]


def _endpoint(config: IssueConfig, *, stamped: bool) -> Endpoint:
    if config.tls is None:
        return Endpoint(config.address, config.family, stamped)
    from loadgen.wire.tls import TlsSession, tls_context

    tls = config.tls
    context = tls_context(verify=tls.verify, ca_file=tls.ca_file)
    name = tls.server_name or config.address[0]
    return Endpoint(
        config.address, config.family, stamped, partial(TlsSession, context, name)
    )
