"""One schedule shared by several issuing processes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from loadgen.control.offer import Offered, Snapshot
from loadgen.control.offer import offer as offer_all
from loadgen.issue.progress import NAMES
from loadgen.units import NS_PER_MS
from tests.e2e.issuer_rig import (
    WAIT_S,
    answer,
    configure,
    read_records,
    serving,
    write_schedule,
)
from tests.recording_server import Recording, recording_server

LOADGEN = [sys.executable, "-m", "loadgen.cli"]


@pytest.fixture
def server() -> Iterator[Recording]:
    with recording_server(Recording()) as recording:
        yield recording


def start(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*LOADGEN, *arguments, "--json"],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def summary_of(going: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = going.communicate(timeout=120)
    assert going.returncode in (0, 3), err
    summary: dict[str, Any] = json.loads(out)
    return summary


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it never happens"
        time.sleep(0.01)


def issuing_processes(parent: int) -> list[int]:
    """The issuing processes that a loadgen has started."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [
        int(child)
        for child in children
        if b"loadgen.issue" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]


def records_in(cwd: Path) -> int:
    shards = cwd.glob("results/*/requests-*.jsonl")
    return sum(shard.read_bytes().count(b"\n") for shard in shards)


def merged(folder: Path) -> list[dict[str, Any]]:
    (path,) = folder.glob("results/*/requests.jsonl")
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_three_processes_send_what_one_sends(tmp_path: Path, server: Recording) -> None:
    """The same bodies under the same ids, and records that differ in times alone."""
    plan = ("plan", "--workload", "mixed", "--rate", "100/s", "--duration", "600ms")
    shape = ("--arrivals", "constant", "--model", "m", "--out", "s.jsonl")
    subprocess.run([*LOADGEN, *plan, *shape], cwd=tmp_path, check=True, timeout=60)
    seen = []
    for processes in ("1", "3"):
        server.bodies.clear()
        server.headers.clear()
        cwd = tmp_path / processes
        cwd.mkdir()
        replay = ("replay", "../s.jsonl", "--url", server.url)
        summary = summary_of(start(*replay, "--processes", processes, cwd=cwd))
        assert summary["outcomes"] == {"ok": 60}
        assert summary["client"]["processes"] == int(processes)
        records = merged(cwd)
        assert [record["seq"] for record in records] == list(range(60))
        ids = [header["x-request-id"] for header in server.headers]
        posted = {
            request_id.rpartition("-")[2]: body
            for request_id, body in zip(ids, server.bodies, strict=True)
        }
        kept = ("seq", "group", "scheduled_ns", "max_tokens", "outcome", "token_exact")
        seen.append((posted, [[record[name] for name in kept] for record in records]))
        names = {path.name for path in next(cwd.glob("results/*")).iterdir()}
        assert not any(name.startswith(("requests-", "progress-")) for name in names)
    assert len(seen[0][0]) == 60
    assert seen[0] == seen[1]


def test_counters_are_summed_and_t0_is_one(tmp_path: Path) -> None:
    at_ns = [i * 5 * NS_PER_MS for i in range(61)]
    write_schedule(tmp_path / "schedule.jsonl", at_ns)
    ticks: list[Snapshot] = []

    async def run(address: tuple[str, int]) -> Offered:
        configs = [
            configure(
                tmp_path,
                address,
                stripe=(process, 3),
                records_path=str(tmp_path / f"requests-{process}.jsonl"),
                progress_path=str(tmp_path / f"progress-{process}.bin"),
            )
            for process in range(3)
        ]
        return await asyncio.wait_for(offer_all(configs, ticks.append), WAIT_S)

    with serving(answer) as server:
        offered = asyncio.run(run(server.address))
    assert set(ticks[-1]) == set(NAMES)
    assert ticks[-1]["scheduled"] == ticks[-1]["ended"] == 61
    assert ticks[-1]["tokens"] == 3 * 61
    assert {stats.t0_ns for stats in offered.stats} == {ticks[-1]["t0_ns"]}
    assert [stats.scheduled for stats in offered.stats] == [21, 20, 20]
    shards = [read_records(tmp_path / f"requests-{i}.jsonl") for i in range(3)]
    for process, shard in enumerate(shards):
        assert [record.seq for record in shard] == list(range(61))[process::3]


def test_a_killed_process_loses_only_its_own_and_is_named(
    tmp_path: Path, server: Recording
) -> None:
    """Its records stay, what it had under way is lost, the rest was never offered."""
    going = start(
        *("burst", "--url", server.url, "--rate", "100/s", "--duration", "3s"),
        *(
            "--processes",
            "3",
            "--workload",
            "short-questions",
            "--arrivals",
            "constant",
        ),
        cwd=tmp_path,
    )
    wait_until(lambda: records_in(tmp_path) >= 40)
    os.kill(issuing_processes(going.pid)[1], signal.SIGKILL)
    summary = summary_of(going)
    assert going.returncode == 3
    assert summary["verdict"]["status"] == "invalid"
    (reason,) = [
        reason["text"]
        for reason in summary["verdict"]["reasons"]
        if reason["code"] == "not_fully_issued"
    ]
    named = re.search(r"issuing process (\d) of 3 died \(SIGKILL\)", reason)
    assert named is not None, reason
    killed = int(named[1]) - 1
    records = merged(tmp_path)
    assert [record["seq"] for record in records] == list(range(300))
    its = [record["outcome"] for record in records[killed::3]]
    others = [record["outcome"] for record in records if record["seq"] % 3 != killed]
    assert set(others) == {"ok"}
    unsent = its.count("unsent")
    assert 0 < unsent < 100
    assert set(its[-unsent:]) == {"unsent"}
    assert its.count("ok") >= 10
    assert its.count("internal") == 100 - unsent - its.count("ok") <= 20
    posted = {headers["x-request-id"] for headers in server.headers}
    lost = {r["request_id"] for r in records if r["outcome"] == "unsent"}
    assert not posted & lost, "what the server has seen is not called unsent"


def test_more_processes_than_requests(tmp_path: Path, server: Recording) -> None:
    going = start(
        *("burst", "--url", server.url, "--rate", "10/s", "--duration", "200ms"),
        *("--processes", "4"),
        cwd=tmp_path,
    )
    assert summary_of(going)["outcomes"] == {"ok": 2}


def test_a_client_that_is_held_up_says_that_its_numbers_do_not_count(
    tmp_path: Path, server: Recording
) -> None:
    """Stopped for 300 ms it sends 30 of 200 requests late: invalid, with a remedy."""
    going = start(
        *("burst", "--url", server.url, "--rate", "100/s", "--duration", "2s"),
        *("--workload", "short-questions", "--arrivals", "constant"),
        cwd=tmp_path,
    )
    wait_until(lambda: records_in(tmp_path) >= 20)
    (issuer,) = issuing_processes(going.pid)
    os.kill(issuer, signal.SIGSTOP)
    time.sleep(0.3)
    os.kill(issuer, signal.SIGCONT)
    summary = summary_of(going)
    assert going.returncode == 3
    verdict = summary["verdict"]
    assert verdict["status"] == "invalid"
    (reason,) = [r for r in verdict["reasons"] if r["code"] == "send_lag"]
    assert "--processes" in reason["remedy"]
    assert summary["client"]["client_lag_s"]["p99"] > 0.05
    assert summary["outcomes"] == {"ok": 200}, "late is late, not left out"
