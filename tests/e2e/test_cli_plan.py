"""`loadgen plan` and the dry run: what would be offered, sealed and told."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from loadgen.cli.__main__ import main


def planned(folder: Path, *arguments: str) -> list[bytes]:
    out = folder / "s.jsonl"
    assert main(["plan", "--model", "m", "--out", str(out), *arguments]) == 0
    return out.read_bytes().splitlines(keepends=True)


def test_the_seal_is_the_digest_of_every_byte_before_it(tmp_path: Path) -> None:
    lines = planned(tmp_path)
    digest = hashlib.sha256(b"".join(lines[:-1])).hexdigest()
    assert json.loads(lines[-1])["seal"] == f"sha256:{digest}"


def test_a_shared_prefix_comes_on_top_of_the_prompts(tmp_path: Path) -> None:
    """--shared-prefix makes every prompt begin alike, and longer by as much."""
    plain = [json.loads(line) for line in planned(tmp_path)[1:-1]]
    shared = [
        json.loads(line) for line in planned(tmp_path, "--shared-prefix", "300")[1:-1]
    ]
    grown = [
        b["prompt_tokens"] - a["prompt_tokens"]
        for a, b in zip(plain, shared, strict=True)
    ]
    assert set(grown) == {300}
    texts = [entry["body"]["messages"][0]["content"] for entry in shared]
    by_group: dict[str, set[str]] = {}
    for entry, text in zip(shared, texts, strict=True):
        by_group.setdefault(entry["group"], set()).add(text[:900])
    assert all(len(starts) == 1 for starts in by_group.values())
    assert len(set(texts)) == len(texts)


def test_equal_groups_are_equal_and_a_mix_is_kept(tmp_path: Path) -> None:
    lines = planned(
        tmp_path, "--workload", "mixed", "--equal", "--arrivals", "constant"
    )
    groups = [json.loads(line)["group"] for line in lines[1:-1]]
    counts = {name: groups.count(name) for name in set(groups)}
    assert max(counts.values()) - min(counts.values()) <= 1
    lines = planned(tmp_path, "--mix", "long-document=1")
    assert {json.loads(line)["group"] for line in lines[1:-1]} == {"long-document"}


def test_prompts_that_repeat_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prompts = tmp_path / "own.jsonl"
    prompts.write_text('{"prompt": "What is a lake?", "max_tokens": 8}\n')
    planned(
        tmp_path,
        *("--workload", str(prompts), "--rate", "10/s", "--duration", "1s"),
        *("--arrivals", "constant"),
    )
    said = capsys.readouterr().out
    assert "10 requests from 1 prompts: they repeat" in said


def test_a_trace_brings_its_own_times(tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    trace.write_text(
        '{"timestamp": 5, "input_length": 40, "output_length": 7}\n'
        '{"timestamp": 6.5, "input_length": 60, "output_length": 9}\n'
    )
    lines = planned(
        tmp_path,
        *("--workload", str(trace), "--arrivals", "trace", "--time-unit", "s"),
        *("--time-scale", "2"),
    )
    entries = [json.loads(line) for line in lines[1:-1]]
    assert [entry["at_ns"] for entry in entries] == [0, 3_000_000_000]
    assert [entry["max_tokens"] for entry in entries] == [7, 9]
