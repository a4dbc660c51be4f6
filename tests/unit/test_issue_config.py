"""The worker's one line of configuration, and the counters it shares."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from loadgen.errors import UsageError
from loadgen.issue.config import IssueConfig, decode_config, encode_config
from loadgen.issue.progress import NAMES, SLOT, SLOTS, ProgressReader, ProgressWriter
from loadgen.issue.progress import create as create_block

CONFIG = IssueConfig(
    schedule_path="s",
    records_path="r",
    api="openai-chat",
    address=("127.0.0.1", 80),
    family=2,
    host_header="h",
    path="/p",
    request_id_prefix="x-",
)


def test_a_config_survives_its_line() -> None:
    line = encode_config(CONFIG)
    assert line.count(b"\n") == 1
    assert decode_config(line) == CONFIG


@pytest.mark.parametrize(
    "change",
    [
        {"stripe": (2, 2)},
        {"stripe": (-1, 2)},
        {"stamps": "guessed"},
        {"request_id_prefix": "é"},
    ],
)
def test_values_that_cannot_be_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        decode_config(encode_config(msgspec.structs.replace(CONFIG, **change)))


@pytest.mark.parametrize("line", [b"", b"{}", b"[]", b"\xff", b'{"what":1}'])
def test_nonsense_is_refused(line: bytes) -> None:
    with pytest.raises(UsageError):
        decode_config(line)


def test_counters_written_are_counters_read(tmp_path: Path) -> None:
    block = tmp_path / "progress"
    create_block(block)
    writer, reader = ProgressWriter(str(block)), ProgressReader(block)
    writer.slots[SLOT["sent"]] += 3
    writer.slots[SLOT["send_lag_last_ns"]] = -4
    found = reader.read()
    assert set(found) == set(NAMES)
    assert found["sent"] == 3
    assert found["send_lag_last_ns"] == -4
    assert sum(map(bool, found.values())) == 2
    reader.close()
    writer.close()
    assert block.stat().st_size == SLOTS * 8
    assert len(NAMES) <= SLOTS


def test_a_block_somebody_cut_reads_as_nothing(tmp_path: Path) -> None:
    block = tmp_path / "progress"
    create_block(block)
    assert block.stat().st_blocks > 0  # no hole that a full disk could not fill
    reader = ProgressReader(block)
    os.truncate(block, 0)
    assert set(reader.read().values()) == {0}
    reader.close()
