"""Sweeps through the command line, on a fast stand-in and on a server of our own.

The machine that runs the tests may be too busy to keep a schedule; then runs are
left out, and that is what a sweep has to say. Nothing here depends on it.
"""

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

from loadgen.cli.__main__ import main
from tests.recording_server import Recording, recording_server

LOADGEN = [sys.executable, "-m", "loadgen.cli"]
SMALL = [
    *("--rates", "5/s,20/s", "--schedules", "2", "--duration", "1s"),
    *("--slo", "ttft=5s", "--warmup", "1"),
]
FAST = ["--standin", "--speed 20"]


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*LOADGEN, "sweep", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def only_sweep(cwd: Path) -> Path:
    (folder,) = (cwd / "results").iterdir()
    return folder


@pytest.fixture
def server() -> Iterator[Recording]:
    with recording_server(Recording()) as recording:
        yield recording


def agrees(code: int, summary: Any) -> bool:
    return code == (0 if summary["verdict"]["status"] == "valid" else 3)


def test_a_small_sweep_end_to_end(tmp_path: Path) -> None:
    """The summary alone on stdout, the same in the folder, a run folder each."""
    done = run(*SMALL, *FAST, "--overload", "--json", cwd=tmp_path)
    summary = json.loads(done.stdout)
    assert agrees(done.returncode, summary), done.stderr
    assert summary["schema"] == "loadgen.sweep/1"
    assert summary["basis"] == "stand-in"
    assert summary["progress"]["status"] == "complete"
    assert [point["offered_rps"] for point in summary["curve"]] == [5.0, 20.0]
    places = {(r["rate_rps"], r["schedule"]) for r in summary["runs"]}
    assert places == {(5.0, 0), (5.0, 1), (20.0, 0), (20.0, 1)}
    assert len({run["schedule_digest"] for run in summary["runs"]}) == 4
    settled = {run["settle"]["how"] for run in summary["runs"]}
    assert settled <= {"queue empty", "not empty"}
    for one in summary["runs"]:
        assert sum(one["all"]["outcomes"].values()) == one["all"]["offered"]
        parts = [group["offered"] for group in one["groups"].values()]
        assert sum(parts) == one["all"]["offered"]
    folder = only_sweep(tmp_path)
    assert json.loads((folder / "summary.json").read_text()) == summary
    for one in summary["runs"]:
        inner = folder / one["folder"]
        manifest = json.loads((inner / "manifest.json").read_text())
        assert manifest["schedule_digest"] == one["schedule_digest"]
        assert manifest["config"]["sweep"] == {"rate_rps": one["rate_rps"]}
        assert (inner / "summary.json").is_file()
    if summary["knee"]["flags"] == ["never_saturated", "few_schedules"]:
        assert summary["knee"]["rate_rps"] is None
        assert summary["knee"]["at_least_rps"] == 20.0
    assert "stand-in" in done.stderr
    assert "[4/" in done.stderr
    assert "precision to expect" in done.stderr


def here(*arguments: str, cwd: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """The same in this process, for what sends nothing."""
    monkeypatch.chdir(cwd)
    return main(["sweep", *arguments])


def test_a_dry_run_plans_and_sends_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    flags = ["--rates", "2/s..40/s", "--budget", "20m", "--dry-run"]
    assert here(*flags, cwd=tmp_path, monkeypatch=monkeypatch) == 0
    said = capsys.readouterr().out
    assert "9 rates" in said
    assert "nothing was sent" in said
    assert "min, drains and rests included" in said
    assert not (tmp_path / "results").exists()


def test_a_dry_run_of_an_experiment_plans_each_variant(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    flags = ["--variants", "short-against-long", "--dry-run"]
    assert here(*flags, cwd=tmp_path, monkeypatch=monkeypatch) == 0
    said = capsys.readouterr()
    assert said.out.count("5 rates") == 5
    assert "variant questions-alone" in said.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--rates", "fast"], "--rates"),
        (["--rates", "2/s,4/s", "--budget", "1s"], "too short"),
        (["--rates", "2/s,4/s", "--standin", "--no-such-flag"], "--standin"),
        (["--rates", "2/s,4/s", "--url", "http://h", "--standin", ""], "exclude"),
        (["--variants", "no-such-experiment"], "no experiment"),
        (["--resume", "nowhere"], "not a sweep's folder"),
        (["--rates", "2/s,4/s", "--arrivals", "ramp"], "ramp"),
        (["--rate", "2/s"], "rate"),
    ],
)
def test_a_mistake_is_one_line_and_exit_2(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    words: str,
) -> None:
    assert here(*arguments, cwd=tmp_path, monkeypatch=monkeypatch) == 2
    said = capsys.readouterr().err
    assert words in said
    assert not (tmp_path / "results").exists()


def test_an_unreachable_server_is_exit_4(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    flags = [*SMALL, "--url", "http://127.0.0.1:1"]
    assert here(*flags, cwd=tmp_path, monkeypatch=monkeypatch) == 4
    assert "cannot connect" in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def begin(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*LOADGEN, "sweep", *arguments],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(words: str, process: subprocess.Popen[str]) -> list[str]:
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if words in line:
            return lines
    raise AssertionError("".join(lines))


def test_an_interrupted_sweep_is_saved_and_goes_on(tmp_path: Path) -> None:
    process = begin(*SMALL, *FAST, "--json", cwd=tmp_path)
    wait_for("[1/", process)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    first = json.loads(stdout)
    assert first["progress"]["status"] == "interrupted"
    assert 1 <= first["progress"]["done_runs"] < 4
    assert any(r["code"] == "not_complete" for r in first["verdict"]["warnings"])
    folder = only_sweep(tmp_path)

    done = run("--resume", str(folder), "--json", cwd=tmp_path)
    second = json.loads(done.stdout)
    assert agrees(done.returncode, second), done.stderr
    assert second["progress"]["status"] == "complete"
    assert len(second["progress"]["resumed_utc"]) == 1
    assert any("taken up again" in words for words in second["findings"])
    kept = len(first["runs"])
    assert second["runs"][:kept] == first["runs"]
    assert len(second["runs"]) >= 4
    refused = run("--resume", str(folder), "--rates", "9/s", cwd=tmp_path)
    assert refused.returncode == 2
    assert "--rates 5/s,20/s" in refused.stderr


def test_a_killed_sweep_goes_on_from_its_journal(tmp_path: Path) -> None:
    flags = ["--rates", "5/s,10/s", "--schedules", "1", "--duration", "4s"]
    process = begin(*flags, *FAST, "--slo", "ttft=5s", "--warmup", "0", cwd=tmp_path)
    wait_for("[1/", process)
    folder = only_sweep(tmp_path)
    deadline_s = time.monotonic() + 30
    while len(list(folder.glob("*/manifest.json"))) < 2:
        assert time.monotonic() < deadline_s
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    left = json.loads((folder / "summary.json").read_text())
    assert left["progress"]["status"] == "unfinished"

    done = run("--resume", str(folder), "--json", cwd=tmp_path)
    summary = json.loads(done.stdout)
    assert agrees(done.returncode, summary), done.stderr
    assert summary["progress"]["status"] == "complete"
    assert len(summary["progress"]["abandoned"]) == 1
    assert any("killed" in words for words in summary["findings"])


def test_a_server_without_metrics_rests_a_fixed_time_and_says_why(
    tmp_path: Path, server: Recording
) -> None:
    done = run(
        *("--rates", "5/s,10/s", "--schedules", "1", "--duration", "1s", "--json"),
        *("--settle", "100ms", "--url", server.url, "--warmup", "0"),
        cwd=tmp_path,
    )
    summary = json.loads(done.stdout)
    assert agrees(done.returncode, summary), done.stderr
    assert summary["basis"] == "measured"
    for one in summary["runs"]:
        assert one["settle"]["how"] == "fixed time"
        assert one["settle"]["note"]


VARIANTS = f"""
description = "one launched, one alone, one broken"
[sweep]
rates = "10/s,20/s"
schedules = 2
duration = "1s"
slo = "ttft=5s"
[[variants]]
name = "launched"
launch = "{sys.executable} -m loadgen.standin --speed 20 --port {{port}}"
[[variants]]
name = "questions"
only = ["short-question"]
standin = "--speed 20"
[[variants]]
name = "broken"
launch = "/nowhere/engine --port {{port}} --api-key hush"
env = {{ TOKEN = "hush" }}
"""


def test_variants_side_by_side(tmp_path: Path) -> None:
    path = tmp_path / "v.toml"
    path.write_text(VARIANTS)
    done = run("--variants", str(path), "--warmup", "1", "--json", cwd=tmp_path)
    summary = json.loads(done.stdout)
    assert summary["schema"] == "loadgen.variants/1"
    launched, alone, broken = summary["variants"]
    assert done.returncode in (2, 3), done.stderr
    assert launched["sweep"]["progress"]["status"] == "complete"
    assert launched["ready_s"] > 0
    assert set(alone["sweep"]["curve"][0]["groups"]) <= {"short-question"}
    assert broken["sweep"] is None
    assert "cannot start /nowhere/engine" in broken["trouble"]
    folder = only_sweep(tmp_path)
    assert "ended" in (folder / "launched-server.log").read_text()
    held = b"".join(p.read_bytes() for p in folder.rglob("*") if p.is_file())
    assert b"hush" not in held
    for one in summary["interference"]:
        assert (one["group"], one["mixed"]) == ("short-question", "launched")

    again = run("--resume", str(folder), "--quiet", cwd=tmp_path)
    assert again.returncode == 2
    assert "Knee by variant" in again.stdout
    assert not [p for p in folder.iterdir() if p.name.endswith("-2")]
