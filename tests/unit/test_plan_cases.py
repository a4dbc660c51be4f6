"""The handed schedule cases, each by its id: tests/cases/schedule.jsonl."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from loadgen.errors import UsageError
from loadgen.plan.arrivals import Arrivals, offsets
from loadgen.plan.given import TracePrompts, parse_prompts
from loadgen.plan.traceformats import Row
from loadgen.plan.traces import Trace, read_trace, rescale, trace_rows
from loadgen.plan.workload import builtin_text, parse_workload
from loadgen.units import NS_PER_MS, NS_PER_S, parse_rate_rps
from tests.cases import Case, cases

CASES = cases("schedule")

#: Cases about sending and judging; other rooms test them.
ELSEWHERE = {
    "sch-36-gate-releases-burst": "the issuer: no cap delays a send",
    "sch-37-overlap": "the issuer: an arrival never waits for an answer",
    "sch-43-late-client": "the issuer: late sends go at once, lag recorded",
    "sch-44-dropped-iterations": "the analysis: unsent stay in the denominator",
}


def _options(case: Case) -> dict[str, Any]:
    layout = case["input"]["format"].removesuffix("_jsonl").removesuffix("_csv")
    return {"layout": layout, "unit": case["input"].get("unit")}


def _lines(text: str) -> list[bytes]:
    return text.encode().splitlines(keepends=True)


def _rows(case: Case) -> list[Row]:
    return list(trace_rows(_lines(case["input"]["text"]), **_options(case)))


def _trace(case: Case, **more: Any) -> Trace:
    return read_trace(_lines(case["input"]["text"]), **_options(case), **more)


def _refusal(case: Case) -> str:
    with pytest.raises(UsageError) as caught:
        _trace(case)
    return caught.value.what


def _seconds(at_ns: Any) -> list[float]:
    return [at / NS_PER_S for at in at_ns.tolist()]


def mooncake_first_lines(case: Case) -> None:
    trace, expect = _trace(case), case["expect"]
    assert _seconds(trace.at_ns) == expect["offsets_s"]
    assert len(trace.at_ns) == expect["n"]
    assert trace.same_time_pairs == expect["same_time_pairs"]


def unit_must_be_explicit(case: Case) -> None:
    assert case["expect"]["error"] in _refusal(case)


def mooncake_default_unit_trap(case: Case) -> None:
    low, high = case["input"]["timestamps"]
    block = case["expect"]["right_block"]
    hashes = list(range(14))
    text = "".join(
        json.dumps({"timestamp": at, "input_length": 6758, "hash_ids": hashes}) + "\n"
        for at in (low, high)
    )
    trace = read_trace(_lines(text), "mooncake", block_size=block)
    assert _seconds(trace.at_ns) == [0, case["expect"]["right_gap_s"]]
    with pytest.raises(UsageError, match="line 1: 14 hash_ids need input_length"):
        read_trace(_lines(text), "mooncake", block_size=case["input"]["block_used"])
    with pytest.raises(UsageError, match="fixes the unit"):
        read_trace(_lines(text), "mooncake", unit="s")


def refused_naming_the_line(case: Case) -> None:
    refusal = _refusal(case)
    assert case["expect"]["error"] in refusal
    assert f"line {case['expect']['line']}:" in refusal


def aiperf_fixed_schedule(case: Case) -> None:
    first, last = (at * NS_PER_MS for at in case["input"]["window_ms"])
    trace, expect = _trace(case, window_ns=(first, last)), case["expect"]
    raw_ns = trace.at_ns + trace.origin_ns
    assert [at / NS_PER_MS for at in raw_ns.tolist()] == expect["selected_ms"]
    assert _seconds(trace.at_ns) == expect["offsets_if_zeroed_s"]
    assert (len(trace.at_ns), trace.skipped) == (expect["n"], expect["skipped"])
    assert "rows outside the window, left out: 3" in trace.notes()
    assert set(trace.output_tokens.tolist()) == {-1}


def aiperf_delay_lines(case: Case) -> None:
    assert case["expect"]["error"] == "no timestamp on line 1"
    assert _refusal(case) == "line 1: timestamp missing"


def burstgpt1(case: Case) -> None:
    trace, expect = _trace(case), case["expect"]
    assert _seconds(trace.at_ns) == expect["offsets_s"]
    assert trace.prompt_tokens.tolist() == expect["prompt_tokens"]
    assert trace.output_tokens.tolist() == expect["output_tokens"]
    assert _trace(case | {"input": case["input"] | {"format": "auto"}}).line[-1] == 4


def burstgpt3(case: Case) -> None:
    rows, expect = _rows(case), case["expect"]
    assert _seconds(_trace(case).at_ns) == expect["offsets_s"]
    assert [row.session and "set" for row in rows] == expect["session"]
    assert [row.output_tokens == 0 for row in rows] == expect["failed_in_source"]


def burstgpt_zero_response(case: Case) -> None:
    trace, expect = _trace(case), case["expect"]
    policy = 99
    source = TracePrompts(
        name="trace",
        prompt_tokens=trace.prompt_tokens,
        output_tokens=trace.output_tokens,
        max_tokens=policy,
    )
    asked = [prompt.max_tokens for prompt in source.prompts(len(trace.at_ns), seed=7)]
    assert asked == [policy if m == "policy" else m for m in expect["max_tokens"]]
    assert _seconds(trace.at_ns) == expect["offsets_s"]
    assert trace.zero_outputs == 1
    assert "rows with 0 output tokens, offered with the default: 1" in trace.notes()


def offsets_and_lengths(case: Case) -> None:
    trace, expect = _trace(case), case["expect"]
    assert _seconds(trace.at_ns) == expect["offsets_s"]
    assert len(trace.at_ns) == expect.get("n", len(expect["offsets_s"]))
    if "output_tokens" in expect:
        assert trace.output_tokens.tolist() == expect["output_tokens"]
    if "line_numbers" in expect:
        assert trace.line.tolist() == expect["line_numbers"]


def azure2023_whole_files(case: Case) -> None:
    """The files are large and not ours; their traits are made here anew."""
    rows, span_s = 19366, case["expect"]["conv"]["span_s"]
    assert case["expect"]["lf_count_equals_rows"]
    text = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    for row in range(rows):
        ticks = round(row * span_s * 1e7 / (rows - 1))  # of 100 ns, from 18:15:46.68
        seconds, fraction = divmod(466_805_900 + ticks, 10**7)
        minutes, second = divmod(15 * 60 + seconds, 60)
        hour, minute = divmod(18 * 60 + minutes, 60)
        text.append(f"2023-11-16 {hour}:{minute:02}:{second:02}.{fraction:07},374,44")
    data = "\r\n".join(text)
    assert data.count("\n") == rows
    trace = read_trace(_lines(data), "azure")
    assert len(trace.at_ns) == rows
    assert trace.at_ns[-1] / NS_PER_S == pytest.approx(span_s, abs=1e-6)
    mean_rps = rows / (trace.duration_ns / NS_PER_S)
    assert mean_rps == pytest.approx(case["expect"]["conv"]["mean_rps"], abs=1e-4)
    assert trace.inversions == trace.same_time_pairs == 0


def ragpulse_strings_and_wrap(case: Case) -> None:
    expect = case["expect"]
    refusal = _refusal(case)
    assert expect["error"] == "time goes back on line 4 (604453 -> 0)"
    assert refusal == "line 4: time goes back (604453 -> 0)"
    trace = _trace(case, sort=True)
    assert trace.inversions == expect["inversions"]
    assert _seconds(trace.at_ns) == expect["if_sort_allowed"]["offsets_s"]
    assert trace.output_tokens.tolist() == expect["if_sort_allowed"]["output_tokens"]


def git_lfs_pointer(case: Case) -> None:
    assert case["expect"]["error"] in _refusal(case)
    for read in (parse_workload, parse_prompts):
        with pytest.raises(UsageError, match="git-lfs pointer"):
            read(case["input"]["text"], "file")


def odd_numbers(case: Case) -> None:
    for line, ok in zip(case["input"]["lines"], case["expect"]["accept"], strict=True):
        one = case | {"input": case["input"] | {"text": line + "\n"}}
        if ok:
            value_s = _trace(one).origin_ns / NS_PER_S
            assert value_s == case["expect"]["sixth_value_s"]
        else:
            assert _refusal(one).startswith("line 1: ")


def csv_bad_header(case: Case) -> None:
    assert _refusal(case) == f"line 1: {case['expect']['error']}"


def rate_strings(case: Case) -> None:
    for text, expected in zip(
        case["input"]["rates"], case["expect"]["per_second"], strict=True
    ):
        if isinstance(expected, float):
            assert parse_rate_rps(text) == expected
        else:
            with pytest.raises(UsageError):
                parse_rate_rps(text)


def same_seed(case: Case) -> None:
    """Arrivals know nothing of what is sent; prompts nothing of one another."""
    seed = case["input"]["seed"]
    spec = Arrivals(process="poisson", rate_rps=20, duration_ns=2 * NS_PER_S)
    first, second = offsets(spec, seed), offsets(spec, seed)
    short = parse_workload(builtin_text("short-questions"), "short-questions")
    few, many = list(short.prompts(10, seed)), list(short.prompts(10_000, seed))
    assert np.array_equal(first, second) is case["expect"]["schedules_equal"]
    assert few == many[:10]
    assert not np.array_equal(first, offsets(spec, seed + 1))


def time_scale_direction(case: Case) -> None:
    at_ns = np.array(case["input"]["offsets_s"]) * NS_PER_S
    factor, expect = case["input"]["factor"], case["expect"]
    for direction in ("time-scale", "speedup", "slowdown"):
        scaled = rescale(at_ns, factor, direction)
        assert _seconds(scaled) == expect[f"as_{direction.replace('-', '_')}"]
        for wrong in (0, -factor, float("nan"), float("inf")):
            with pytest.raises(UsageError, match=direction):
                rescale(at_ns, wrong, direction)


def huge_trace(case: Case) -> None:
    """A slice of the rows: memory grows by columns, not by objects."""
    rows = 20_000
    assert case["input"]["rows"] > rows

    def lines() -> Iterator[bytes]:
        yield b"Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        for row in range(rows):
            yield b"%d,GPT-4,%d,5,9,API log\n" % (10**6 + row, 10**4 + row)

    read_trace(lines(), "burstgpt")
    tracemalloc.start()
    trace = read_trace(lines(), "burstgpt")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(trace.at_ns) == rows
    assert peak < 80 * rows


CHECKS: dict[str, Callable[[Case], None]] = {
    "sch-01-mooncake-first-lines": mooncake_first_lines,
    "sch-04-unit-must-be-explicit": unit_must_be_explicit,
    "sch-05-mooncake-default-unit-trap": mooncake_default_unit_trap,
    "sch-06-hash-ids-too-many": refused_naming_the_line,
    "sch-07-aiperf-fixed-schedule": aiperf_fixed_schedule,
    "sch-08-aiperf-delay-lines": aiperf_delay_lines,
    "sch-09-burstgpt1": burstgpt1,
    "sch-10-burstgpt3": burstgpt3,
    "sch-11-burstgpt-zero-response": burstgpt_zero_response,
    "sch-12-azure2023": offsets_and_lengths,
    "sch-13-azure2023-whole-files": azure2023_whole_files,
    "sch-14-azure2024": offsets_and_lengths,
    "sch-15-ragpulse-strings-and-wrap": ragpulse_strings_and_wrap,
    "sch-17-git-lfs-pointer": git_lfs_pointer,
    "sch-19-first-not-zero": offsets_and_lengths,
    "sch-21-missing-timestamp": refused_naming_the_line,
    "sch-22-nan-inf-null-bool": odd_numbers,
    "sch-23-bom-crlf-blank": offsets_and_lengths,
    "sch-24-truncated-last-line": refused_naming_the_line,
    "sch-26-csv-bad-header": csv_bad_header,
    "sch-28-rate-strings": rate_strings,
    "sch-34-seed": same_seed,
    "sch-35-time-scale-direction": time_scale_direction,
    "sch-38-huge-trace": huge_trace,
}


@pytest.mark.parametrize("case_id", CHECKS)
def test_case(case_id: str) -> None:
    CHECKS[case_id](CASES[case_id])


def test_no_case_is_forgotten() -> None:
    assert set(CHECKS) | set(ELSEWHERE) == set(CASES)
