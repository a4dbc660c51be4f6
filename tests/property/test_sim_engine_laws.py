"""What holds for the engine whatever is asked of it."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from loadgen.sim.engine import Engine, EngineSpec, Sequence, SequenceState, Step
from loadgen.sim.loop import Call, simulate
from loadgen.units import NS_PER_MS

CAP = st.none() | st.integers(0, 12)


@st.composite
def specs(draw: st.DrawFn) -> EngineSpec:
    slots = draw(st.integers(1, 5))
    length = draw(st.integers(8, 80))
    block = draw(st.sampled_from([1, 4, 16]))
    least = -(-length // block)
    return EngineSpec(
        max_num_seqs=slots,
        max_num_batched_tokens=draw(st.integers(slots, 64)),
        max_model_len=length,
        block_tokens=block,
        kv_blocks=draw(st.integers(least, 3 * least)),
        max_num_queued_reqs=draw(CAP),
        max_num_queued_tokens=draw(st.none() | st.integers(0, 200)),
    )


LIVE = {SequenceState.RUNNING, SequenceState.WAITING}


class EngineLaws(RuleBasedStateMachine):
    """Submit, step and abort in any order; the books balance after each."""

    @initialize(spec=specs())
    def begin(self, spec: EngineSpec) -> None:
        self.engine = Engine(spec)
        self.sequences: list[Sequence] = []
        self.computed: Counter[int] = Counter()
        self.discarded: Counter[int] = Counter()

    @rule(data=st.data())
    def submit(self, data: st.DataObject) -> None:
        if self.engine.refusal() is not None:
            return
        length = self.engine.spec.max_model_len
        prompt = data.draw(st.integers(1, length - 1), "prompt")
        answer = data.draw(st.integers(1, length - prompt), "answer")
        self.sequences.append(self.engine.submit(prompt, answer))

    @precondition(lambda self: any(s.state in LIVE for s in self.sequences))
    @rule(data=st.data(), in_mid_step=st.booleans())
    def abort(self, data: st.DataObject, in_mid_step: bool) -> None:
        begun = self._begin_step() if in_mid_step else None
        live = [s for s in self.sequences if s.state in LIVE]
        victim = data.draw(st.sampled_from(live), "victim")
        self.engine.abort(victim)
        if begun is not None:
            assert victim not in self.engine.end_step(begun)

    @rule(times=st.integers(1, 20))
    def step(self, times: int) -> None:
        for _ in range(times):
            begun = self._begin_step()
            if begun is None:
                assert self.engine.unfinished == 0
                return
            self.engine.end_step(begun)

    def _begin_step(self) -> Step | None:
        before = [s.computed_tokens for s in self.sequences]
        begun = self.engine.begin_step()
        if begun is None:
            return None
        assert 0 < begun.tokens <= self.engine.spec.max_num_batched_tokens
        order = [sequence.number for sequence, _ in begun.chunks]
        assert order == sorted(order)
        for victim in begun.preempted:
            self.discarded[victim.number] += before[victim.number]
            running = (s for s in self.sequences if s.state is SequenceState.RUNNING)
            assert all(other.number < victim.number for other in running)
        for sequence, chunk in begun.chunks:
            self.computed[sequence.number] += chunk
        return begun

    @invariant()
    def the_books_balance(self) -> None:
        engine, spec = self.engine, self.engine.spec
        by_state = Counter(sequence.state for sequence in self.sequences)
        assert engine.running == by_state[SequenceState.RUNNING] <= spec.max_num_seqs
        assert engine.waiting == by_state[SequenceState.WAITING]
        assert engine.preemptions == sum(s.preemptions for s in self.sequences)
        held = sum(sequence.kv_blocks for sequence in self.sequences)
        assert round(engine.kv_usage * spec.kv_blocks) == held <= spec.kv_blocks
        silent = [s for s in self.sequences if s.state in LIVE and not s.output_tokens]
        assert engine.prefill_backlog == sum(s.prompt_tokens for s in silent)

    @invariant()
    def running_sequences_alone_hold_blocks_and_enough(self) -> None:
        for s in self.sequences:
            if s.state is SequenceState.RUNNING:
                assert s.computed_tokens <= s.kv_blocks * self.engine.spec.block_tokens
            else:
                assert s.kv_blocks == 0

    @invariant()
    def nothing_is_computed_twice_but_what_was_thrown_away(self) -> None:
        for s in self.sequences:
            if s.state is SequenceState.FINISHED:
                assert s.output_tokens == s.max_tokens
                once = s.prompt_tokens + s.max_tokens - 1
                assert self.computed[s.number] == once + self.discarded[s.number]

    def teardown(self) -> None:
        if not hasattr(self, "engine"):
            return
        while self.engine.unfinished:
            self.step(times=20)
        ended = Counter(sequence.state for sequence in self.sequences)
        assert set(ended) <= {SequenceState.FINISHED, SequenceState.ABORTED}
        self.the_books_balance()
        self.nothing_is_computed_twice_but_what_was_thrown_away()


TestEngineLaws = EngineLaws.TestCase
TestEngineLaws.settings = settings(
    max_examples=150, stateful_step_count=25, deadline=None
)


calls = st.builds(
    Call,
    at_ns=st.integers(0, 200 * NS_PER_MS),
    prompt_tokens=st.integers(1, 6),
    max_tokens=st.integers(1, 2),
    front_ns=st.integers(0, 30 * NS_PER_MS),
    leave_ns=st.none() | st.integers(0, 400 * NS_PER_MS),
)


@settings(max_examples=100, deadline=None)
@given(specs(), st.lists(calls, max_size=30))
def test_every_call_has_exactly_one_fate(spec: EngineSpec, offered: list[Call]) -> None:
    fates = simulate(spec, offered)
    assert len(fates) == len(offered)
    for call, fate in zip(offered, fates, strict=True):
        refused = fate.refusal is not None
        assert [fate.finished, fate.aborted, refused].count(True) == 1
        assert refused == (fate.refused_at is not None)
        if fate.finished:
            assert fate.output_tokens == call.max_tokens
            assert fate.decided_ns is not None
            assert fate.first_token_ns is not None
            assert fate.last_token_ns is not None
            assert call.at_ns + call.front_ns == fate.decided_ns
            assert fate.decided_ns < fate.first_token_ns <= fate.last_token_ns
