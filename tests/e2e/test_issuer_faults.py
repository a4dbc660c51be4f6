"""Faults of our own: one record each, no garbage, and the run goes on.

The issuer runs in this process, so that faults can be planted and garbage counted.
"""

from __future__ import annotations

import gc
import os
import time
from pathlib import Path

import pytest

from loadgen.issue.attempt import Attempt
from loadgen.issue.control import LineReader
from loadgen.issue.issuer import Issuer
from loadgen.issue.stats import IssueStats
from loadgen.model import Ending, Outcome
from loadgen.units import NS_PER_MS
from loadgen.wire.connection import Connection
from loadgen.wire.http import RequestHead, Response
from loadgen.wire.reading import Facts, Reading
from tests.e2e.issuer_rig import (
    Peer,
    Request,
    Server,
    answer,
    configure,
    read_records,
    serving,
    write_schedule,
)


def issue_here(folder: Path, server: Server, at_ns: list[int]) -> IssueStats:
    write_schedule(folder / "schedule.jsonl", at_ns)
    read_end, write_end = os.pipe()
    other_read, other_write = os.pipe()
    issuer = Issuer(configure(folder, server.address))
    try:
        return issuer.run(
            time.monotonic_ns(), LineReader(read_end), LineReader(other_read)
        )
    finally:
        issuer.close()
        for fd in (read_end, write_end, other_read, other_write):
            os.close(fd)


@pytest.mark.parametrize("where", ["body", "close", "request"])
def test_a_fault_of_ours_is_one_record_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    owner: type = RequestHead if where == "request" else Reading
    real, calls = getattr(owner, where), []

    def faulty(self: object, *args: object) -> object:
        calls.append(1)
        if args[0] == "t-1" if where == "request" else len(calls) == 2:
            raise RuntimeError("planted")
        return real(self, *args)

    monkeypatch.setattr(owner, where, faulty)
    with serving(answer) as server:
        stats = issue_here(tmp_path, server, [i * 50 * NS_PER_MS for i in range(4)])
    records = read_records(tmp_path / "requests-0.jsonl")
    assert [record.seq for record in records] == [0, 1, 2, 3]
    outcomes = [record.outcome for record in records]
    assert outcomes.count(Outcome.INTERNAL) == 1
    assert outcomes.count(Outcome.OK) == 3
    (bad,) = [record for record in records if record.outcome is Outcome.INTERNAL]
    assert "RuntimeError: planted" in (bad.detail or "")
    assert "planted" in stats.internal[0]
    assert stats.outcomes == {"internal": 1, "ok": 3}


def test_ended_requests_leave_no_garbage_behind(tmp_path: Path) -> None:
    """The collector is off during a run: nothing may need it."""
    alternate = iter(range(10_000))

    def various(peer: Peer, request: Request) -> None:
        kind = next(alternate) % 4
        if kind == 0:
            peer.reset()
        elif kind == 1:
            peer.send(b"not HTTP at all\r\n\r\n")
        else:
            answer(peer, request)

    with serving(various) as server:
        gc.collect()
        issue_here(tmp_path, server, [i * NS_PER_MS for i in range(120)])
        garbage = [
            type(found).__name__
            for found in gc.get_objects()
            if type(found) in (Attempt, Connection, Reading, Response)
        ]
    assert not garbage


def test_a_collection_during_the_run_is_noticed_with_its_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The collector is off; whoever wakes it by hand is found out."""
    real = Reading.close

    def collecting(self: Reading, ending: Ending, at_ns: int) -> Facts:
        gc.collect()
        return real(self, ending, at_ns)

    with serving(answer) as server:
        calm = issue_here(tmp_path, server, [0, NS_PER_MS])
        (tmp_path / "requests-0.jsonl").unlink()
        monkeypatch.setattr(Reading, "close", collecting)
        woken = issue_here(tmp_path, server, [0, NS_PER_MS])
    assert (calm.gc_collections, calm.gc_pause_max_ns) == (0, 0)
    assert woken.gc_collections == 2
    assert woken.gc_pause_max_ns > 0
