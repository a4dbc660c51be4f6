"""The run's folder: made, found again, and honest about what is in it."""

from __future__ import annotations

import errno
import hashlib
import os
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import msgspec
import pytest

from loadgen.analysis.summary import Summary
from loadgen.errors import RunDirError
from loadgen.store import RunDir
from loadgen.store.files import atomic_file, clean_name
from tests.runs import answered, judged, manifest

STARTED = datetime(2026, 11, 30, 10, 15, 0, tzinfo=UTC)


def make(out: Path, name: str = "burst") -> RunDir:
    run = RunDir.create(out, name, STARTED)
    run.write_manifest(manifest(2))
    return run


def test_the_folder_is_named_by_time_and_name(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path / "results", "a burst", STARTED)
    assert run.path == tmp_path / "results" / "20261130T101500Z-a-burst"
    assert run.path.is_dir()


def test_the_time_is_utc_wherever_it_was_taken(tmp_path: Path) -> None:
    there = STARTED.astimezone(timezone(timedelta(hours=9)))
    assert RunDir.create(tmp_path, "x", there).path.name == "20261130T101500Z-x"


def test_two_runs_of_one_second_do_not_collide(tmp_path: Path) -> None:
    names = [RunDir.create(tmp_path, "x", STARTED).path.name for _ in range(3)]
    base = "20261130T101500Z-x"
    assert names == [base, f"{base}-2", f"{base}-3"]


@pytest.mark.parametrize(
    ("name", "cleaned"),
    [
        ("../../etc/passwd", "etc-passwd"),
        ("a b/c\\d", "a-b-c-d"),
        ("..", "run"),
        ("", "run"),
        ("né\x00\n", "n"),
        ("-rf", "rf"),
        ("x" * 500, "x" * 80),
        ("v0.33_ok", "v0.33_ok"),
    ],
)
def test_names_are_made_safe(name: str, cleaned: str) -> None:
    assert clean_name(name) == cleaned


def test_a_folder_that_cannot_be_made_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(RunDirError) as error:
        RunDir.create(tmp_path / "taken", "x", STARTED)
    assert "\n" not in str(error.value)
    assert str(tmp_path / "taken") in str(error.value)


def test_what_is_no_run_is_said(tmp_path: Path) -> None:
    run = make(tmp_path)
    with pytest.raises(RunDirError, match="does not exist"):
        RunDir.open(tmp_path / "nowhere")
    with pytest.raises(RunDirError, match="is a file"):
        RunDir.open(run.manifest_path)
    with pytest.raises(RunDirError, match=r"holds 1 runs.*20261130T101500Z-burst"):
        RunDir.open(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunDirError, match=r"no manifest\.json"):
        RunDir.open(tmp_path / "empty")
    assert RunDir.open(run.path) == run


def test_a_manifest_survives_its_file(tmp_path: Path) -> None:
    run = make(tmp_path)
    assert run.read_manifest() == manifest(2)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("loadgen.manifest/2", "newer loadgen"),
        ("loadgen.manifest/0", "older loadgen"),
        ("loadgen.sweep/1", "not a loadgen.manifest file"),
        ("loadgen.manifest/x", "not a loadgen.manifest file"),
        (None, "not a loadgen.manifest file"),
    ],
)
def test_another_versions_file_is_refused_in_clear_words(
    tmp_path: Path, schema: str | None, words: str
) -> None:
    run = make(tmp_path)
    run.write_json(run.manifest_path, {"schema": schema, "whatever": 1})
    with pytest.raises(RunDirError, match=words):
        run.read_manifest()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema":1}', "\xff"])
def test_a_damaged_manifest_is_said(tmp_path: Path, text: str) -> None:
    run = make(tmp_path)
    run.manifest_path.write_text(text, "latin-1")
    with pytest.raises(RunDirError, match="is damaged"):
        run.read_manifest()


def test_a_summary_is_read_back_or_is_none(tmp_path: Path) -> None:
    run = make(tmp_path)
    assert run.read_summary(Summary) is None
    summary = judged([answered(events_ms=[1])])
    run.write_summary(summary)
    assert run.read_summary(Summary) == summary


def test_a_full_disk_leaves_the_old_file_and_no_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make(tmp_path)

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunDirError, match=r"No space left.*free some space"):
        run.write_manifest(manifest(99))
    assert run.read_manifest() == manifest(2)
    assert [p.name for p in run.path.iterdir()] == ["manifest.json"]


def sealed_run(out: Path) -> RunDir:
    """A run with a schedule, records and a summary that names their digests."""
    run = make(out)
    lines = b'{"schema":"loadgen.schedule/1"}\n{"at_ns":0,"body":{}}\n'
    digest = f"sha256:{hashlib.sha256(lines).hexdigest()}"
    run.schedule_path.write_bytes(lines + msgspec.json.encode({"seal": digest}) + b"\n")
    run.write_manifest(msgspec.structs.replace(manifest(1), schedule_digest=digest))
    raw = msgspec.json.encode(answered(events_ms=[1])) + b"\n"
    run.requests_path.write_bytes(raw)
    files = {"requests.jsonl": f"sha256:{hashlib.sha256(raw).hexdigest()}"}
    run.write_summary(judged([answered(events_ms=[1])], files=files))
    return run


def test_an_untouched_run_has_no_edits(tmp_path: Path) -> None:
    assert sealed_run(tmp_path).edits() == []


def test_an_edited_file_is_told(tmp_path: Path) -> None:
    run = sealed_run(tmp_path)
    raw = run.requests_path.read_bytes()
    run.requests_path.write_bytes(raw.replace(b'"status":200', b'"status":503'))
    assert run.edits() == ["requests.jsonl was changed after it was judged"]
    run.requests_path.unlink()
    assert run.edits() == ["requests.jsonl is missing"]


def test_an_edited_schedule_is_told(tmp_path: Path) -> None:
    run = sealed_run(tmp_path)
    raw = run.schedule_path.read_bytes()
    run.schedule_path.write_bytes(raw.replace(b'"at_ns":0', b'"at_ns":1'))
    assert run.edits() == ["schedule.jsonl is not the schedule that was offered"]
    run.schedule_path.write_bytes(b"")
    assert run.edits() == ["schedule.jsonl is not the schedule that was offered"]


def test_a_summary_cannot_point_out_of_its_folder(tmp_path: Path) -> None:
    run = sealed_run(tmp_path)
    outside = {"../secret": "sha256:00"}
    run.write_summary(judged([answered(events_ms=[1])], files=outside))
    assert run.edits() == ["../secret is missing"]


def test_a_pipe_or_device_is_written_to_and_never_put_aside(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR)
    try:
        with atomic_file(pipe) as out:
            out.write(b"{}\n")
        assert os.read(reader, 100) == b"{}\n"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]
