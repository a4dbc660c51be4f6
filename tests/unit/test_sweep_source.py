"""The schedules of a sweep: common draws at all rates, yet no prompt met before."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadgen.cli.options import PlanFlags
from loadgen.cli.planning import Plan
from loadgen.cli.sweep_source import Schedules
from loadgen.errors import UsageError
from loadgen.plan.prompts import Prompt
from loadgen.units import NS_PER_S

RUN_NS = 20 * NS_PER_S


def schedules(**fields: Any) -> Schedules:
    flags = replace(PlanFlags(workload="short-questions"), **fields.pop("flags", {}))
    return Schedules(flags=flags, endpoint=None, model="m", **fields)


def prompts(plan: Plan) -> list[Prompt]:
    return list(plan.source.prompts(len(plan.at_ns), plan.seed))


def test_arrivals_are_the_same_draw_stretched_to_the_rate() -> None:
    slow = schedules().plan_at(2.0, 7, RUN_NS)
    fast = schedules().plan_at(8.0, 7, RUN_NS)
    count = len(slow.at_ns)
    assert np.allclose(slow.at_ns, fast.at_ns[:count] * 4, rtol=1e-6)


def test_another_schedule_is_another_draw() -> None:
    assert not np.array_equal(
        schedules().plan_at(4.0, 7, RUN_NS).at_ns,
        schedules().plan_at(4.0, 8, RUN_NS).at_ns,
    )


def test_prompts_keep_their_lengths_and_share_no_first_block() -> None:
    slow = prompts(schedules().plan_at(2.0, 7, RUN_NS))
    fast = prompts(schedules().plan_at(8.0, 7, RUN_NS))
    for one, other in zip(slow, fast, strict=False):
        assert one.prompt_tokens == other.prompt_tokens
        assert one.max_tokens == other.max_tokens
        assert len(one.text.split()) == len(other.text.split())
    firsts = {" ".join(p.text.split()[:9]) for p in [*slow, *fast]}
    assert len(firsts) == len(slow) + len(fast)


def test_a_shared_prefix_stays_shared() -> None:
    given = schedules(flags={"workload": "mixed"})
    plans = [given.plan_at(rate, 7, RUN_NS) for rate in (2.0, 4.0)]
    chats = [p.text for plan in plans for p in prompts(plan) if p.group == "chat"]
    assert len({text[:400] for text in chats}) == 1
    assert len(set(chats)) == len(chats)


def test_the_same_place_is_the_same_bytes() -> None:
    assert prompts(schedules().plan_at(2.0, 7, RUN_NS)) == prompts(
        schedules().plan_at(2.0, 7, RUN_NS)
    )


def test_a_group_alone_is_asked_at_the_same_instants_the_same() -> None:
    given: dict[str, Any] = {"flags": {"workload": "agent-burst"}}
    mixed = schedules(**given).plan_at(4.0, 7, RUN_NS)
    alone = schedules(**given, only=("short-question",)).plan_at(4.0, 7, RUN_NS)
    of_group = [
        (int(at), prompt)
        for at, prompt in zip(mixed.at_ns, prompts(mixed), strict=True)
        if prompt.group == "short-question"
    ]
    assert len(of_group) == len(mixed.at_ns) / 2
    assert [at for at, _ in of_group] == alone.at_ns.tolist()
    assert [prompt for _, prompt in of_group] == prompts(alone)
    assert alone.source.group_names == ["short-question"]
    assert alone.asked.rate_rps == pytest.approx(2.0)
    assert "of this schedule only short-question" in alone.notes


def test_a_schedule_is_sealed_like_any_other(tmp_path: Path) -> None:
    path = tmp_path / "schedule.jsonl"
    source = schedules(flags={"workload": "agent-burst"}, only=("long-document",))
    source.at_rate(4.0, 7, RUN_NS).write(path, "m")
    header, *entries, seal = path.read_text().splitlines()
    assert json.loads(header)["groups"] == ["long-document"]
    assert json.loads(seal)["requests"] == len(entries)
    assert {json.loads(entry)["group"] for entry in entries} == {"long-document"}


def test_a_step_past_capacity_has_three_phases() -> None:
    source, phases = schedules().surge(5.0, 20.0, 7, RUN_NS)
    at_s = np.array(source.at_ns) / NS_PER_S
    counts = [((at_s >= a) & (at_s < a + 20)).sum() for a in (0, 20, 40)]
    assert phases.ends_ns == 3 * RUN_NS
    assert source.duration_ns == 3 * RUN_NS
    assert counts[1] > 3 * counts[0]
    assert counts[1] > 3 * counts[2]
    assert abs(counts[0] - 100) < 40


@pytest.mark.parametrize("process", ["ramp", "trace"])
def test_arrivals_without_a_rate_of_their_own_cannot_be_swept(
    process: str, tmp_path: Path
) -> None:
    if process == "ramp":
        flags: dict[str, Any] = {"arrivals": "ramp", "rate_end": "9/s"}
    else:
        trace = tmp_path / "t.jsonl"
        trace.write_text('{"timestamp":0,"input_length":9,"output_length":5}\n' * 3)
        flags = {"workload": f"mooncake:{trace}"}
    with pytest.raises(UsageError, match="cannot be swept"):
        schedules(flags=flags).plan_at(2.0, 7, RUN_NS)


def test_an_unknown_group_is_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match="short-question"):
        schedules(only=("nobody",)).plan_at(2.0, 7, RUN_NS)


def test_the_users_own_prompts_are_offered_again_and_that_is_said(
    tmp_path: Path,
) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text('{"prompt":"About this and that:","max_tokens":4}\n')
    plan = schedules(flags={"workload": str(path)}).plan_at(2.0, 7, RUN_NS)
    assert any("prefix cache" in note for note in plan.notes)
    assert prompts(plan)[0].text == "About this and that:"


def test_the_first_seed_is_the_workloads_unless_given() -> None:
    assert schedules().seed == 7
    assert schedules(flags={"seed": 40}).seed == 40
