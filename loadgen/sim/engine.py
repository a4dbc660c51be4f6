"""Continuous batching, one iteration at a time, as vLLM schedules it.

The engine knows no time. A driver asks for the next step, lets its duration
pass (really or virtually), and completes it; calls may come and go in between::

    engine.submit(prompt_tokens=900, max_tokens=64)
    while (step := engine.begin_step()) is not None:
        ...                      # step.duration_ns passes
        engine.end_step(step)    # one token each for the sequences it returns

Order is first come, first served. A sequence that has to give its KV blocks back
(the last arrived first) returns to the head of the queue and computes its prompt
and its output so far again. So running and waiting, read one after the other,
stay in order of arrival at all times, and decoding sequences come before the one
that may still be in prefill.
"""

from __future__ import annotations

from collections import deque
from enum import Enum, StrEnum

import msgspec

from loadgen.errors import UsageError
from loadgen.units import NS_PER_MS, NS_PER_US

__all__ = [
    "Engine",
    "EngineSpec",
    "Refusal",
    "Sequence",
    "SequenceState",
    "Step",
    "StepCost",
]


class StepCost(msgspec.Struct, frozen=True, kw_only=True):
    """What one iteration costs: ``a + b·prefill + c·decodes + d·KV``, in ns.

    ``kv_token_ns`` is paid for each token of context that a decoding sequence
    reads. The defaults make a small, slow engine: about 20 ms a token with four
    decoding sequences, just below 4,000 prompt tokens a second.
    """

    base_ns: float = 10 * NS_PER_MS
    prefill_token_ns: float = 250 * NS_PER_US
    decode_seq_ns: float = 2 * NS_PER_MS
    kv_token_ns: float = 0.5 * NS_PER_US

    def step_ns(self, prefill_tokens: int, decode_seqs: int, kv_tokens: int) -> int:
        """The duration of an iteration, never below 1 ns."""
        cost_ns = (
            self.base_ns
            + self.prefill_token_ns * prefill_tokens
            + self.decode_seq_ns * decode_seqs
            + self.kv_token_ns * kv_tokens
        )
        return max(1, round(cost_ns))


class EngineSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one engine; names and meaning are vLLM 0.33's.

    The two caps are None when there is none, and 0 refuses everything.
    ``max_num_queued_reqs`` counts every unfinished request, running ones too.

    Raises:
        UsageError: on building, when a lone sequence of ``max_model_len`` tokens
            would not fit the KV pool, or the token budget is below the slots.
    """

    max_num_seqs: int = 4
    max_num_batched_tokens: int = 512
    max_model_len: int = 4096
    block_tokens: int = 16
    kv_blocks: int = 512
    max_num_queued_reqs: int | None = None
    max_num_queued_tokens: int | None = None
    cost: StepCost = StepCost()

    def __post_init__(self) -> None:
        for name in (
            "max_num_seqs",
            "max_num_batched_tokens",
            "max_model_len",
            "block_tokens",
            "kv_blocks",
        ):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1")
        for name in ("max_num_queued_reqs", "max_num_queued_tokens"):
            cap = getattr(self, name)
            if cap is not None and cap < 0:
                raise UsageError(f"{name} must not be negative", "0 refuses everything")
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise UsageError(
                f"max_num_batched_tokens ({self.max_num_batched_tokens}) is below "
                f"max_num_seqs ({self.max_num_seqs})",
                "each running sequence needs one token of it",
            )
        if self.blocks_for(self.max_model_len) > self.kv_blocks:
            raise UsageError(
                f"{self.kv_blocks} KV blocks of {self.block_tokens} tokens cannot "
                f"hold one sequence of max_model_len = {self.max_model_len}",
                f"use at least {self.blocks_for(self.max_model_len)} blocks",
            )

    def blocks_for(self, tokens: int) -> int:
        """KV blocks that hold so many tokens."""
        return -(-tokens // self.block_tokens)


class Refusal(StrEnum):
    """The cap that refused a request; the value is vLLM's ``reason`` label."""

    QUEUED_REQS = "max_num_queued_reqs"
    QUEUED_TOKENS = "max_num_queued_tokens"


class SequenceState(Enum):
    """Where a sequence stands."""

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"
    ABORTED = "aborted"


class Sequence:
    """One request inside the engine.

    ``computed_tokens`` is how much of prompt and output has its KV in the pool;
    a preemption sets it to zero.
    """

    __slots__ = (
        "computed_tokens",
        "kv_blocks",
        "max_tokens",
        "number",
        "output_tokens",
        "preemptions",
        "prompt_tokens",
        "state",
    )

    def __init__(self, number: int, prompt_tokens: int, max_tokens: int) -> None:
        self.number = number
        self.prompt_tokens = prompt_tokens
        self.max_tokens = max_tokens
        self.output_tokens = 0
        self.computed_tokens = 0
        self.kv_blocks = 0
        self.preemptions = 0
        self.state = SequenceState.WAITING

    @property
    def uncomputed_tokens(self) -> int:
        """Tokens to compute before the next output token; 1 while decoding."""
        return self.prompt_tokens + self.output_tokens - self.computed_tokens


class Step(msgspec.Struct, frozen=True, eq=False):
    """One iteration that has been scheduled and not yet completed.

    ``chunks`` pairs each scheduled sequence with the tokens computed for it.
    ``admitted`` left the queue in this step (again, after a preemption);
    ``preempted`` returned to it.
    """

    chunks: tuple[tuple[Sequence, int], ...]
    admitted: tuple[Sequence, ...]
    preempted: tuple[Sequence, ...]
    prefill_tokens: int
    decode_seqs: int
    kv_tokens: int
    duration_ns: int

    @property
    def tokens(self) -> int:
        """All tokens computed in this step."""
        return self.prefill_tokens + self.decode_seqs


class Engine:
    """The scheduler and its KV pool; see the module for how to drive it."""

    def __init__(self, spec: EngineSpec) -> None:
        self.spec = spec
        self.preemptions = 0
        self._running: list[Sequence] = []
        self._waiting: deque[Sequence] = deque()
        self._free_blocks = spec.kv_blocks
        self._prefill_backlog = 0
        self._submitted = 0
        self._open: Step | None = None

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def unfinished(self) -> int:
        """Running and waiting together: what ``max_num_queued_reqs`` counts."""
        return len(self._running) + len(self._waiting)

    @property
    def prefill_backlog(self) -> int:
        """Whole prompts of all sequences that have put nothing out yet, in tokens.

        What ``max_num_queued_tokens`` is compared with; a prompt half computed
        still counts whole.
        """
        return self._prefill_backlog

    @property
    def kv_usage(self) -> float:
        """Share of the KV pool in use, 0 to 1."""
        return 1 - self._free_blocks / self.spec.kv_blocks

    def refusal(self, n: int = 1) -> Refusal | None:
        """What an arrival of ``n`` sequences would be refused for, now.

        Nothing is reserved: a None holds only until something else is submitted.
        """
        spec = self.spec
        cap_reqs, cap_tokens = spec.max_num_queued_reqs, spec.max_num_queued_tokens
        if cap_reqs is not None and self.unfinished + n > cap_reqs:
            return Refusal.QUEUED_REQS
        # The newcomer's own prompt is not counted, so below the cap any one fits.
        if cap_tokens is not None and self._prefill_backlog >= cap_tokens:
            return Refusal.QUEUED_TOKENS
        return None

    def submit(self, prompt_tokens: int, max_tokens: int) -> Sequence:
        """Queue a sequence that will put out exactly ``max_tokens`` tokens.

        The caps are not looked at: asking ``refusal`` first is the driver's part.

        Raises:
            ValueError: it has no token to read or to write, or is longer than
                ``max_model_len``.
        """
        if prompt_tokens < 1 or max_tokens < 1:
            raise ValueError("a sequence needs a prompt and an output token")
        if prompt_tokens + max_tokens > self.spec.max_model_len:
            raise ValueError("the sequence is longer than max_model_len")
        sequence = Sequence(self._submitted, prompt_tokens, max_tokens)
        self._submitted += 1
        self._prefill_backlog += prompt_tokens
        self._waiting.append(sequence)
        return sequence

    def abort(self, sequence: Sequence) -> None:
        """Forget a sequence at once, also in mid-step; no-op when it has ended."""
        if sequence.state is SequenceState.RUNNING:
            self._running.remove(sequence)
        elif sequence.state is SequenceState.WAITING:
            self._waiting.remove(sequence)
        else:
            return
        self._retire(sequence, SequenceState.ABORTED)

    def begin_step(self) -> Step | None:
        """Schedule the next iteration; None when there is nothing to do.

        Raises:
            RuntimeError: the step before has not been ended.
        """
        if self._open is not None:
            raise RuntimeError("the step before is still open")
        chunks: list[tuple[Sequence, int]] = []
        budget, preempted = self._continue_running(chunks)
        admitted = [] if preempted else self._admit_waiting(chunks, budget)
        if not chunks:
            return None
        self._open = self._priced(chunks, admitted, preempted)
        return self._open

    def end_step(self, step: Step) -> list[Sequence]:
        """Complete a step.

        Returns:
            The sequences that put out one token now, in order of arrival; those
            whose ``state`` is FINISHED have put out their last.

        Raises:
            RuntimeError: it is not the step that was begun.
        """
        if step is not self._open:
            raise RuntimeError("this step is not open")
        self._open = None
        emitted = []
        for sequence, chunk in step.chunks:
            if sequence.state is not SequenceState.RUNNING:
                continue  # aborted in mid-step
            sequence.computed_tokens += chunk
            if sequence.uncomputed_tokens > 0:
                continue
            if sequence.output_tokens == 0:
                self._prefill_backlog -= sequence.prompt_tokens
            sequence.output_tokens += 1
            emitted.append(sequence)
            if sequence.output_tokens == sequence.max_tokens:
                self._running.remove(sequence)
                self._retire(sequence, SequenceState.FINISHED)
        return emitted

    def _continue_running(
        self, chunks: list[tuple[Sequence, int]]
    ) -> tuple[int, list[Sequence]]:
        budget = self.spec.max_num_batched_tokens
        preempted: list[Sequence] = []
        position = 0
        while position < len(self._running) and budget > 0:
            sequence = self._running[position]
            chunk = min(sequence.uncomputed_tokens, budget)
            if self._take_blocks(sequence, chunk):
                chunks.append((sequence, chunk))
                budget -= chunk
                position += 1
            else:
                # Nobody from `position` on has been scheduled in this step yet.
                preempted.append(self._preempt_last())
        return budget, preempted

    def _admit_waiting(
        self, chunks: list[tuple[Sequence, int]], budget: int
    ) -> list[Sequence]:
        admitted: list[Sequence] = []
        while self._waiting and budget > 0 and self.running < self.spec.max_num_seqs:
            sequence = self._waiting[0]
            chunk = min(sequence.uncomputed_tokens, budget)
            if not self._take_blocks(sequence, chunk):
                break
            self._waiting.popleft()
            sequence.state = SequenceState.RUNNING
            self._running.append(sequence)
            admitted.append(sequence)
            chunks.append((sequence, chunk))
            budget -= chunk
        return admitted

    def _priced(
        self,
        chunks: list[tuple[Sequence, int]],
        admitted: list[Sequence],
        preempted: list[Sequence],
    ) -> Step:
        prefill_tokens = decode_seqs = kv_tokens = 0
        for sequence, chunk in chunks:
            if sequence.output_tokens and sequence.uncomputed_tokens == 1:
                decode_seqs += 1
                kv_tokens += sequence.computed_tokens
            else:
                prefill_tokens += chunk
        return Step(
            chunks=tuple(chunks),
            admitted=tuple(admitted),
            preempted=tuple(preempted),
            prefill_tokens=prefill_tokens,
            decode_seqs=decode_seqs,
            kv_tokens=kv_tokens,
            duration_ns=self.spec.cost.step_ns(prefill_tokens, decode_seqs, kv_tokens),
        )

    def _take_blocks(self, sequence: Sequence, chunk: int) -> bool:
        wanted = self.spec.blocks_for(sequence.computed_tokens + chunk)
        missing = wanted - sequence.kv_blocks
        if missing > self._free_blocks:
            return False
        self._free_blocks -= missing
        sequence.kv_blocks = wanted
        return True

    def _preempt_last(self) -> Sequence:
        victim = self._running.pop()
        self._give_blocks(victim)
        victim.computed_tokens = 0
        victim.preemptions += 1
        victim.state = SequenceState.WAITING
        self.preemptions += 1
        self._waiting.appendleft(victim)
        return victim

    def _give_blocks(self, sequence: Sequence) -> None:
        self._free_blocks += sequence.kv_blocks
        sequence.kv_blocks = 0

    def _retire(self, sequence: Sequence, state: SequenceState) -> None:
        if sequence.output_tokens == 0:
            self._prefill_backlog -= sequence.prompt_tokens
        self._give_blocks(sequence)
        sequence.state = state
