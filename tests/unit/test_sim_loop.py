"""Fates of calls offered to the engine in virtual time."""

from __future__ import annotations

from collections import Counter

import pytest

from loadgen.sim.engine import EngineSpec, Refusal, StepCost
from loadgen.sim.loop import Call, Fate, Stage, simulate
from loadgen.units import NS_PER_MS, NS_PER_S

FRONT_NS = 16 * NS_PER_MS


def burst(spec: EngineSpec, within_ns: int, calls: int = 40) -> list[Fate]:
    return simulate(
        spec,
        [
            Call(
                at_ns=index * within_ns // calls,
                prompt_tokens=100,
                max_tokens=256,
                front_ns=FRONT_NS,
            )
            for index in range(calls)
        ],
    )


@pytest.mark.parametrize(
    ("within_ns", "preflight", "pull"),
    [
        # A real vLLM 0.33 gave 0 + 32, 15 + 17, 28 + 4, 27 + 5, 32 + 0.
        (1 * NS_PER_MS, 0, 32),
        (40 * NS_PER_MS, 16, 16),
        (100 * NS_PER_MS, 26, 6),
        (200 * NS_PER_MS, 29, 3),
        (1000 * NS_PER_MS, 32, 0),
    ],
)
def test_the_closer_the_calls_the_more_pass_only_the_first_check(
    within_ns: int, preflight: int, pull: int
) -> None:
    fates = burst(EngineSpec(max_num_queued_reqs=8), within_ns)
    refused = Counter(fate.refused_at for fate in fates)
    assert (refused[Stage.PREFLIGHT], refused[Stage.PULL]) == (preflight, pull)
    assert refused[None] == sum(fate.finished for fate in fates) == 8
    assert {fate.refusal for fate in fates} == {None, Refusal.QUEUED_REQS}


def test_a_lone_call_takes_its_steps_and_no_longer() -> None:
    cost = StepCost(base_ns=10, prefill_token_ns=1, decode_seq_ns=5, kv_token_ns=0)
    call = Call(at_ns=100, prompt_tokens=20, max_tokens=3, front_ns=7)
    (fate,) = simulate(EngineSpec(cost=cost), [call])
    assert fate.decided_ns == 107
    assert fate.first_token_ns == 107 + 30
    assert fate.last_token_ns == 107 + 30 + 2 * 15
    assert (fate.output_tokens, fate.finished) == (3, True)


def test_calls_of_one_instant_share_the_first_step() -> None:
    call = Call(at_ns=0, prompt_tokens=20, max_tokens=1)
    first, second = simulate(EngineSpec(), [call, call])
    assert first.first_token_ns == second.first_token_ns


@pytest.mark.parametrize("leave_ns", [1, FRONT_NS + 1, 2 * NS_PER_S])
def test_who_leaves_is_aborted_and_makes_room(leave_ns: int) -> None:
    stays = Call(at_ns=0, prompt_tokens=50, max_tokens=400)
    leaves = Call(
        at_ns=0,
        prompt_tokens=50,
        max_tokens=400,
        front_ns=FRONT_NS,
        leave_ns=leave_ns,
    )
    fates = simulate(EngineSpec(max_num_seqs=1), [stays, leaves])
    assert (fates[0].finished, fates[0].aborted) == (True, False)
    assert (fates[1].finished, fates[1].aborted) == (False, True)


def test_leaving_after_the_end_changes_nothing() -> None:
    call = Call(at_ns=0, prompt_tokens=5, max_tokens=2, leave_ns=NS_PER_S * 60)
    (fate,) = simulate(EngineSpec(), [call])
    assert (fate.finished, fate.aborted) == (True, False)
