"""Traces beyond the handed cases: sorting, windows, and what is refused."""

from __future__ import annotations

import json

import pytest

from loadgen.errors import UsageError
from loadgen.plan.traces import read_trace, rescale


def rows(times: list[float]) -> list[bytes]:
    return [
        json.dumps({"timestamp": at, "input_length": place + 1}).encode() + b"\n"
        for place, at in enumerate(times)
    ]


def test_sorting_keeps_the_order_of_equal_times() -> None:
    times = [float(place % 2) for place in range(200)]
    trace = read_trace(rows(times), "jsonl", unit="s", sort=True)
    even, odd = list(range(1, 200, 2)), list(range(2, 201, 2))
    assert trace.prompt_tokens.tolist() == even + odd
    assert trace.line.tolist() == even + odd
    assert trace.notes() == [
        "times that went back, sorted as asked: 99",
        "neighbours due at the same instant: 198",
    ]


def test_times_keep_their_last_digit() -> None:
    """A float of seconds since 1970 would lose it: 238 ns apart at best."""
    lines = [
        b'{"timestamp": 1700000000.000000001}\n',
        b'{"timestamp": "1700000000.000000002"}\n',
    ]
    assert read_trace(lines, "jsonl", unit="s").at_ns.tolist() == [0, 1]


def test_a_window_counts_from_the_first_time() -> None:
    late = read_trace(
        rows([100.0, 101.0, 102.0, 103.0]),
        "jsonl",
        unit="s",
        window_ns=(10**9, 2 * 10**9),
    )
    assert late.at_ns.tolist() == [0, 10**9]
    assert (late.origin_ns, late.skipped) == (101 * 10**9, 2)
    with pytest.raises(UsageError, match="no row in the window"):
        read_trace(rows([1.0]), "jsonl", unit="s", window_ns=(5, 6))


@pytest.mark.parametrize(
    ("text", "layout", "says"),
    [
        ("", "auto", "line 1: the trace is empty"),
        ("\n\n", "mooncake", "the trace has no row"),
        ("a,b\n1,2\n", "auto", "line 1: the format of the trace cannot be told"),
        ("a", "parquet", "no trace format 'parquet'"),
        ("[1]\n", "mooncake", "line 1: Expected `object`"),
        ('{"timestamp": 1, "input_length": -1}', "mooncake", "line 1: .*>= 0"),
        ('{"timestamp": 1, "input_length": true}', "mooncake", "line 1: .*got `bool`"),
        ('{"timestamp": 1e99}', "mooncake", "line 1: timestamp 1e99 is too large"),
        ('{"timestamp": [1]}', "mooncake", "line 1: .*is not a number"),
        ("\x00\x01\x02", "mooncake", "line 1: invalid JSON"),
        ("Timestamp,Request tokens,Response tokens\n1,2\n", "auto", "line 2: 2 fields"),
        ("Timestamp,Request tokens,Response tokens\n1,2,x\n", "auto", "line 2: .*'x'"),
        (
            "Timestamp,Request tokens,Response tokens\n1,-2,3\n",
            "auto",
            "line 2: .*'-2'",
        ),
        ('Timestamp,Request tokens,Response tokens\n"1,2,3\n', "auto", "line 2: "),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\nnow,1,2\n", "auto", "line 2: 'now'"),
        (
            "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-02-30 00:00:00,1,2\n",
            "auto",
            "line 2: '2023-02-30 00:00:00' is not a time",
        ),
    ],
)
def test_refusals_name_the_line(text: str, layout: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        read_trace(text.encode().splitlines(keepends=True), layout)


def test_bytes_that_are_no_text() -> None:
    head = b"Timestamp,Request tokens,Response tokens\n"
    with pytest.raises(UsageError, match="line 3: not UTF-8 text"):
        read_trace([head, b"1,2,3\n", b"\xff,2,3\n"], "burstgpt")
    for line in (b'{"timestamp": 1, "session_id": "\xff"}', b'{"timestamp": "\xff"}'):
        with pytest.raises(UsageError, match="line 1: "):
            read_trace([line], "mooncake")


def test_times_too_far_apart_for_the_clock_are_refused() -> None:
    lines = [
        b"TIMESTAMP,ContextTokens,GeneratedTokens\n",
        b"0001-01-01 00:00:00,1,1\n",
        b"9999-12-31 23:59:59,1,1\n",
    ]
    with pytest.raises(UsageError, match=r"line 2: .* too far off"):
        read_trace(lines, "auto")


def test_a_scale_beyond_every_float_is_refused_without_a_warning() -> None:
    at_ns = read_trace(rows([0.0, 1e9]), "jsonl", unit="s").at_ns
    with pytest.raises(UsageError, match="too long"):
        rescale(at_ns, 1e300, "time-scale")


@pytest.mark.parametrize("length", [10_000_001, 2**31 - 1])
def test_a_length_beyond_every_model_is_refused(length: int) -> None:
    with pytest.raises(UsageError, match="line 1"):
        read_trace([b'{"timestamp":0,"input_length":%d}' % length], "jsonl", unit="s")
    lines = [b"TIMESTAMP,ContextTokens,GeneratedTokens\n"]
    lines.append(b"2023-11-16 18:15:46,%d,1\n" % length)
    with pytest.raises(UsageError, match="line 2"):
        read_trace(lines, "auto")
