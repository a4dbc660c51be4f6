"""The engine in virtual time: offer calls, learn each one's fate.

vLLM asks for admission twice: when a request arrives, and again when its answer
is first pulled, after the status line of a stream has been sent. Between the two
nothing is reserved, so calls that come close together pass the first and fail the
second.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from enum import Enum, IntEnum

import msgspec

from loadgen.sim.engine import (
    Engine,
    EngineSpec,
    Refusal,
    Sequence,
    SequenceState,
    Step,
)

__all__ = ["Call", "Fate", "Stage", "simulate"]


class Stage(Enum):
    """Which of the two admission checks."""

    PREFLIGHT = "preflight"
    PULL = "pull"


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One request on its way to the engine.

    ``front_ns`` is the time between the two admission checks: rendering and
    tokenising. ``leave_ns`` is when the client gives up, None when it stays.
    Instants are ns since the start of the simulation.
    """

    at_ns: int
    prompt_tokens: int
    max_tokens: int
    front_ns: int = 0
    leave_ns: int | None = None


class Fate(msgspec.Struct, kw_only=True):
    """What became of one call; instants are None for what did not happen."""

    refusal: Refusal | None = None
    refused_at: Stage | None = None
    decided_ns: int | None = None
    first_token_ns: int | None = None
    last_token_ns: int | None = None
    output_tokens: int = 0
    preemptions: int = 0
    finished: bool = False
    aborted: bool = False


class _Kind(IntEnum):
    """Events of one instant happen in this order."""

    STEP_ENDS = 0
    LEAVES = 1
    ARRIVES = 2
    PULLED = 3


class _Loop:
    """One simulation: a heap of events around an engine."""

    def __init__(self, spec: EngineSpec, calls: list[Call]) -> None:
        self.engine = Engine(spec)
        self.calls = calls
        self.fates = [Fate() for _ in calls]
        self.sequences: dict[int, Sequence] = {}
        self.owners: dict[Sequence, int] = {}
        self.step: Step | None = None
        self.events: list[tuple[int, _Kind, int]] = []
        for index, call in enumerate(calls):
            self.events.append((call.at_ns, _Kind.ARRIVES, index))
            if call.leave_ns is not None:
                self.events.append((call.leave_ns, _Kind.LEAVES, index))
        heapq.heapify(self.events)

    def run(self) -> list[Fate]:
        while self.events:
            now_ns, kind, index = heapq.heappop(self.events)
            match kind:
                case _Kind.ARRIVES:
                    self._arrive(now_ns, index)
                case _Kind.PULLED:
                    self._pull(now_ns, index)
                case _Kind.LEAVES:
                    self._leave(now_ns, index)
                case _Kind.STEP_ENDS if self.step is not None:
                    self._end_step(self.step, now_ns)
                    self.step = None
            next_ns = self.events[0][0] if self.events else None
            # A step begins once everything of this instant has been seen.
            if self.step is None and next_ns != now_ns:
                self._begin_step(now_ns)
        return self.fates

    def _arrive(self, now_ns: int, index: int) -> None:
        call, fate = self.calls[index], self.fates[index]
        if fate.aborted:
            return
        if refusal := self.engine.refusal():
            fate.refusal, fate.refused_at = refusal, Stage.PREFLIGHT
            fate.decided_ns = now_ns
        else:
            heapq.heappush(self.events, (now_ns + call.front_ns, _Kind.PULLED, index))

    def _pull(self, now_ns: int, index: int) -> None:
        call, fate = self.calls[index], self.fates[index]
        if fate.aborted:
            return
        fate.decided_ns = now_ns
        if refusal := self.engine.refusal():
            fate.refusal, fate.refused_at = refusal, Stage.PULL
            return
        sequence = self.engine.submit(call.prompt_tokens, call.max_tokens)
        self.sequences[index] = sequence
        self.owners[sequence] = index

    def _leave(self, now_ns: int, index: int) -> None:
        fate = self.fates[index]
        if fate.finished or fate.refusal is not None:
            return
        fate.aborted = True
        if sequence := self.sequences.get(index):
            self.engine.abort(sequence)
            fate.preemptions = sequence.preemptions

    def _begin_step(self, now_ns: int) -> None:
        self.step = self.engine.begin_step()
        if self.step is not None:
            ends_ns = now_ns + self.step.duration_ns
            heapq.heappush(self.events, (ends_ns, _Kind.STEP_ENDS, -1))

    def _end_step(self, step: Step, now_ns: int) -> None:
        for sequence in self.engine.end_step(step):
            fate = self.fates[self.owners[sequence]]
            if fate.first_token_ns is None:
                fate.first_token_ns = now_ns
            fate.last_token_ns = now_ns
            fate.output_tokens = sequence.output_tokens
            fate.preemptions = sequence.preemptions
            fate.finished = sequence.state is SequenceState.FINISHED


def simulate(spec: EngineSpec, calls: Iterable[Call]) -> list[Fate]:
    """Offer calls, in any order, and run until the engine is idle.

    Returns:
        One fate a call, in the order the calls were given.
    """
    return _Loop(spec, list(calls)).run()
