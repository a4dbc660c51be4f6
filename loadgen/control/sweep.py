"""Make a sweep's runs one after the other, until all are made or something ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple, Protocol

from loadgen.analysis.curve import RunPoint, Settle
from loadgen.analysis.knee import find_knee
from loadgen.analysis.points import samples_of
from loadgen.analysis.recovery import RunRecovery
from loadgen.clock import Clock
from loadgen.control.budget import run_overhead_ns
from loadgen.control.journal import (
    Begun,
    Dropped,
    Ended,
    Journal,
    Overloaded,
    Refused,
    Stopped,
)
from loadgen.control.offer import signals_to
from loadgen.control.rates import Course, Step
from loadgen.control.settle import Pause, pause
from loadgen.errors import LoadgenError, UsageError
from loadgen.units import NS_PER_S

__all__ = ["Offerer", "Surge", "Sweep"]

BASE_SHARE = 0.7
PEAK_SHARE = 2.0
"""Overload goes from so much of the knee to so much of it, and back."""


class Surge(NamedTuple):
    """A step past capacity and back, to be made."""

    schedule: int
    base_rps: float
    peak_rps: float


class Offerer(Protocol):
    """Makes single runs."""

    async def rest(self, sleep: Pause) -> Settle:
        """Bring the engine to rest.

        Raises:
            TargetError: there is no engine any more.
        """
        ...

    async def offer(
        self, what: Step | Surge, settle: Settle, begun: Callable[[str], None]
    ) -> RunPoint | RunRecovery | None:
        """Make one run; None where the user broke it off.

        Args:
            what: one schedule at one rate, or past capacity and back.
            settle: how the engine was brought to rest.
            begun: told the run's folder as soon as there is one.
        """
        ...


@dataclass(slots=True, kw_only=True)
class Sweep:
    """One sweep that is going on.

    Args:
        journal: what was planned and done; everything new is written there.
        course: which run is next.
        offerer: makes it.
        clock: CLOCK_MONOTONIC, for the budget.
        on_event: called after each change of the journal.
        now: the time of day, for the journal.
    """

    journal: Journal
    course: Course
    offerer: Offerer
    clock: Clock
    on_event: Callable[[], None]
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    async def go(self) -> str:
        """Make all runs that are left.

        Returns:
            The sweep's status: complete, interrupted, budget spent or failed.
        """
        plan = self.journal.state.plan
        began_ns = self.clock.now_ns()
        deadline_ns = None if plan.budget_ns is None else began_ns + plan.budget_ns
        try:
            while (step := self._next()) is not None:
                if not self._fits(deadline_ns, plan.run_ns):
                    return self._stop("budget spent", "the budget is spent")
                if not await self._make(step):
                    return self._stop("interrupted", "interrupted by the user")
            for surge in self._surges():
                if not self._fits(deadline_ns, 3 * plan.run_ns):
                    return self._stop("budget spent", "the budget is spent")
                if not await self._make(surge):
                    return self._stop("interrupted", "interrupted by the user")
        except LoadgenError as error:
            self._stop("failed", str(error))
            raise
        except asyncio.CancelledError:
            return self._interrupted()
        return self._stop("complete", "complete")

    def _interrupted(self) -> str:
        """An interrupt while neither offering nor resting cancels the task."""
        task = asyncio.current_task()
        if task is not None:
            task.uncancel()
        for folder in list(self.journal.state.open):
            self._drop(folder)
        return self._stop("interrupted", "interrupted by the user")

    def planned(self) -> int:
        """Runs in all, as far as is known by now; those made twice count twice."""
        state = self.journal.state
        surges = state.plan.schedules if state.plan.overload else 0
        made = len(state.done()) - len(state.refused)
        twice = len(state.runs) - made + len(state.once_more())
        return self.course.planned(state.done()) + surges + twice

    def _next(self) -> Step | None:
        """The course's next run, and in the end those that deserve a second chance."""
        state = self.journal.state
        step = self.course.next(state.done())
        return step if step is not None else next(iter(state.once_more()), None)

    def _fits(self, deadline_ns: int | None, run_ns: int) -> bool:
        if deadline_ns is None:
            return True
        return self.clock.now_ns() + run_ns + self._overhead_ns(run_ns) <= deadline_ns

    def _overhead_ns(self, run_ns: int) -> int:
        """Drain and settle as they were, at the worst of the rates."""
        runs = self.journal.state.runs
        if not runs:
            return run_overhead_ns(run_ns)
        worst_s = max(
            (run.drain_s or 0.0) + (run.settle.waited_s if run.settle else 0.0)
            for run in runs
        )
        return round((worst_s + 1) * NS_PER_S)

    async def _make(self, what: Step | Surge) -> bool:
        """Make one run and write it down; false when it was interrupted."""
        settle = await self._settled()
        if settle is None:
            return False
        folder = ""

        def begun(name: str) -> None:
            nonlocal folder
            folder = name
            self.journal.add(Begun(at_utc=self._utc(), folder=name))

        try:
            made = await self.offerer.offer(what, settle, begun)
        except UsageError as error:  # beyond this machine, and so not begun
            if folder or isinstance(what, Surge):
                raise
            self.journal.add(
                Refused(
                    at_utc=self._utc(),
                    rate_rps=what.rate_rps,
                    schedule=what.schedule,
                    why=str(error),
                )
            )
            return True
        if made is None:
            self._drop(folder)
            return False
        self.journal.add(
            Ended(at_utc=self._utc(), run=made)
            if isinstance(made, RunPoint)
            else Overloaded(at_utc=self._utc(), run=made)
        )
        self.on_event()
        return True

    def _drop(self, folder: str) -> None:
        why = "the user stopped it"
        self.journal.add(Dropped(at_utc=self._utc(), folder=folder, why=why))

    async def _settled(self) -> Settle | None:
        """None where the user broke the wait off."""
        broken_off = asyncio.Event()
        with signals_to(broken_off.set):
            settle = await self.offerer.rest(lambda s: pause(s, broken_off))
            return None if broken_off.is_set() else settle

    def _surges(self) -> list[Surge]:
        """The steps past capacity still to be made; none without a capacity."""
        state = self.journal.state
        knee = find_knee(samples_of(state.runs), state.plan.target)
        at_rps = knee.rate_rps or knee.at_least_rps
        if not state.plan.overload or at_rps is None:
            return []
        made = {run.schedule for run in state.overloads}
        return [
            Surge(schedule, BASE_SHARE * at_rps, PEAK_SHARE * at_rps)
            for schedule in range(state.plan.schedules)
            if schedule not in made
        ]

    def _stop(self, status: str, text: str) -> str:
        self.journal.add(
            Stopped(
                at_utc=self._utc(),
                status=status,
                text=text,
                planned_runs=self.planned(),
            )
        )
        self.on_event()
        return status

    def _utc(self) -> str:
        return self.now().isoformat(timespec="seconds")
