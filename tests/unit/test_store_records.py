"""Shards become one file; what a crash took is told, and the rest is kept."""

from __future__ import annotations

import errno
import hashlib
import os
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from loadgen.errors import RunDirError
from loadgen.model import NO_RECORD, Attribution, Outcome, RequestRecord
from loadgen.store import RunDir, lost_record
from loadgen.store.lines import MAX_FLAWS
from tests.runs import QUEUE_FULL, answered, record, refused


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return RunDir.create(tmp_path, "x", datetime(2026, 11, 30, tzinfo=UTC))


def line(one: RequestRecord) -> bytes:
    return msgspec.json.encode(one) + b"\n"


def shard(
    run: RunDir, process: int, *records: RequestRecord, torn: bytes = b""
) -> None:
    run.shard_path(process).write_bytes(b"".join(map(line, records)) + torn)


def attribute(one: RequestRecord) -> Attribution:
    assert one.outcome is not Outcome.OK
    return QUEUE_FULL


def planned(seq: int) -> RequestRecord:
    return lost_record(seq, request_id=f"r-{seq}", scheduled_ns=seq, group="g")


def seqs(records: object) -> list[int]:
    return [one.seq for one in records]  # type: ignore[attr-defined]


def bare(seq: int) -> RequestRecord:
    return refused(seq, attribution=None)


def test_shards_are_merged_in_the_order_of_the_schedule(run: RunDir) -> None:
    shard(run, 0, answered(4, events_ms=[1]), bare(0), record(2))
    shard(run, 1, bare(3), record(1))
    merged = run.merge_records(attribute, 5)
    assert (merged.records, merged.lost, merged.flaws) == (5, 0, ())
    raw = run.requests_path.read_bytes()
    assert merged.digest == f"sha256:{hashlib.sha256(raw).hexdigest()}"
    assert seqs(run.records(offered=5)) == [0, 1, 2, 3, 4]
    assert run.shards() == []
    assert line(answered(4, events_ms=[1])) in raw


def test_attribution_is_filled_in_where_it_belongs(run: RunDir) -> None:
    shard(run, 0, bare(0), record(1))
    run.merge_records(attribute, 2)
    first, second = run.records(offered=2)
    assert first.attribution == QUEUE_FULL
    assert second.attribution is None


def test_shards_are_listed_by_number(run: RunDir) -> None:
    for process in (10, 2, 0):
        shard(run, process)
    names = [path.name for path in run.shards()]
    assert names == ["requests-0.jsonl", "requests-2.jsonl", "requests-10.jsonl"]


def test_a_torn_last_line_is_lost_and_told(run: RunDir) -> None:
    shard(run, 0, record(0), torn=line(record(1))[:40])
    merged = run.merge_records(attribute, 2)
    assert (merged.records, merged.lost) == (1, 1)
    assert merged.flaws == (
        "requests-0.jsonl: the last line (2) is torn and was left out",
    )


def test_a_whole_last_line_without_its_end_is_kept(run: RunDir) -> None:
    shard(run, 0, torn=line(record(0)).rstrip())
    shard(run, 1, record(1))
    assert run.merge_records(attribute, 2).lost == 0
    assert seqs(run.records(offered=2)) == [0, 1]


def test_damage_in_the_middle_is_no_torn_line(run: RunDir) -> None:
    raw = line(record(0)) + b"\x00\xff\n" + b'{"seq":1}\n' + line(record(2))
    run.shard_path(0).write_bytes(raw)
    merged = run.merge_records(attribute, 3)
    assert (merged.records, merged.lost) == (2, 1)
    assert [f.split(" (")[0] for f in merged.flaws] == [
        "requests-0.jsonl: line 2 is damaged and was left out",
        "requests-0.jsonl: line 3 is damaged and was left out",
    ]


def test_a_doubled_or_foreign_record_is_told(run: RunDir) -> None:
    shard(run, 0, record(0, group="first"), record(0, group="second"), record(9))
    merged = run.merge_records(attribute, 1)
    assert [one.group for one in run.records(offered=1)] == ["first"]
    assert merged.flaws == (
        "requests-0.jsonl: a second record of seq 0; left out",
        "requests-0.jsonl: seq 9 was never offered; left out",
    )


def test_a_ruined_file_does_not_make_endless_words(run: RunDir) -> None:
    run.shard_path(0).write_bytes(b"x\n" * 1000)
    merged = run.merge_records(attribute, 1)
    assert len(merged.flaws) == MAX_FLAWS + 1


def test_each_lost_request_gets_a_record_that_says_so(run: RunDir) -> None:
    shard(run, 0, record(0), record(2))
    merged = run.merge_records(attribute, 4, planned)
    assert (merged.records, merged.lost) == (2, 2)
    found = list(run.records(offered=4))
    assert seqs(found) == [0, 1, 2, 3]
    assert found[1].outcome is Outcome.INTERNAL
    assert found[1].detail == NO_RECORD
    assert found[1].attribution == QUEUE_FULL
    assert found[1].sent_ns is None


def test_a_killed_run_is_read_without_writing(run: RunDir) -> None:
    shard(run, 0, bare(2), record(0), torn=b'{"seq":')
    before = {path.name: path.read_bytes() for path in run.path.iterdir()}
    records = run.records(offered=3, attribute=attribute, planned=planned)
    found = list(records)
    assert run.is_unmerged
    assert seqs(found) == [0, 1, 2]
    assert [one.outcome for one in found] == ["ok", "internal", "http_reject"]
    assert found[2].attribution == QUEUE_FULL
    assert len(records.flaws) == 1
    assert {path.name: path.read_bytes() for path in run.path.iterdir()} == before
    assert seqs(run.records(offered=3)) == [0, 2]


def test_a_run_killed_before_any_record_has_none(run: RunDir) -> None:
    assert list(run.records(offered=2)) == []
    assert len(list(run.records(offered=2, planned=planned))) == 2
    assert run.merge_records(attribute, 2, planned).lost == 2


def test_a_later_version_attributes_anew(run: RunDir) -> None:
    shard(run, 0, bare(0))
    run.merge_records(lambda _: None, 1)
    assert [one.attribution for one in run.records(offered=1)] == [None]
    anew = run.records(offered=1, attribute=attribute)
    assert [one.attribution for one in anew] == [QUEUE_FULL]
    run.merge_records(attribute, 1)
    assert [one.attribution for one in run.records(offered=1)] == [QUEUE_FULL]


def test_shards_left_by_a_kill_during_the_merge_are_not_read_twice(run: RunDir) -> None:
    shard(run, 0, record(0))
    run.requests_path.write_bytes(line(record(0)))
    merged = run.merge_records(attribute, 1)
    assert (merged.records, merged.flaws) == (1, ())
    assert run.shards() == []


def test_a_full_disk_during_the_merge_keeps_the_shards(
    run: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    shard(run, 0, record(0))

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunDirError, match="No space left"):
        run.merge_records(attribute, 1)
    assert [path.name for path in run.path.iterdir()] == ["requests-0.jsonl"]
    assert seqs(run.records(offered=1)) == [0]


def test_a_merged_file_is_read_around_its_damage(run: RunDir) -> None:
    bad = line(record(1)).replace(b'"scheduled_ns":0', b'"scheduled_ns":"x"')
    run.requests_path.write_bytes(line(record(0)) + bad + line(record(2)))
    records = run.records(offered=3)
    assert seqs(records) == [0, 2]
    assert len(records.flaws) == 1
    assert "line 2 is damaged" in records.flaws[0]


def test_a_record_damaged_within_is_told_by_whoever_reads_it(run: RunDir) -> None:
    bad = line(bare(1)).replace(b'"scheduled_ns":0', b'"scheduled_ns":"x"')
    run.shard_path(0).write_bytes(line(record(0)) + bad)
    unmerged = run.records(offered=2, attribute=attribute)
    assert seqs(unmerged) == [0]
    assert "a record is damaged" in unmerged.flaws[0]
    run.merge_records(attribute, 2)
    merged = run.records(offered=2)
    assert seqs(merged) == [0]
    assert "line 2 is damaged" in merged.flaws[0]


def test_warm_up_records_are_apart(run: RunDir) -> None:
    assert list(run.warmup_records()) == []
    run.warmup_path.write_bytes(line(record(0)) + b"torn")
    records = run.warmup_records()
    assert seqs(records) == [0]
    assert len(records.flaws) == 1


def test_lines_nested_without_end_are_damage(run: RunDir) -> None:
    deep = b'{"seq":1,"outcome":"ok","more":' + b"[" * 50_000 + b"]" * 50_000 + b"}\n"
    run.shard_path(0).write_bytes(line(answered(0, events_ms=[1])) + deep)
    records = run.records(offered=2)
    assert seqs(records) == [0]
    assert "line 2 is damaged" in records.flaws[0]
    run.warmup_path.write_bytes(deep)
    assert list(run.warmup_records()) == []
    run.manifest_path.write_bytes(b'{"schema":' + b"[" * 50_000)
    with pytest.raises(RunDirError, match="damaged"):
        run.read_manifest()


def test_a_version_without_end_is_none(run: RunDir) -> None:
    run.manifest_path.write_text(f'{{"schema":"loadgen.manifest/{"9" * 5000}"}}')
    with pytest.raises(RunDirError, match="is not a loadgen"):
        run.read_manifest()
