"""The scheduler, step by step, on cases small enough to follow by hand."""

from __future__ import annotations

from typing import Any

import pytest

from loadgen.errors import UsageError
from loadgen.sim.engine import (
    Engine,
    EngineSpec,
    Refusal,
    Sequence,
    SequenceState,
    Step,
    StepCost,
)


def engine(**changes: Any) -> Engine:
    spec: dict[str, Any] = {
        "max_num_seqs": 2,
        "max_num_batched_tokens": 32,
        "max_model_len": 64,
        "kv_blocks": 8,
    }
    return Engine(EngineSpec(**(spec | changes)))


def step(of: Engine) -> tuple[Step, list[Sequence]]:
    begun = of.begin_step()
    assert begun is not None
    return begun, of.end_step(begun)


def test_a_long_prompt_is_computed_in_chunks_of_the_budget() -> None:
    subject = engine()
    sequence = subject.submit(prompt_tokens=50, max_tokens=2)
    first, emitted = step(subject)
    assert (first.prefill_tokens, emitted) == (32, [])
    second, emitted = step(subject)
    assert (second.prefill_tokens, emitted) == (18, [sequence])
    third, emitted = step(subject)
    assert (third.decode_seqs, third.kv_tokens, emitted) == (1, 50, [sequence])
    assert sequence.state is SequenceState.FINISHED
    assert subject.begin_step() is None
    assert subject.kv_usage == 0


def test_decoding_goes_on_beside_a_prefill_and_comes_first() -> None:
    subject = engine()
    subject.submit(prompt_tokens=4, max_tokens=9)
    step(subject)
    subject.submit(prompt_tokens=40, max_tokens=1)
    mixed, emitted = step(subject)
    assert (mixed.decode_seqs, mixed.prefill_tokens) == (1, 31)
    assert [sequence.number for sequence in emitted] == [0]


def test_slots_are_given_in_order_of_arrival() -> None:
    subject = engine()
    for _ in range(4):
        subject.submit(prompt_tokens=4, max_tokens=2)
    first, _ = step(subject)
    assert [sequence.number for sequence in first.admitted] == [0, 1]
    assert (subject.running, subject.waiting) == (2, 2)
    step(subject)
    third, _ = step(subject)
    assert [sequence.number for sequence in third.admitted] == [2, 3]


def test_the_last_arrived_is_preempted_and_computes_all_again() -> None:
    subject = engine(max_model_len=48, kv_blocks=3)
    older = subject.submit(prompt_tokens=15, max_tokens=20)
    younger = subject.submit(prompt_tokens=15, max_tokens=20)
    step(subject)  # one block each
    step(subject)  # 16 tokens each: still one block each
    third, emitted = step(subject)  # both need a second block; one is left
    assert third.preempted == (younger,)
    assert emitted == [older]
    assert (younger.preemptions, younger.computed_tokens) == (1, 0)
    assert (younger.output_tokens, younger.kv_blocks) == (2, 0)
    while older.state is not SequenceState.FINISHED:
        step(subject)
    again, emitted = step(subject)
    assert again.admitted == (younger,)
    assert again.prefill_tokens == 15 + 2
    assert emitted == [younger]
    while subject.unfinished:
        step(subject)
    assert younger.output_tokens == 20
    assert subject.preemptions == 1


def test_the_cost_is_linear_in_what_a_step_does() -> None:
    cost = StepCost(
        base_ns=1000, prefill_token_ns=10, decode_seq_ns=100, kv_token_ns=0.5
    )
    assert cost.step_ns(prefill_tokens=7, decode_seqs=2, kv_tokens=30) == 1285
    assert StepCost(base_ns=0).step_ns(0, 0, 0) == 1


def test_without_caps_nothing_is_refused() -> None:
    subject = engine()
    for _ in range(1000):
        assert subject.refusal() is None
        subject.submit(prompt_tokens=60, max_tokens=4)


def test_the_request_cap_counts_running_ones_and_is_asked_first() -> None:
    subject = engine(max_num_queued_reqs=3, max_num_queued_tokens=1)
    for _ in range(2):
        subject.submit(prompt_tokens=4, max_tokens=5)
    step(subject)
    assert subject.refusal() is None
    assert subject.refusal(n=2) is Refusal.QUEUED_REQS
    subject.submit(prompt_tokens=4, max_tokens=5)
    assert subject.refusal() is Refusal.QUEUED_REQS


def test_more_than_the_cap_in_one_request_never_gets_in() -> None:
    assert engine(max_num_queued_reqs=8).refusal(n=20) is Refusal.QUEUED_REQS


def test_the_token_cap_does_not_count_the_newcomer() -> None:
    subject = engine(max_num_queued_tokens=10)
    subject.submit(prompt_tokens=9, max_tokens=1)
    assert subject.refusal() is None
    subject.submit(prompt_tokens=55, max_tokens=1)
    assert subject.refusal() is Refusal.QUEUED_TOKENS


def test_a_prompt_counts_whole_until_its_first_output() -> None:
    subject = engine(max_num_queued_tokens=10)
    subject.submit(prompt_tokens=50, max_tokens=5)
    step(subject)  # 32 of 50 computed
    assert subject.prefill_backlog == 50
    assert subject.refusal() is Refusal.QUEUED_TOKENS
    step(subject)
    assert subject.prefill_backlog == 0
    assert subject.refusal() is None


@pytest.mark.parametrize("cap", ["max_num_queued_reqs", "max_num_queued_tokens"])
def test_a_cap_of_zero_refuses_everything(cap: str) -> None:
    assert engine(**{cap: 0}).refusal() == Refusal(cap)


@pytest.mark.parametrize("begun", [False, True])
def test_an_abort_frees_everything_also_in_mid_step(begun: bool) -> None:
    subject = engine()
    running = subject.submit(prompt_tokens=50, max_tokens=5)
    waiting = subject.submit(prompt_tokens=20, max_tokens=5)
    open_step = subject.begin_step() if begun else None
    subject.abort(waiting)
    subject.abort(running)
    subject.abort(running)
    if open_step is not None:
        assert subject.end_step(open_step) == []
    assert subject.begin_step() is None
    assert (subject.unfinished, subject.prefill_backlog, subject.kv_usage) == (0, 0, 0)
    assert running.state is waiting.state is SequenceState.ABORTED


def test_an_abort_after_the_end_changes_nothing() -> None:
    subject = engine()
    sequence = subject.submit(prompt_tokens=4, max_tokens=1)
    step(subject)
    subject.abort(sequence)
    assert sequence.state is SequenceState.FINISHED
    assert subject.prefill_backlog == 0


def test_steps_are_begun_and_ended_in_turn() -> None:
    subject = engine()
    subject.submit(prompt_tokens=4, max_tokens=3)
    begun = subject.begin_step()
    assert begun is not None
    with pytest.raises(RuntimeError, match="still open"):
        subject.begin_step()
    subject.end_step(begun)
    with pytest.raises(RuntimeError, match="not open"):
        subject.end_step(begun)


@pytest.mark.parametrize(("prompt", "answer"), [(0, 1), (1, 0), (60, 5)])
def test_what_cannot_run_is_not_queued(prompt: int, answer: int) -> None:
    subject = engine()
    with pytest.raises(ValueError, match="sequence"):
        subject.submit(prompt, answer)
    assert (subject.unfinished, subject.prefill_backlog) == (0, 0)


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"max_num_seqs": 0}, "max_num_seqs"),
        ({"max_num_batched_tokens": 1}, "max_num_batched_tokens"),
        ({"kv_blocks": 3}, "KV blocks"),
        ({"max_num_queued_reqs": -1}, "max_num_queued_reqs"),
    ],
)
def test_impossible_engines_are_named(changes: dict[str, int], names: str) -> None:
    with pytest.raises(UsageError, match=names):
        engine(**changes)
