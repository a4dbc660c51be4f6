"""How the issuing process is stopped, and what is left however it ends."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from loadgen.errors import UsageError
from loadgen.issue.launch import Issuing, IssuingError, start
from loadgen.issue.progress import ProgressReader, create
from loadgen.issue.stats import IssueStats
from loadgen.model import Outcome, RequestRecord, TokenSource
from loadgen.units import NS_PER_MS, NS_PER_S
from tests.e2e.issuer_rig import (
    STREAM_HEAD,
    WAIT_S,
    Peer,
    Request,
    Server,
    answer,
    configure,
    offer,
    read_records,
    serving,
    token,
    write_schedule,
)

EVERY_50_MS = [i * 50 * NS_PER_MS for i in range(200)]


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(int(WAIT_S / 0.005)):
        if condition():
            return
        await asyncio.sleep(0.005)
    pytest.fail("it never happens")


def open_until_set(over: threading.Event) -> Callable[[Peer, Request], None]:
    """Streams that end well, but only once told."""

    def talk(peer: Peer, request: Request) -> None:
        peer.send(STREAM_HEAD, token("a"))
        over.wait(WAIT_S)
        peer.send(token("b", "stop"), b"0\r\n\r\n")

    return talk


def check_drained(told_records: list[RequestRecord], stats: IssueStats) -> None:
    """What was begun ended well, the rest is unsent, nothing is missing."""
    outcomes = [record.outcome for record in told_records]
    assert [record.seq for record in told_records] == list(range(200))
    assert 3 <= stats.offered < 200
    assert outcomes == [Outcome.OK] * stats.offered + [Outcome.UNSENT] * (
        200 - stats.offered
    )
    assert stats.stop is not None
    assert sum(stats.outcomes.values()) == stats.ended == stats.scheduled == 200


@pytest.mark.parametrize("by", ["line", "SIGINT", "SIGTERM"])
def test_the_first_stop_drains(tmp_path: Path, by: str) -> None:
    over = threading.Event()
    with serving(open_until_set(over)) as server:

        async def steer(issuing: Issuing) -> None:
            await until(lambda: len(server.requests) >= 3)
            if by == "line":
                issuing.drain()
            else:
                os.kill(issuing.pid, getattr(signal, by))
            await asyncio.sleep(0.15)  # arrivals that would have come
            over.set()

        told = offer(tmp_path, server.address, EVERY_50_MS, steer=steer)
    check_drained(told.records, told.stats)
    assert len(server.requests) == told.stats.offered
    assert told.stats.stop == "interrupted"


@pytest.mark.parametrize("by", ["line", "SIGINT"])
def test_the_second_stop_saves_at_once(tmp_path: Path, by: str) -> None:
    over = threading.Event()
    with serving(open_until_set(over)) as server:

        async def steer(issuing: Issuing) -> None:
            await until(lambda: len(server.requests) >= 3)
            if by == "line":
                issuing.drain()
                issuing.cut()
            else:
                os.kill(issuing.pid, signal.SIGINT)
                await asyncio.sleep(0.05)
                os.kill(issuing.pid, signal.SIGINT)

        told = offer(tmp_path, server.address, EVERY_50_MS, steer=steer)
        over.set()
    begun = told.records[: told.stats.offered]
    assert {record.outcome for record in begun} == {Outcome.CANCELLED}
    assert all(len(record.token_ns) == 1 for record in begun)
    assert len(told.records) == 200


def test_the_drain_limit_is_kept(tmp_path: Path) -> None:
    over = threading.Event()
    with serving(open_until_set(over)) as server:
        told = offer(tmp_path, server.address, [0, 1], drain_ns=200 * NS_PER_MS)
        over.set()
    assert [record.outcome for record in told.records] == [Outcome.CANCELLED] * 2
    assert told.stats.stop is None


def test_a_parent_that_dies_leaves_a_worker_that_saves(tmp_path: Path) -> None:
    """End of input: offer no more, drain, write everything."""
    over = threading.Event()
    write_schedule(tmp_path / "schedule.jsonl", EVERY_50_MS)
    with serving(open_until_set(over)) as server:
        config = configure(tmp_path, server.address)
        worker = subprocess.Popen(
            [sys.executable, "-m", "loadgen.issue"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write(msgspec.json.encode(config) + b"\n")
        worker.stdin.flush()
        assert json.loads(worker.stdout.readline())["ready"]
        worker.stdin.write(b'{"t0_ns":%d}\n' % time.monotonic_ns())
        worker.stdin.flush()
        asyncio.run(until(lambda: len(server.requests) >= 3))
        worker.stdin.close()
        over.set()
        stats = msgspec.json.decode(worker.stdout.read(), type=IssueStats)
        worker.stdout.close()
        assert worker.wait(WAIT_S) == 0
    check_drained(read_records(tmp_path / "requests-0.jsonl"), stats)
    assert stats.stop == "the parent process is gone"


def test_stopped_before_t0_everything_is_unsent(tmp_path: Path) -> None:
    write_schedule(tmp_path / "schedule.jsonl", EVERY_50_MS)

    async def run(server: Server) -> IssueStats:
        issuing = await start(configure(tmp_path, server.address))
        await issuing.ready()
        issuing.drain()
        stats = await issuing.wait()
        await issuing.end()
        return stats

    with serving(answer) as server:
        stats = asyncio.run(run(server))
    assert stats.outcomes == {"unsent": 200}
    records = read_records(tmp_path / "requests-0.jsonl")
    assert {record.detail for record in records} == {"stopped before t0"}


def test_a_killed_worker_leaves_whole_lines_and_its_counts(tmp_path: Path) -> None:
    """kill -9 loses what is in flight and nothing that had ended."""
    create(tmp_path / "progress")
    with serving(answer) as server:

        async def steer(issuing: Issuing) -> None:
            records = tmp_path / "requests-0.jsonl"
            await until(lambda: records.read_bytes().count(b"\n") >= 5)
            os.kill(issuing.pid, signal.SIGKILL)

        told = offer(
            tmp_path,
            server.address,
            EVERY_50_MS,
            steer=steer,
            progress_path=str(tmp_path / "progress"),
        )
    assert told.stats.died is not None
    assert "SIGKILL" in told.stats.died
    assert told.stats.ended == len(told.records) >= 5
    assert told.stats.outcomes == {"ok": len(told.records)}
    assert told.stats.scheduled == 200
    assert told.stats.stripe == (0, 1)


def test_a_killed_worker_without_a_block_is_an_error(tmp_path: Path) -> None:
    async def steer(issuing: Issuing) -> None:
        os.kill(issuing.pid, signal.SIGKILL)

    with serving(answer) as server, pytest.raises(IssuingError, match="SIGKILL"):
        offer(tmp_path, server.address, EVERY_50_MS, steer=steer)


def test_a_full_disk_stops_the_offering_and_says_so(tmp_path: Path) -> None:
    with serving(answer) as server:
        told = offer(tmp_path, server.address, EVERY_50_MS, records_path="/dev/full")
    assert told.stats.stop == "disk full: No space left on device"
    assert told.stats.offered < 200
    assert told.stats.records_lost == 200
    assert told.stats.outcomes["ok"] == told.stats.offered


def test_a_file_that_may_not_grow_keeps_its_whole_lines(tmp_path: Path) -> None:
    with serving(answer) as server:

        async def steer(issuing: Issuing) -> None:
            resource.prlimit(issuing.pid, resource.RLIMIT_FSIZE, (5_000, 5_000))

        told = offer(tmp_path, server.address, EVERY_50_MS, steer=steer)
    written = (tmp_path / "requests-0.jsonl").stat().st_size
    assert 3_000 < written <= 5_000
    assert told.stats.stop == "disk full: File too large"
    assert len(told.records) + told.stats.records_lost == 200
    assert told.records[0].outcome is Outcome.OK


def test_counters_follow_the_run_and_agree_with_the_records(tmp_path: Path) -> None:
    block = tmp_path / "progress"
    create(block)
    reader = ProgressReader(block)
    with serving(answer) as server:
        told = offer(
            tmp_path,
            server.address,
            [i * NS_PER_MS for i in range(20)],
            progress_path=str(block),
        )
    left = reader.read()
    reader.close()
    ttfts = [
        record.first_token_ns - record.scheduled_ns
        for record in told.records
        if record.first_token_ns is not None
    ]
    assert left["scheduled"] == left["due"] == left["sent"] == left["ended"] == 20
    assert left["outcome_ok"] == 20
    assert left["in_flight"] == 0
    assert left["draining"] == 1
    assert left["tokens"] == told.stats.tokens == 60
    assert (left["ttft_count"], left["ttft_sum_ns"]) == (20, sum(ttfts))
    assert left["send_lag_max_ns"] == told.stats.send_lag.max_ns
    assert left["t0_ns"] == told.stats.t0_ns
    assert left["bytes_received"] == sum(r.bytes_received for r in told.records)


def test_stripes_share_a_schedule_without_talking(tmp_path: Path) -> None:
    at_ns = [i * 5 * NS_PER_MS for i in range(21)]
    seen: list[int] = []
    with serving(answer) as server:
        for part in range(2):
            records_path = str(tmp_path / f"requests-{part}.jsonl")
            told = offer(
                tmp_path,
                server.address,
                at_ns,
                stripe=(part, 2),
                records_path=records_path,
            )
            assert all(record.seq % 2 == part for record in told.records)
            assert all(r.scheduled_ns == at_ns[r.seq] for r in told.records)
            seen += [record.seq for record in told.records]
    assert sorted(seen) == list(range(21))
    assert len({request.request_id for request in server.requests}) == 21


def test_prompt_lengths_counted_before_t0_are_used_where_usage_is_missing(
    tmp_path: Path,
) -> None:
    counts = tmp_path / "counts"
    counts.write_bytes(b"".join(n.to_bytes(4, "little", signed=True) for n in (41, -1)))
    with serving(answer) as server:
        told = offer(
            tmp_path,
            server.address,
            [0, 1],
            prompt_tokens={"path": str(counts), "source": "tokenize"},
        )
    lengths = [(r.prompt_tokens, r.prompt_tokens_source) for r in told.records]
    assert lengths == [(41, TokenSource.TOKENIZE), (7, TokenSource.ESTIMATE)]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"schedule_path": "/nowhere"}, "cannot read the schedule /nowhere"),
        ({"records_path": "/nowhere/r"}, "/nowhere/r"),
        ({"api": "unheard-of"}, "unheard-of"),
        ({"tls": {"ca_file": "/nowhere.pem"}}, "/nowhere.pem"),
        ({"headers": [("a", "b\nc")]}, "'a'"),
    ],
)
def test_what_cannot_begin_says_why(
    tmp_path: Path, settings: dict[str, Any], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        offer(tmp_path, ("127.0.0.1", 9), **settings)


def test_an_edited_schedule_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "schedule.jsonl"
    write_schedule(path, [0, 1])
    path.write_bytes(path.read_bytes().replace(b"hello", b"jello", 1))

    async def run() -> None:
        issuing = await start(configure(tmp_path, ("127.0.0.1", 9)))
        try:
            await issuing.ready()
        finally:
            await issuing.end()

    with pytest.raises(UsageError, match="changed"):
        asyncio.run(run())


def test_ready_says_what_it_has_loaded(tmp_path: Path) -> None:
    write_schedule(tmp_path / "schedule.jsonl", [0, NS_PER_S])

    async def run() -> None:
        issuing = await start(configure(tmp_path, ("127.0.0.1", 9)))
        ready = await issuing.ready()
        await issuing.end()
        assert ready.requests == 2
        assert ready.schedule_digest.startswith("sha256:")
        assert ready.descriptors > 0

    asyncio.run(run())
