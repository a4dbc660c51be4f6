"""Laws of workloads and traces: counts, lengths, and one row a line."""

from __future__ import annotations

import json
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.plan.generate import assign, generate
from loadgen.plan.groups import Group
from loadgen.plan.prompts import MIN_DOCUMENT_TOKENS, MIN_PREFIX_TOKENS, estimate_tokens
from loadgen.plan.traces import read_trace

SEEDS = st.integers(-(2**63), 2**63)


@given(st.integers(1, 7), st.integers(0, 300), SEEDS)
@settings(deadline=None)
def test_equal_groups_stay_equal(groups: int, count: int, seed: int) -> None:
    which = assign([1.0] * groups, count, seed, equal=True)
    counts = Counter(which.tolist())
    assert sum(counts.values()) == count
    assert {counts[group] for group in range(groups)} <= {
        count // groups,
        -(-count // groups),
    }


@given(st.lists(st.floats(0, 100), min_size=1, max_size=6), SEEDS)
@settings(deadline=None)
def test_a_group_without_weight_gets_nothing(weights: list[float], seed: int) -> None:
    weights = [*weights, 1.0]
    which = assign(weights, 200, seed, equal=False)
    assert all(weights[group] > 0 for group in which.tolist())


@given(
    st.integers(MIN_DOCUMENT_TOKENS, 700),
    st.integers(0, 300),
    st.just(0) | st.integers(MIN_PREFIX_TOKENS, 150),
    st.sampled_from(["question", "document"]),
    SEEDS,
)
@settings(deadline=None, max_examples=40)
def test_prompts_are_as_long_as_they_say(
    low: int, width: int, prefix: int, kind: str, seed: int
) -> None:
    group = Group(
        name="g",
        kind=kind,  # type: ignore[arg-type]
        prompt_tokens=(low + prefix, low + prefix + width),
        max_tokens=(1, 9),
        shared_prefix_tokens=prefix,
    )
    which = assign([1.0], 5, seed, equal=False)
    for prompt in generate([group], which, seed):
        assert estimate_tokens(prompt.text) == prompt.prompt_tokens
        assert low + prefix <= prompt.prompt_tokens <= low + prefix + width
        assert prompt.max_tokens is not None
        assert 1 <= prompt.max_tokens <= 9


@given(
    st.lists(
        st.tuples(st.integers(0, 10**9), st.integers(0, 10**6), st.integers(1, 99)),
        min_size=1,
        max_size=30,
    ),
    st.sampled_from(["\n", "\r\n", "\n\n"]),
    st.booleans(),
)
@settings(deadline=None)
def test_a_trace_is_read_as_it_was_written(
    rows: list[tuple[int, int, int]], end: str, last_end: bool
) -> None:
    rows = sorted(rows, key=lambda row: row[0])
    text = end.join(
        json.dumps({"timestamp": at / 1000, "input_length": n, "output_length": m})
        for at, n, m in rows
    )
    lines = (text + end * last_end).encode().splitlines(keepends=True)
    trace = read_trace(lines, "jsonl", unit="s")
    assert trace.at_ns.tolist() == [(at - rows[0][0]) * 10**6 for at, _, _ in rows]
    assert trace.prompt_tokens.tolist() == [n for _, n, _ in rows]
    assert trace.output_tokens.tolist() == [m for _, _, m in rows]
