"""The main job through the command line, against servers on loopback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.recording_server import MODELS, Recording, recording_server

LOADGEN = [sys.executable, "-m", "loadgen.cli"]


def run(*arguments: str, cwd: Path, env: dict[str, str] | None = None) -> Any:
    return subprocess.run(
        [*LOADGEN, *arguments],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def only_run(cwd: Path) -> Path:
    (folder,) = (cwd / "results").iterdir()
    return folder


def records_of(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "requests.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.fixture
def server() -> Iterator[Recording]:
    with recording_server(Recording()) as recording:
        yield recording


def test_the_default_run_shows_refusals_and_adds_up(tmp_path: Path) -> None:
    """40 calls in 2 s on the stand-in: valid, all told apart, files written."""
    done = run("burst", "--rate", "20/s", "--duration", "2s", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["basis"] == "stand-in"
    assert "stand-in" in done.stderr
    assert summary["offered"]["requests"] == 40
    assert sum(summary["outcomes"].values()) == 40
    assert summary["verdict"]["status"] == "valid", summary["verdict"]
    refused = sum(cause["count"] for cause in summary["rejections"])
    assert refused == 40 - summary["outcomes"]["ok"]
    assert refused > 0
    assert {cause["layer"] for cause in summary["rejections"]} == {"engine_admission"}
    folder = only_run(tmp_path)
    names = {path.name for path in folder.iterdir()}
    assert {
        "manifest.json",
        "schedule.jsonl",
        "requests.jsonl",
        "summary.json",
    } <= names
    assert json.loads((folder / "summary.json").read_text()) == summary
    records = records_of(folder)
    assert [record["seq"] for record in records] == list(range(40))
    assert {record["prompt_tokens_source"] for record in records} == {
        "usage",
        "tokenize",
    }


def test_posts_seen_are_posts_scheduled_though_every_third_is_refused(
    tmp_path: Path, server: Recording
) -> None:
    """Never a retry: the server counts exactly the schedule."""
    server.refuse_every = 3
    done = run(
        *("burst", "--url", server.url, "--rate", "100/s", "--duration", "600ms"),
        "--json",
        cwd=tmp_path,
    )
    assert done.returncode in (0, 3), done.stderr
    summary = json.loads(done.stdout)
    assert len(server.bodies) == summary["offered"]["requests"] == 60
    assert summary["outcomes"] == {"ok": 40, "http_reject": 20}
    assert summary["client"]["retries"] == 0
    ids = [headers["x-request-id"] for headers in server.headers]
    assert len(set(ids)) == 60


def test_two_runs_of_one_schedule_send_identical_bytes(
    tmp_path: Path, server: Recording
) -> None:
    planned = run(
        *("plan", "--workload", "mixed", "--rate", "50/s", "--duration", "400ms"),
        *("--model", "m", "--seed", "9", "--out", "s.jsonl"),
        cwd=tmp_path,
    )
    assert planned.returncode == 0, planned.stderr
    lines = (tmp_path / "s.jsonl").read_bytes().splitlines()[1:-1]
    bodies = sorted(line.partition(b'"body":')[2][:-1] for line in lines)
    digests = set()
    for _ in range(2):
        server.bodies.clear()
        done = run("replay", "s.jsonl", "--url", server.url, "--json", cwd=tmp_path)
        assert done.returncode in (0, 3), done.stderr
        assert sorted(server.bodies) == bodies
        digests.add(json.loads(done.stdout)["offered"]["schedule_digest"])
    assert len(digests) == 1


def test_an_edited_schedule_is_refused(tmp_path: Path, server: Recording) -> None:
    run("plan", "--model", "m", "--out", "s.jsonl", cwd=tmp_path)
    data = (tmp_path / "s.jsonl").read_bytes()
    (tmp_path / "s.jsonl").write_bytes(
        data.replace(b'"max_tokens"', b'"max_tokenz"', 1)
    )
    done = run("replay", "s.jsonl", "--url", server.url, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert server.bodies == []
    assert not (tmp_path / "results").exists()


def test_secrets_reach_the_server_and_nothing_else(
    tmp_path: Path, server: Recording
) -> None:
    done = run(
        *("burst", "--url", server.url, "--rate", "20/s", "--duration", "200ms"),
        *("--api-key-env", "MY_KEY", "--header", "X-Tenant: s3cret-tenant"),
        cwd=tmp_path,
        env={"MY_KEY": "s3cret-key"},
    )
    assert server.headers[0]["authorization"] == "Bearer s3cret-key"
    assert server.headers[0]["x-tenant"] == "s3cret-tenant"
    assert "s3cret" not in done.stdout + done.stderr
    for path in only_run(tmp_path).iterdir():
        assert b"s3cret" not in path.read_bytes(), path.name


def start(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*LOADGEN, *arguments],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for_records(cwd: Path, count: int) -> Path:
    """The run's folder, once so many records are in it."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for shard in cwd.glob("results/*/requests-0.jsonl"):
            if shard.read_bytes().count(b"\n") >= count:
                return shard.parent
        time.sleep(0.02)
    raise AssertionError("no records came")


def test_one_interrupt_stops_offering_saves_and_exits_130(
    tmp_path: Path, server: Recording
) -> None:
    going = start(
        *("burst", "--url", server.url, "--rate", "20/s", "--duration", "30s"),
        "--json",
        cwd=tmp_path,
    )
    folder = wait_for_records(tmp_path, 5)
    going.send_signal(signal.SIGINT)
    out, _ = going.communicate(timeout=60)
    assert going.returncode == 130
    summary = json.loads(out)
    assert sum(summary["outcomes"].values()) == 600
    assert summary["outcomes"]["unsent"] == 600 - len(server.bodies)
    assert summary["verdict"]["status"] == "invalid"
    assert len(records_of(folder)) == 600


def test_a_killed_run_keeps_its_records_and_report_says_what_is_lost(
    tmp_path: Path, server: Recording
) -> None:
    going = start(
        *("burst", "--url", server.url, "--rate", "50/s", "--duration", "30s"),
        "--quiet",
        cwd=tmp_path,
    )
    folder = wait_for_records(tmp_path, 20)
    os.killpg(going.pid, signal.SIGKILL)
    going.communicate(timeout=60)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and not _is_still(folder):
        time.sleep(0.1)
    done = run("report", str(folder), "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert sum(summary["outcomes"].values()) == 1500
    assert summary["outcomes"]["ok"] >= 20
    assert summary["verdict"]["status"] == "invalid"
    assert len(server.bodies) < 200, "nothing is offered by an orphan"


def _is_still(folder: Path) -> bool:
    sizes = []
    for _ in range(2):
        sizes.append((folder / "requests-0.jsonl").stat().st_size)
        time.sleep(0.5)
    return sizes[0] == sizes[1]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((401, "application/json", b"{}"), "--api-key-env"),
        ((403, "text/plain", b"no"), "--api-key-env"),
        ((200, "text/html", b"<!doctype html><html>hi</html>"), "HTML"),
        (
            (503, "application/json", b'{"error":{"message":"Loading model"}}'),
            "Loading",
        ),
        ((404, "application/json", b"{}"), "--model"),
        ((200, "application/json", b"\xff\xfe junk"), "--model"),
        ((200, "application/json", MODELS.replace(b"[", b'[{"id":"x"},')), "m"),
    ],
    ids=["401", "403", "html", "loading", "404", "junk", "two-models"],
)
def test_a_server_that_is_not_ready_is_exit_4_before_anything_is_sent(
    answer: tuple[int, str, bytes], said: str, tmp_path: Path, server: Recording
) -> None:
    server.gets["/v1/models"] = answer
    done = run("burst", "--url", server.url, cwd=tmp_path)
    assert done.returncode == 4, done.stderr
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert server.bodies == []
    assert not (tmp_path / "results").exists()


def test_no_preflight_offers_all_the_same(tmp_path: Path, server: Recording) -> None:
    server.gets.clear()
    done = run(
        *("burst", "--url", server.url, "--no-preflight", "--model", "m", "--json"),
        *("--rate", "20/s", "--duration", "200ms"),
        cwd=tmp_path,
    )
    assert json.loads(done.stdout)["outcomes"] == {"ok": 4}


def test_warm_up_is_offered_and_never_counted(
    tmp_path: Path, server: Recording
) -> None:
    done = run(
        *("burst", "--url", server.url, "--warmup", "2", "--json"),
        *("--rate", "20/s", "--duration", "200ms"),
        cwd=tmp_path,
    )
    summary = json.loads(done.stdout)
    assert len(server.bodies) == 6
    assert summary["offered"]["requests"] == 4
    assert summary["warmup"] == {"requests": 2, "outcomes": {"ok": 2}}
    assert len(set(server.bodies)) == 6


def test_a_dry_run_sends_nothing(tmp_path: Path, server: Recording) -> None:
    done = run("burst", "--url", server.url, "--dry-run", cwd=tmp_path)
    assert done.returncode == 0
    assert "would offer 40 requests" in done.stdout
    assert server.bodies == []
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_stops_cleanly_and_keeps_what_is_there(
    tmp_path: Path, server: Recording
) -> None:
    """A file size limit of 64 KiB stands for a full disk."""
    limited = (
        "import resource,signal,sys;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE,(65536,65536));"
        "from loadgen.cli.__main__ import main; sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [
            *(sys.executable, "-c", limited, "burst", "--url", server.url),
            *("--rate", "100/s", "--duration", "1s"),
            *("--workload", "short-questions"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "could not be saved whole" in done.stderr
    assert "Traceback" not in done.stderr
    assert "not saved" in done.stdout
    (shard,) = tmp_path.glob("results/*/requests-0.jsonl")
    assert shard.read_bytes().endswith(b"}\n")
    again = run("report", str(shard.parent), "--json", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    summary = json.loads(again.stdout)
    outcomes, written = summary["outcomes"], shard.read_bytes().count(b"\n")
    assert outcomes["ok"] == written
    assert outcomes["unsent"] > 0
    assert sum(outcomes.values()) == summary["offered"]["requests"]
