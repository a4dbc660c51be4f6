"""A judgement is made of what is there, whatever can be written."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from loadgen.analysis.attribution import Attributor
from loadgen.analysis.goodput import parse_slo
from loadgen.analysis.signatures import load_signatures
from loadgen.control.judging import Judge
from loadgen.errors import RunDirError
from loadgen.store import RunDir
from tests.report_runs import SLO, stored
from tests.runs import SOUND

JUDGE = Judge(attribute=Attributor(load_signatures(None, name="")), slo=parse_slo(SLO))


def unfinished(tmp_path: Path) -> RunDir:
    return stored(tmp_path, finish=False)


@pytest.mark.parametrize(
    "name", ["client.json", "requests.jsonl", "summary.json", "manifest.json"]
)
def test_a_file_that_cannot_be_written_costs_no_judgement(
    tmp_path: Path, name: str
) -> None:
    run = unfinished(tmp_path)
    manifest = run.read_manifest()
    path = run.path / name
    path.unlink(missing_ok=True)
    path.mkdir()
    if name == "requests.jsonl":  # that one is read, too
        with pytest.raises(RunDirError):
            JUDGE.finish(run, manifest, SOUND)
        return
    summary = JUDGE.finish(run, manifest, SOUND)
    assert sum(summary.outcomes.values()) == manifest.offered_requests
    assert "not saved" in str(summary.verdict) + str(summary.findings)


def test_a_folder_that_is_gone_is_said(tmp_path: Path) -> None:
    run = unfinished(tmp_path)
    manifest = run.read_manifest()
    shutil.rmtree(run.path)
    with pytest.raises(RunDirError, match="No such file"):
        JUDGE.finish(run, manifest, SOUND)


def test_counters_that_were_cut_are_none(tmp_path: Path) -> None:
    run = unfinished(tmp_path)
    run.progress_path(0).write_bytes(b"cut")
    os.truncate(run.shard_path(0), 10)
    summary = JUDGE.again(run)
    assert sum(summary.outcomes.values()) == summary.offered.requests


@pytest.mark.parametrize(
    "wrong",
    [
        {"config": {"slo": 5}},
        {"config": {"asked": [1]}},
        {"config": {"watched": {"gpu": 5}}},
        {"config": {"processes": 0}},
        {"config": {"request_id_prefix": []}},
        {"offered_requests": 10**15},
        {"offered_requests": -1},
    ],
)
def test_a_manifest_that_was_edited_is_refused(
    tmp_path: Path, wrong: dict[str, Any]
) -> None:
    run = unfinished(tmp_path)
    manifest = run.read_manifest()
    run.write_manifest(msgspec.structs.replace(manifest, **wrong))
    with pytest.raises(RunDirError, match="damaged"):
        JUDGE.again(run)
