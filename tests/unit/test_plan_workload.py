"""Workloads: the ones that come with the program, and what a file may say."""

from __future__ import annotations

from collections import Counter

import pytest

from loadgen.errors import UsageError
from loadgen.plan import given
from loadgen.plan.given import TracePrompts, parse_prompts
from loadgen.plan.workload import (
    Timing,
    Workload,
    builtin_names,
    builtin_text,
    parse_mix,
    parse_workload,
)
from loadgen.units import NS_PER_S

GROUP = """
[[groups]]
name = "{name}"
kind = "question"
prompt_tokens = [20, 40]
max_tokens = 16
"""
TWO = GROUP.format(name="first") + GROUP.format(name="second")


def counts(workload: Workload, count: int, seed: int = 7) -> Counter[str]:
    return Counter(prompt.group for prompt in workload.prompts(count, seed))


def test_the_builtin_workloads_are_whole() -> None:
    assert builtin_names() == [
        "agent-burst",
        "long-documents",
        "mixed",
        "short-questions",
    ]
    for name in builtin_names():
        workload = parse_workload(builtin_text(name), name)
        assert workload.description
        assert workload.timing.arrivals().expected >= 40
        for prompt in workload.prompts(100, seed=1):
            group = next(g for g in workload.groups if g.name == prompt.group)
            low, high = group.prompt_tokens  # type: ignore[misc]
            assert low <= prompt.prompt_tokens <= high


def test_agent_burst_is_forty_calls_half_and_half() -> None:
    burst = parse_workload(builtin_text("agent-burst"), "agent-burst")
    assert burst.timing.arrivals().expected == 40
    assert burst.timing.arrivals().fixed_count
    for seed in range(20):
        assert counts(burst, 40, seed) == {"short-question": 20, "long-document": 20}


def test_an_unknown_builtin_names_the_known() -> None:
    with pytest.raises(UsageError) as caught:
        builtin_text("agentburst")
    assert "agent-burst" in str(caught.value)


def test_equal_counts_differ_by_one_at_most() -> None:
    workload = parse_workload("equal = true\n" + TWO, "w")
    assert counts(workload, 41) == {"first": 21, "second": 20}


def test_weights_are_shares() -> None:
    workload = parse_workload(TWO, "w").with_mix({"first": 30.0, "second": 10.0})
    assert counts(workload, 20_000)["first"] == pytest.approx(15_000, rel=0.02)


def test_a_mix_replaces_the_shares() -> None:
    equal = parse_workload("equal = true\n" + TWO, "w")
    assert equal.with_mix(parse_mix("first=50, second=50")).equal
    assert not equal.with_mix(parse_mix("first=2,second=1")).equal
    assert not parse_workload(TWO, "w").with_mix(parse_mix("first=1,second=1")).equal
    only = equal.with_mix(parse_mix("second=1"))
    assert only.group_names == ["second"]
    assert equal.with_mix(parse_mix("first=1,second=0")).group_names == ["first"]
    with pytest.raises(UsageError, match="no group third"):
        equal.with_mix(parse_mix("first=1,third=1"))


@pytest.mark.parametrize(
    "text", ["", "a", "a=", "a=-1", "a=nan", "a=1,a=2", "a=0", "=1"]
)
def test_a_mix_that_is_none(text: str) -> None:
    with pytest.raises(UsageError, match="the mix"):
        parse_mix(text)


def test_one_output_limit_for_all() -> None:
    workload = parse_workload(TWO, "w").with_max_tokens(5)
    assert {prompt.max_tokens for prompt in workload.prompts(9, 7)} == {5}
    with pytest.raises(UsageError, match="at least 1"):
        workload.with_max_tokens(0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "missing required field `groups`"),
        ("groups = []", "length >= 1"),
        ("a = \nb = 1", "line 1, column 5"),
        (TWO + "colour = 1\n", "line 13: .*unknown field `colour`"),
        ("'a(b' = 2\n" + TWO, r"line 1: .*unknown field `a\(b`"),
        ("speed = 2\n" + TWO, "line 1: .*unknown field `speed`"),
        ("[arrivals]\nrat = '2/s'\n" + TWO, "line 2: .*unknown field `rat`"),
        ("[arrivals]\nrate = '20'\n" + TWO, "line 2: .*'20' is not a rate"),
        ("[arrivals]\non = '0s'\n" + TWO, "line 2: .*not a duration above zero"),
        ("seed = 'x'\n" + TWO, "line 1: .*Expected `int"),
        (TWO.replace("second", "first"), "two groups are named first"),
        (TWO.replace("second", "a b"), "line 9: .*matching regex"),
        (TWO.replace("question", "questions"), "line 4: .*Invalid enum value"),
        (TWO.replace("[20, 40]", "[40, 20]", 1), "prompt_tokens must be 1 to"),
        (TWO.replace("[20, 40]", "[20, 40, 60]", 1), "line 5: .*length 2"),
        (TWO.replace("[20, 40]", "5", 1), "must be 14 or more in this question"),
        (TWO.replace("16", "0", 1), "max_tokens must be 1 to"),
        (TWO.replace("16", "16.5", 1), "line 6: "),
        (TWO.replace("16", "16\nshared_prefix_tokens = 3", 1), "is 0, or 9 or more"),
        (TWO.replace("16", "16\nshared_prefix_tokens = 30", 1), "must be 44 or more"),
        ("equal = true\n" + TWO + "weight = 2\n", "no weight to group second"),
        (TWO + "weight = -1\n", "line 13: "),
        (TWO + "weight = nan\n", "line 13: "),
        (GROUP.format(name="only") + "weight = 0\n", "no group has a weight above 0"),
    ],
)
def test_a_file_that_is_refused(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=rf"workload w: .*{says}"):
        parse_workload(text, "w")


def test_timing_takes_flags_before_its_own() -> None:
    timing = Timing(process="on-off", rate="5/s", duration="2s", on="1s", off="1s")
    faster = timing.override(rate="20/s", duration=None).arrivals()
    assert (faster.process, faster.rate_rps, faster.on_ns) == ("on-off", 20.0, NS_PER_S)
    other = timing.override(process="gamma", burstiness=0.5).arrivals()
    assert (other.rate_rps, other.burstiness, other.on_ns) == (5.0, 0.5, None)
    with pytest.raises(UsageError, match="the rate is not given; give --rate"):
        Timing(duration="2s").arrivals()


def test_prompts_of_ones_own() -> None:
    text = (
        '\ufeff{"prompt": "one two three?", "max_tokens": 5, "group": "a"}\r\n\n'
        '{"messages": [ {"role":"user","content":"four five"},'
        ' {"role":"user","content":[{"type":"text","text":"six"},{"type":"image_url"}]}'
        '], "tenant": "t"}'
    )
    file = parse_prompts(text, "mine")
    assert file.group_names == ["a", "prompts"]
    first, second, third = file.prompts(3, seed=7)
    assert (first.text, first.max_tokens, first.prompt_tokens) == (
        "one two three?",
        5,
        4,
    )
    assert third == first
    assert second.messages is not None
    assert second.messages.startswith(b'[ {"role":"user"')
    assert (second.text, second.max_tokens, second.prompt_tokens) == ("", None, 3)
    assert {line.max_tokens for line in file.with_max_tokens(9).lines} == {9}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "line 1: there is no prompt"),
        ('\n{"prompt": "a", "max_token": 3}', "line 2: .*unknown field `max_token`"),
        ('{"prompt": "a"}\n{"prom', "line 2: invalid JSON"),
        ('{"max_tokens": 3}', "line 1: give either prompt or messages"),
        ('{"prompt": "a", "messages": []}', "line 1: give either"),
        ('{"messages": []}', "line 1: .*length >= 1"),
        ('{"messages": [{"content": "a"}]}', "line 1: .*missing required field `role`"),
        ('{"prompt": ""}', "line 1: .*length >= 1"),
        ('{"prompt": "a", "max_tokens": 0}', "line 1: .*>= 1"),
        ('{"prompt": "a", "group": "b c"}', "line 1: .*regex"),
    ],
)
def test_prompts_that_are_refused(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=f"mine: {says}"):
        parse_prompts(text, "mine")


def test_a_trace_without_lengths_makes_no_prompts() -> None:
    lengths = parse_workload(TWO, "w").prompts(1, 7)
    assert next(lengths).prompt_tokens >= 20
    import numpy as np

    unknown = np.array([5, -1])
    source = TracePrompts(name="t", prompt_tokens=unknown, output_tokens=unknown)
    with pytest.raises(UsageError, match="row 2 of the trace has no prompt length"):
        list(source.prompts(2, 7))


@pytest.mark.parametrize(
    "text", ["a=" + "[" * 20_000, "a={" * 5_000, f"seed={'9' * 5_000}"]
)
def test_toml_without_end_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="workload w: "):
        parse_workload(text, "w")


def test_a_line_longer_than_any_prompt_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(given, "MAX_LINE_CHARS", 30)
    with pytest.raises(UsageError, match="w: line 2 is longer"):
        parse_prompts('{"prompt":"a"}\n{"prompt":"' + "x" * 30 + '"}', "w")
