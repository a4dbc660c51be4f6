"""When things happen: due sends first, then whatever is ready, then the limits.

The loop offers each request at its absolute time whatever became of the others:
nothing gates it. It looks for due sends again after every single thing it does.
It knows neither HTTP nor sockets, so that its tests run in virtual time.
"""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Callable, Sequence
from typing import Protocol

from loadgen.issue.ready import Readiness
from loadgen.issue.stats import Histogram
from loadgen.model import Ending
from loadgen.units import NS_PER_S

__all__ = ["Loop", "Task", "Watcher"]

TICK_NS = NS_PER_S
CHECK_NS = 5 * NS_PER_S
"""A request's limits are looked at no less often than this, so that the queue of
looks grows with the requests of the last 5 s and not with those of an idle limit."""

SHORT_TURN_NS = 131_072
"""Shorter turns of the loop all count as this long: they are within any bound."""

_CHECKS_AT_ONCE = 64
_NEVER_NS = 1 << 62


class Watcher(Protocol):
    """Whoever is told that its descriptor is ready."""

    def ready(self, mask: int) -> None: ...
    def fault(self, error: Exception) -> None:
        """Its ``ready`` raised what nobody foresaw."""


class Task(Watcher, Protocol):
    """A request under way. It calls ``Loop.done`` when it has ended."""

    def start(self, now_ns: int) -> None: ...
    def discard(self) -> None:
        """It was made and will not be started."""

    def deadline_ns(self) -> int:
        """When its next limit passes, as things stand."""

    def expire(self, now_ns: int) -> None:
        """That instant is there."""

    def stop(self, ending: Ending, detail: str) -> None: ...
    def void(self) -> None:
        """The clocks stepped: no stamp of it is exact."""


class Loop:
    """One process's share of the schedule, offered.

    Args:
        due_ns: when each request is due, ns since t0, ascending.
        t0_ns: CLOCK_MONOTONIC of t0.
        make: the task of the request with that index; called again if
            it failed ahead of time.
        unmade: told when ``make`` failed; that request has ended.
        ready: what to wait on.
        now_ns: reads CLOCK_MONOTONIC.
        window_ns: the schedule's own duration; the drain limit counts from its end.
        drain_ns: how long requests may go on after the window, or after a stop.
        tick: called once a second with the time.
        stray: called with a ready descriptor that nobody watches.

    Attributes:
        watchers: who is told about which descriptor.
        in_flight: tasks started and not ended by index, oldest first.
        offered: how many have been started, which is the index of the next.
        stopped: why offering stopped early; None: it did not.
        turns: how often it waited.
        lag: how long it was away from its wait, turn by turn; complete after ``run``.
    """

    def __init__(
        self,
        due_ns: Sequence[int],
        t0_ns: int,
        make: Callable[[int], Task],
        unmade: Callable[[int, Exception], None],
        ready: Readiness,
        now_ns: Callable[[], int],
        *,
        window_ns: int,
        drain_ns: int,
        tick: Callable[[int], None],
        stray: Callable[[int], None],
    ) -> None:
        self._due_ns = due_ns
        self._t0_ns = t0_ns
        self._make = make
        self._unmade = unmade
        self._ready = ready
        self._now_ns = now_ns
        self._drain_ns = drain_ns
        self._tick = tick
        self._stray = stray
        self._end = len(due_ns)
        self._next_ns = t0_ns + due_ns[0] if due_ns else _NEVER_NS
        self._drained_ns = t0_ns + window_ns + drain_ns
        self._tick_ns = now_ns() + TICK_NS
        self._checks: list[tuple[int, int]] = []
        self._prepared: Task | None = None
        self.watchers: dict[int, Watcher] = {}
        self.in_flight: dict[int, Task] = {}
        self.offered = 0
        self.peak_in_flight = 0
        self.stopped: str | None = None
        self.turns = 0
        self.lag = Histogram()

    def run(self) -> None:
        """Offer everything, see it to its end, return."""
        now_ns, ready = self._now_ns, self._ready
        while True:
            now = now_ns()
            if now >= self._next_ns:
                self._offer()
            self._look(now)
            if not self.in_flight and self.offered >= self._end:
                break
            if self._prepared is None and self.offered < self._end:
                self._prepare()
            events = ready.wait(self._until_ns())
            woken_ns = now_ns()
            self._serve(events)
            self.turns += 1
            away_ns = now_ns() - woken_ns
            if away_ns > SHORT_TURN_NS:
                self.lag.add(away_ns)
        if self._prepared is not None:
            self._prepared.discard()
        self.lag.add(SHORT_TURN_NS, self.turns - self.lag.n)

    def _serve(self, events: list[tuple[int, int]]) -> None:
        """Tell whom each event concerns, and offer what comes due meanwhile."""
        now_ns, watchers = self._now_ns, self.watchers
        for fd, mask in events:
            watcher = watchers.get(fd)
            if watcher is None:
                self._stray(fd)
            else:
                try:
                    watcher.ready(mask)
                except Exception as error:  # noqa: BLE001 - one request's, not the run's
                    watcher.fault(error)
            if now_ns() >= self._next_ns:
                self._offer()

    def done(self, index: int) -> None:
        """The task of that index has ended."""
        self.in_flight.pop(index, None)

    def void(self) -> None:
        """The clocks stepped: tell all that is in flight."""
        for task in self.in_flight.values():
            task.void()

    def drain(self, why: str) -> None:
        """Offer no more; what is in flight has the drain limit to end."""
        if self.stopped is None and self.offered < self._end:
            self.stopped = why
        self._end, self._next_ns = self.offered, _NEVER_NS
        self._drained_ns = min(self._drained_ns, self._now_ns() + self._drain_ns)

    def cut(self, why: str) -> None:
        """Offer no more and end what is in flight, now."""
        self.drain(why)
        self._stop_all(Ending.USER, why)

    def _offer(self) -> None:
        """Start all that is due, and look at the clock anew for each."""
        due_ns, t0_ns, end = self._due_ns, self._t0_ns, self._end
        while self._next_ns <= (now := self._now_ns()):
            index = self.offered
            self.offered += 1
            self._next_ns = t0_ns + due_ns[index + 1] if index + 1 < end else _NEVER_NS
            task, self._prepared = self._prepared, None
            try:
                if task is None:
                    task = self._make(index)
            except Exception as error:  # noqa: BLE001 - one request's, not the run's
                self._unmade(index, error)
                continue
            self.in_flight[index] = task
            try:
                task.start(now)
            except Exception as error:  # noqa: BLE001 - one request's, not the run's
                task.fault(error)
            if index in self.in_flight:
                self._check_at(task.deadline_ns(), now, index)
                self.peak_in_flight = max(self.peak_in_flight, len(self.in_flight))

    def _prepare(self) -> None:
        """Make the next task while there is time: due, it has only to start."""
        with contextlib.suppress(Exception):  # it fails again when due, and is told
            self._prepared = self._make(self.offered)

    def _look(self, now: int) -> None:
        """Limits of requests, of the drain, and the seconds' tick."""
        checks = self._checks
        for _ in range(_CHECKS_AT_ONCE):
            if not checks or checks[0][0] > now:
                break
            _, index = heapq.heappop(checks)
            task = self.in_flight.get(index)
            if task is None:
                continue
            deadline_ns = task.deadline_ns()
            if deadline_ns <= now:
                task.expire(now)
            else:
                self._check_at(deadline_ns, now, index)
        if now >= self._tick_ns:
            self._tick(now)
            self._tick_ns = now + TICK_NS
        if now >= self._drained_ns and self.offered >= self._end:
            self._stop_all(Ending.DRAIN, "still open at the drain limit")

    def _check_at(self, deadline_ns: int, now: int, index: int) -> None:
        heapq.heappush(self._checks, (min(deadline_ns, now + CHECK_NS), index))

    def _until_ns(self) -> int:
        until_ns = min(self._next_ns, self._tick_ns)
        if self._checks:
            until_ns = min(until_ns, self._checks[0][0])
        if self.offered >= self._end:
            until_ns = min(until_ns, self._drained_ns)
        return until_ns

    def _stop_all(self, ending: Ending, detail: str) -> None:
        for task in list(self.in_flight.values()):
            task.stop(ending, detail)
