"""A sweep's runs in a row: order, budget, interrupts, failures; nothing is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from loadgen.analysis.curve import RunPoint, Settle
from loadgen.analysis.recovery import RunRecovery
from loadgen.clock import VirtualClock
from loadgen.control.journal import Journal
from loadgen.control.rates import Grid, Step
from loadgen.control.settle import Pause
from loadgen.control.sweep import Surge, Sweep
from loadgen.control.sweep_judging import summarise
from loadgen.errors import TargetError, UsageError
from loadgen.units import NS_PER_S
from tests.journals import journal
from tests.sweeps import RESTED, point_run, spoilt


class Scripted:
    """Runs that take a time and end as they are told to.

    Args:
        clock: moved by each run.
        run_s: how long one takes.
        interrupt_at: the run that the user breaks off.
        fail_at: before this run the server is gone.
        spoil: places that are spoilt the first time.
        beyond_rps: from this rate on the machine cannot offer.
    """

    def __init__(
        self,
        clock: VirtualClock,
        *,
        run_s: float = 11,
        interrupt_at: int | None = None,
        fail_at: int | None = None,
        spoil: tuple[Step, ...] = (),
        beyond_rps: float = 1e9,
    ) -> None:
        self._beyond_rps = beyond_rps
        self._clock = clock
        self._run_s = run_s
        self._interrupt_at = interrupt_at
        self._fail_at = fail_at
        self._spoil = list(spoil)
        self.made: list[Step | Surge] = []

    async def rest(self, sleep: Pause) -> Settle:
        if len(self.made) == self._fail_at:
            raise TargetError("cannot connect")
        return RESTED

    async def offer(
        self, what: Step | Surge, settle: Settle, begun: Callable[[str], None]
    ) -> RunPoint | RunRecovery | None:
        if isinstance(what, Step) and what.rate_rps >= self._beyond_rps:
            raise UsageError("too many files")
        folder = f"run-{len(self.made)}"
        begun(folder)
        self.made.append(what)
        self._clock.advance_to_ns(self._clock.now_ns() + round(self._run_s * NS_PER_S))
        if len(self.made) - 1 == self._interrupt_at:
            return None
        if isinstance(what, Surge):
            return recovered(what, folder)
        if what in self._spoil:
            self._spoil.remove(what)
            return spoilt(what.rate_rps, what.schedule)
        good = 100 if what.rate_rps <= 4 else 60
        return point_run(what.rate_rps, good, what.schedule, folder=folder)


def recovered(surge: Surge, folder: str) -> RunRecovery:
    return RunRecovery(
        folder=folder,
        schedule=surge.schedule,
        base_rps=surge.base_rps,
        peak_rps=surge.peak_rps,
        phase_s=(10.0, 10.0, 10.0),
        usable=True,
        why_not=None,
        before=1.0,
        during=0.5,
        after=1.0,
        drain_s=2.0,
        recovery_s=1.0,
    )


def go(
    kept: Journal, rates: tuple[float, ...] = (2.0, 4.0, 8.0), **script: Any
) -> tuple[str, Scripted, list[int]]:
    clock = VirtualClock()
    offerer = Scripted(clock, **script)
    seen: list[int] = []
    sweep = Sweep(
        journal=kept,
        course=Grid("", rates, kept.state.plan.schedules),
        offerer=offerer,
        clock=clock,
        on_event=lambda: seen.append(sweep.planned()),
        now=lambda: datetime(2026, 12, 1, tzinfo=UTC),
    )
    return asyncio.run(sweep.go()), offerer, seen


def test_all_runs_are_made_and_written_down(tmp_path: Path) -> None:
    kept = journal(tmp_path)
    status, offerer, seen = go(kept)
    assert status == "complete"
    assert len(offerer.made) == len(kept.state.runs) == 6
    assert len(set(offerer.made)) == 6
    assert kept.state.open == []
    assert kept.state.stopped is not None
    assert kept.state.stopped.planned_runs == 6
    assert seen == [6] * 7


def test_an_interrupt_drops_the_run_and_a_resume_makes_it_anew(tmp_path: Path) -> None:
    kept = journal(tmp_path)
    status, first, _ = go(kept, interrupt_at=3)
    assert status == "interrupted"
    assert len(kept.state.runs) == 3
    assert list(kept.state.dropped) == ["run-3"]
    status, second, _ = go(Journal.open(tmp_path))
    assert status == "complete"
    assert second.made[0] == first.made[3]
    assert len(second.made) == 3


def test_a_server_that_is_gone_ends_it_and_is_written_down(tmp_path: Path) -> None:
    kept = journal(tmp_path)
    with pytest.raises(TargetError):
        go(kept, fail_at=2)
    assert kept.state.stopped is not None
    assert kept.state.stopped.status == "failed"
    assert "cannot connect" in kept.state.stopped.text
    assert len(kept.state.runs) == 2


def test_no_run_is_begun_that_the_budget_would_not_see_end(tmp_path: Path) -> None:
    kept = journal(tmp_path, budget_ns=40 * NS_PER_S)
    status, offerer, _ = go(kept)
    assert status == "budget spent"
    assert 1 <= len(offerer.made) < 6
    assert len(offerer.made) * 11 <= 40


def test_a_spoilt_run_is_made_once_more_in_the_end(tmp_path: Path) -> None:
    kept = journal(tmp_path)
    place = Step(4.0, 0)
    status, offerer, seen = go(kept, spoil=(place,))
    assert status == "complete"
    assert offerer.made.count(place) == 2
    assert offerer.made[-1] == place
    assert seen[-1] == 7


def test_overload_goes_past_the_knee_that_was_found(tmp_path: Path) -> None:
    kept = journal(tmp_path, overload=True)
    status, offerer, seen = go(kept)
    assert status == "complete"
    surges = [what for what in offerer.made if isinstance(what, Surge)]
    assert [surge.schedule for surge in surges] == [0, 1]
    assert surges[0].base_rps < 4.5 < surges[0].peak_rps
    assert len(kept.state.overloads) == 2
    assert seen[-1] == 8


def test_overload_is_left_out_where_no_rate_holds(tmp_path: Path) -> None:
    kept = journal(tmp_path, overload=True)
    status, offerer, _ = go(kept, rates=(8.0, 16.0))
    assert status == "complete"
    assert not any(isinstance(what, Surge) for what in offerer.made)


def test_a_rate_beyond_this_machine_is_told_and_the_others_are_made(
    tmp_path: Path,
) -> None:
    kept = journal(tmp_path)
    status, offerer, seen = go(kept, beyond_rps=8.0)
    assert status == "complete"
    assert len(offerer.made) == 4
    assert set(kept.state.refused) == {Step(8.0, 0), Step(8.0, 1)}
    assert seen[-1] == 6
    found = summarise(kept.state)
    assert "client_limited" in found.knee.flags
    assert found.knee.rate_rps is None
    assert any("not offered: too many files" in words for words in found.findings)
    assert Journal.open(tmp_path).state.refused == kept.state.refused


def test_an_interrupt_between_two_runs_is_one_too(tmp_path: Path) -> None:
    """While a run is judged an interrupt comes as a cancelled task."""
    kept = journal(tmp_path)
    clock = VirtualClock()

    class Cancelled(Scripted):
        async def offer(
            self, what: Step | Surge, settle: Settle, begun: Callable[[str], None]
        ) -> RunPoint | RunRecovery | None:
            begun("run-0")
            raise asyncio.CancelledError

    sweep = Sweep(
        journal=kept,
        course=Grid("", (2.0,), 1),
        offerer=Cancelled(clock),
        clock=clock,
        on_event=lambda: None,
    )
    assert asyncio.run(sweep.go()) == "interrupted"
    assert list(kept.state.dropped) == ["run-0"]
    assert kept.state.open == []
