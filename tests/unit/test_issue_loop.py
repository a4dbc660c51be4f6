"""The issuer's loop in virtual time: nothing here waits."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from loadgen.clock import VirtualClock
from loadgen.issue.loop import CHECK_NS, Loop
from loadgen.model import Ending
from loadgen.units import NS_PER_MS, NS_PER_S


class FakeReadiness:
    """Time passes only here: to the next event, or to the instant waited for."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._events: list[tuple[int, int]] = []
        self.waits = 0

    def happen(self, at_ns: int, fd: int) -> None:
        heapq.heappush(self._events, (at_ns, fd))

    def watch(self, fd: int, *, write: bool) -> None: ...
    def change(self, fd: int, *, write: bool) -> None: ...
    def forget(self, fd: int) -> None: ...
    def close(self) -> None: ...

    def wait(self, until_ns: int) -> list[tuple[int, int]]:
        self.waits += 1
        assert self.waits < 10_000, "the loop spins"
        if self._events and self._events[0][0] <= until_ns:
            until_ns = self._events[0][0]
        self._clock.advance_to_ns(until_ns)
        ready = []
        while self._events and self._events[0][0] <= self._clock.now_ns():
            ready.append((heapq.heappop(self._events)[1], 1))
        return ready


@dataclass
class FakeTask:
    """A request that is answered ``service_ns`` after its start; None: never."""

    rig: Rig
    index: int
    service_ns: int | None
    limit_ns: int
    busy_ns: int = 0
    started_ns: int = -1
    ended: tuple[int, Ending] | None = None
    voided: bool = False
    discarded: bool = False

    def __post_init__(self) -> None: ...

    def start(self, now_ns: int) -> None:
        self.started_ns = now_ns
        if self.service_ns is not None:
            self.rig.loop.watchers[self.index + 10] = self
            self.rig.ready.happen(now_ns + self.service_ns, self.index + 10)

    def discard(self) -> None:
        assert self.started_ns == -1
        self.discarded = True

    def ready(self, mask: int) -> None:
        self.rig.clock.advance_to_ns(self.rig.clock.now_ns() + self.busy_ns)
        self.end(Ending.COMPLETE)

    def deadline_ns(self) -> int:
        return self.started_ns + self.limit_ns

    def expire(self, now_ns: int) -> None:
        self.end(Ending.TOTAL)

    def stop(self, ending: Ending, detail: str) -> None:
        self.end(ending)

    def fault(self, error: Exception) -> None:
        self.end(Ending.INTERNAL)

    def void(self) -> None:
        self.voided = True

    def end(self, ending: Ending) -> None:
        self.ended = (self.rig.clock.now_ns(), ending)
        self.rig.loop.done(self.index)


@dataclass
class Rig:
    """A loop over fakes."""

    due_ns: list[int]
    service_ns: int | None = NS_PER_S
    limit_ns: int = 600 * NS_PER_S
    drain_ns: int = 60 * NS_PER_S
    t0_ns: int = 1_000
    task: type[FakeTask] = FakeTask
    tasks: list[FakeTask] = field(default_factory=list)
    ticks: list[int] = field(default_factory=list)
    strays: list[int] = field(default_factory=list)
    unmade: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock = VirtualClock(self.t0_ns)
        self.ready = FakeReadiness(self.clock)
        self.loop = Loop(
            self.due_ns,
            self.t0_ns,
            self.make,
            lambda index, error: self.unmade.append(index),
            self.ready,
            self.clock.now_ns,
            window_ns=(self.due_ns or [0])[-1] + 1,
            drain_ns=self.drain_ns,
            tick=self.ticks.append,
            stray=self.strays.append,
        )

    def make(self, index: int) -> FakeTask:
        self.tasks.append(self.task(self, index, self.service_ns, self.limit_ns))
        return self.tasks[-1]

    def call_at(self, at_ns: int, what: Callable[[], None], fd: int = 5) -> None:
        """Have something happen in the loop at ns since t0."""

        @dataclass
        class Call:
            def ready(self, mask: int) -> None:
                what()

            def fault(self, error: Exception) -> None:
                raise error

        self.loop.watchers[fd] = Call()
        self.ready.happen(self.t0_ns + at_ns, fd)

    def sent_ns(self) -> list[int]:
        return [task.started_ns - self.t0_ns for task in self.tasks]

    def endings(self) -> list[Ending]:
        return [task.ended[1] for task in self.tasks if task.ended is not None]


def test_a_server_slower_than_the_run_gets_every_request_on_time() -> None:
    """No number of unanswered requests delays a send (case sch-36)."""
    due_ns = [i * NS_PER_MS for i in range(600)]
    rig = Rig(due_ns, service_ns=2 * NS_PER_S)
    rig.loop.run()
    assert rig.sent_ns() == due_ns
    assert rig.loop.peak_in_flight == 600
    assert rig.endings() == [Ending.COMPLETE] * 600


def test_an_arrival_does_not_wait_for_the_reply_before_it() -> None:
    """Two arrivals 0.5 s apart overlap at a server that takes 2 s (case sch-37)."""
    rig = Rig([0, 500 * NS_PER_MS], service_ns=2 * NS_PER_S)
    under_way: list[int] = []
    rig.call_at(600 * NS_PER_MS, lambda: under_way.append(len(rig.loop.in_flight)))
    rig.loop.run()
    assert rig.sent_ns() == [0, 500 * NS_PER_MS]
    assert under_way == [2]


def test_a_blocked_loop_sends_late_at_once_and_the_rest_on_time() -> None:
    """Blocked from 0.1 to 0.9 s; nothing is dropped or shifted (case sch-43)."""
    rig = Rig([i * 200 * NS_PER_MS for i in range(6)], service_ns=None)
    blocked_until = rig.t0_ns + 900 * NS_PER_MS
    rig.call_at(100 * NS_PER_MS, lambda: rig.clock.advance_to_ns(blocked_until))
    rig.call_at(1100 * NS_PER_MS, lambda: rig.loop.cut("enough"), fd=6)
    rig.loop.run()
    sent = [0, 900, 900, 900, 900, 1000]
    assert rig.sent_ns() == [at * NS_PER_MS for at in sent]
    late = [s - d for s, d in zip(rig.sent_ns(), rig.due_ns, strict=True)]
    assert sum(lag > 0 for lag in late) == 4
    assert max(late) == 700 * NS_PER_MS
    assert rig.loop.lag.max_ns == 800 * NS_PER_MS


def test_a_due_send_goes_before_the_next_ready_answer() -> None:
    """Ten answers are ready at once, each takes 1 ms; a send comes due among them."""

    class Busy(FakeTask):
        def __post_init__(self) -> None:
            self.busy_ns = NS_PER_MS

    due_ns = [0] * 10 + [int(100.5 * NS_PER_MS)]
    rig = Rig(due_ns, service_ns=100 * NS_PER_MS, task=Busy)
    rig.loop.run()
    assert rig.sent_ns()[-1] == 101 * NS_PER_MS  # after one answer, not after ten


def test_an_arrival_that_never_starts_stays_offered_to_nobody() -> None:
    """Draining leaves the rest unsent and ends what was begun (case sch-44)."""
    rig = Rig([i * 100 * NS_PER_MS for i in range(600)], service_ns=5 * NS_PER_S)
    rig.call_at(55_950 * NS_PER_MS, lambda: rig.loop.drain("asked"))
    rig.loop.run()
    assert rig.loop.offered == 560
    assert rig.loop.stopped == "asked"
    assert rig.endings() == [Ending.COMPLETE] * 560


def test_draining_ends_what_outlives_its_limit() -> None:
    rig = Rig([0, NS_PER_S], service_ns=None, drain_ns=3 * NS_PER_S)
    rig.call_at(500 * NS_PER_MS, lambda: rig.loop.drain("asked"))
    rig.loop.run()
    assert rig.tasks[0].ended == (rig.t0_ns + 3_500 * NS_PER_MS, Ending.DRAIN)
    assert rig.loop.offered == 1


def test_the_drain_limit_counts_from_the_end_of_the_window() -> None:
    """Twelve open streams at the end, nine end within the limit (case cli-23)."""

    class Some(FakeTask):
        def __post_init__(self) -> None:
            self.service_ns = 10 * NS_PER_S if self.index < 9 else None

    rig = Rig([0] * 12, drain_ns=30 * NS_PER_S, task=Some)
    rig.loop.run()
    assert rig.endings().count(Ending.COMPLETE) == 9
    assert rig.endings().count(Ending.DRAIN) == 3
    assert rig.loop.stopped is None


def test_cutting_ends_everything_now() -> None:
    rig = Rig([0, 0, NS_PER_S], service_ns=None)
    rig.call_at(10, lambda: rig.loop.cut("twice"))
    rig.loop.run()
    begun, prepared = rig.tasks[:2], rig.tasks[2]
    assert [task.ended for task in begun] == [(rig.t0_ns + 10, Ending.USER)] * 2
    assert prepared.discarded


def test_limits_are_kept_to_the_nanosecond_though_looked_at_rarely() -> None:
    limit_ns = 12 * NS_PER_S + 7
    assert limit_ns > 2 * CHECK_NS
    rig = Rig([0, 5], service_ns=None, limit_ns=limit_ns)
    rig.loop.run()
    assert [task.ended for task in rig.tasks] == [
        (rig.t0_ns + limit_ns, Ending.TOTAL),
        (rig.t0_ns + 5 + limit_ns, Ending.TOTAL),
    ]


def test_looks_at_limits_do_not_pile_up_behind_ended_requests() -> None:
    """One look a request and 5 s, whatever the limits: memory stays bounded."""
    due_ns = [i * 10 * NS_PER_MS for i in range(2_000)]
    rig = Rig(due_ns, service_ns=NS_PER_MS)
    most = 0

    def count() -> None:
        nonlocal most
        most = max(most, len(rig.loop._checks))

    for i in range(20):
        rig.call_at(i * NS_PER_S, count, fd=100_000 + i)
    rig.loop.run()
    assert most <= CHECK_NS // (10 * NS_PER_MS) + 1


@pytest.mark.parametrize("where", ["start", "ready"])
def test_an_unforeseen_fault_is_one_request_s(where: str) -> None:
    class Faulty(FakeTask):
        def start(self, now_ns: int) -> None:
            super().start(now_ns)
            if where == "start" and self.index == 1:
                raise RuntimeError("planted")

        def ready(self, mask: int) -> None:
            if where == "ready" and self.index == 1:
                raise RuntimeError("planted")
            if self.ended is None:
                super().ready(mask)

    rig = Rig([0, 1, 2], task=Faulty)
    rig.loop.run()
    assert [task.ended and task.ended[1] for task in rig.tasks] == [
        Ending.COMPLETE,
        Ending.INTERNAL,
        Ending.COMPLETE,
    ]


def test_a_request_that_cannot_be_made_is_told_of_and_passed_over() -> None:
    class Unmakable(FakeTask):
        def __post_init__(self) -> None:
            if self.index == 1:
                raise RuntimeError("planted")

    rig = Rig([0, 1, 2], task=Unmakable)
    rig.loop.run()
    assert rig.unmade == [1]
    assert rig.endings() == [Ending.COMPLETE] * 2


def test_ticks_come_every_second_and_strays_are_passed_on() -> None:
    rig = Rig([0], service_ns=3_500 * NS_PER_MS)
    rig.ready.happen(rig.t0_ns + 7, 99)
    rig.loop.run()
    assert [at - rig.t0_ns for at in rig.ticks] == [
        NS_PER_S,
        2 * NS_PER_S,
        3 * NS_PER_S,
    ]
    assert rig.strays == [99]


def test_a_clock_step_reaches_what_is_under_way_and_nothing_else() -> None:
    rig = Rig([0, NS_PER_S, 3 * NS_PER_S], service_ns=1_500 * NS_PER_MS)
    rig.call_at(1_700 * NS_PER_MS, rig.loop.void)
    rig.loop.run()
    assert [task.voided for task in rig.tasks] == [False, True, False]


def test_an_empty_share_ends_at_once() -> None:
    rig = Rig([])
    rig.loop.run()
    assert rig.ready.waits == 0
