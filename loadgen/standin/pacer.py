"""The engine in real time: each step ends at an absolute instant.

The next step is due one duration after the last one was due, so that late
wake-ups do not add up. A stall of the machine longer than ``MAX_CATCH_UP_NS`` is
not made up for: an engine that stood still does not run faster afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Never

from loadgen.clock import Clock
from loadgen.sim.engine import Engine, Refusal, Sequence, SequenceState, Step
from loadgen.standin.meters import Meters, Times
from loadgen.units import NS_PER_MS, NS_PER_S

__all__ = ["Pacer", "SleepUntil", "Ticket", "sleeper"]

MAX_CATCH_UP_NS = 50 * NS_PER_MS

SleepUntil = Callable[[int], Awaitable[None]]


def sleeper(clock: Clock) -> SleepUntil:
    """A way to sleep until an instant of ``clock``; it always yields once."""

    async def sleep_until(instant_ns: int) -> None:
        await asyncio.sleep(max(0, instant_ns - clock.now_ns()) / NS_PER_S)

    return sleep_until


class Ticket:
    """One admitted request: its sequence, its instants, and its tokens to come."""

    def __init__(self, sequence: Sequence, times: Times, finish_reason: str) -> None:
        self.sequence = sequence
        self.times = times
        self.finish_reason = finish_reason
        self._tokens: asyncio.Queue[int] = asyncio.Queue()

    async def next_token(self) -> int:
        """Wait for the next token; its number, from 1."""
        return await self._tokens.get()

    def put(self, number: int) -> None:
        self._tokens.put_nowait(number)


class Pacer:
    """Drives one engine; requests come and go between and during its steps."""

    def __init__(
        self,
        engine: Engine,
        meters: Meters,
        clock: Clock,
        sleep_until: SleepUntil,
        speed: float = 1.0,
    ) -> None:
        self._engine = engine
        self._meters = meters
        self._clock = clock
        self._sleep_until = sleep_until
        self._speed = speed
        self._tickets: dict[Sequence, Ticket] = {}
        self._work = asyncio.Event()

    def refusal(self, n: int = 1) -> Refusal | None:
        """Ask for admission; nothing is reserved. A refusal is counted."""
        refusal = self._engine.refusal(n)
        if refusal is not None:
            self._meters.rejected(refusal)
        return refusal

    def submit(
        self, prompt_tokens: int, max_tokens: int, arrived_ns: int, finish_reason: str
    ) -> Ticket:
        """Queue a request that came at ``arrived_ns``; its tokens come by the ticket.

        The caller releases the ticket, whatever happens.
        """
        sequence = self._engine.submit(prompt_tokens, max_tokens)
        times = Times(arrived_ns, self._clock.now_ns())
        ticket = Ticket(sequence, times, finish_reason)
        self._tickets[sequence] = ticket
        self._work.set()
        return ticket

    def release(self, ticket: Ticket) -> None:
        """Forget a request; one that has not finished is aborted."""
        self._engine.abort(ticket.sequence)
        if self._tickets.pop(ticket.sequence, None) is not None:
            self._meters.levels(self._engine)

    async def run(self) -> Never:
        """Do steps as long as there is work, wait when there is none; for ever."""
        while True:
            await self._work.wait()
            due_ns = self._clock.now_ns()
            while (step := self._engine.begin_step()) is not None:
                self._begun(step)
                due_ns += round(step.duration_ns / self._speed)
                await self._sleep_until(due_ns)
                now_ns = self._clock.now_ns()
                self._ended(step, now_ns)
                due_ns = max(due_ns, now_ns - MAX_CATCH_UP_NS)
            self._work.clear()

    def _begun(self, step: Step) -> None:
        now_ns = self._clock.now_ns()
        for sequence in step.admitted:
            times = self._tickets[sequence].times
            if times.scheduled_ns is None:
                times.scheduled_ns = now_ns
        self._meters.levels(self._engine)

    def _ended(self, step: Step, now_ns: int) -> None:
        for sequence in self._engine.end_step(step):
            ticket = self._tickets[sequence]
            self._meters.token(sequence, ticket.times, now_ns)
            if sequence.state is SequenceState.FINISHED:
                self._meters.finished(sequence, ticket.times, ticket.finish_reason)
                del self._tickets[sequence]
            ticket.put(sequence.output_tokens)
        self._meters.stepped(step)
        self._meters.levels(self._engine)
