"""However the records were spread and wherever the kill came: none is lost unsaid."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.model import Outcome
from loadgen.store import RunDir, lost_record
from tests.runs import QUEUE_FULL, answered, refused

SIZE = 6


@settings(deadline=None)
@given(
    ended=st.permutations(range(SIZE)),
    owner=st.lists(st.integers(0, 2), min_size=SIZE, max_size=SIZE),
    ok=st.lists(st.booleans(), min_size=SIZE, max_size=SIZE),
    cut=st.integers(0, 5000),
)
def test_found_and_lost_sum_to_the_offered(
    ended: list[int], owner: list[int], ok: list[bool], cut: int
) -> None:
    shards: dict[int, bytes] = {0: b"", 1: b"", 2: b""}
    for seq in ended:
        one = answered(seq, events_ms=[1]) if ok[seq] else refused(seq)
        shards[owner[seq]] += msgspec.json.encode(one) + b"\n"
    whole = shards[0]
    shards[0] = whole[:cut]
    kept = shards[0].count(b"\n") + (
        1 if 0 < cut < len(whole) and whole[cut : cut + 1] == b"\n" else 0
    )
    with tempfile.TemporaryDirectory() as folder:
        run = RunDir.create(Path(folder), "x", datetime(2026, 11, 30, tzinfo=UTC))
        for process, raw in shards.items():
            run.shard_path(process).write_bytes(raw)
        merged = run.merge_records(
            lambda _: QUEUE_FULL,
            SIZE,
            lambda seq: lost_record(seq, request_id="", scheduled_ns=0, group="g"),
        )
        found = list(run.records(offered=SIZE))
    assert [one.seq for one in found] == list(range(SIZE))
    assert merged.records + merged.lost == SIZE
    assert merged.lost == owner.count(0) - kept
    for one in found:
        expected = Outcome.OK if ok[one.seq] else Outcome.HTTP_REJECT
        assert one.outcome in (expected, Outcome.INTERNAL)
        assert (one.attribution is None) == (one.outcome is Outcome.OK)
