"""What is around a run may be odd: its streams, its folder, its terminal."""

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

from tests.recording_server import Recording, recording_server

LOADGEN = [sys.executable, "-P", "-m", "loadgen.cli"]
SHORT = ("--rate", "20/s", "--duration", "200ms")


@pytest.fixture
def server() -> Iterator[Recording]:
    with recording_server(Recording()) as recording:
        yield recording


def start(*arguments: str, cwd: Path, **more: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*LOADGEN, *arguments], cwd=cwd, **more)


def shell(line: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = ["bash", "-c", line, "bash", *LOADGEN]
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )


def summary_of(cwd: Path) -> Any:
    (path,) = cwd.glob("results/*/summary.json")
    return json.loads(path.read_text())


def test_a_module_of_the_users_folder_is_none_of_ours(
    tmp_path: Path, server: Recording
) -> None:
    for name in ("attr", "json", "selectors", "html"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('shadowed')\n")
    done = start("burst", "--url", server.url, *SHORT, "-q", cwd=tmp_path)
    assert done.wait(60) in (0, 3)
    assert summary_of(tmp_path)["outcomes"] == {"ok": 4}


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_closed_streams_change_nothing(
    tmp_path: Path, server: Recording, closed: str
) -> None:
    done = shell(f'"$@" burst --url {server.url} {" ".join(SHORT)} {closed}', tmp_path)
    assert done.returncode in (0, 3), done.stderr
    assert "Traceback" not in done.stderr
    assert summary_of(tmp_path)["outcomes"] == {"ok": 4}


def test_a_reader_that_leaves_in_the_middle_stops_no_run(
    tmp_path: Path, server: Recording
) -> None:
    """Progress comes every 2 s: it finds nobody."""
    line = f'"$@" burst --url {server.url} --rate 5/s --duration 3s 2>&1 | true'
    done = shell(f"set -o pipefail; {line}", tmp_path)
    assert done.returncode in (0, 3)
    assert summary_of(tmp_path)["outcomes"] == {"ok": 15}


def test_a_result_with_no_room_is_told(tmp_path: Path) -> None:
    done = shell('"$@" explain >/dev/full', tmp_path)
    assert done.returncode == 2
    assert done.stderr == "loadgen: error: No space left on device\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_an_end_from_outside_is_an_interrupt(
    tmp_path: Path, server: Recording, number: signal.Signals
) -> None:
    going = start(
        *("burst", "--url", server.url, "--rate", "20/s", "--duration", "30s", "-q"),
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
    )
    wait_for(lambda: len(server.bodies) > 3)
    going.send_signal(number)
    assert going.wait(60) == 130
    outcomes = summary_of(tmp_path)["outcomes"]
    assert sum(outcomes.values()) == 600
    assert outcomes["unsent"] > 0


def test_an_interrupt_during_the_warm_up_offers_nothing(
    tmp_path: Path, server: Recording
) -> None:
    going = start(
        *("burst", "--url", server.url, *SHORT, "--warmup", "40", "-q"),
        cwd=tmp_path,
        stderr=subprocess.DEVNULL,
    )
    wait_for(lambda: len(server.bodies) > 1)
    going.send_signal(signal.SIGINT)
    assert going.wait(60) == 130
    assert not list(tmp_path.glob("results/*/requests*.jsonl"))


def test_one_who_keeps_interrupting_gets_what_is_there(
    tmp_path: Path, server: Recording
) -> None:
    """However often and whenever it is interrupted before it is saved."""
    going = start(
        *("burst", "--url", server.url, "--rate", "20/s", "--duration", "30s", "-q"),
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    wait_for(lambda: len(server.bodies) > 3)
    while going.poll() is None and not list(tmp_path.glob("results/*/summary.json")):
        going.send_signal(signal.SIGINT)
        time.sleep(0.005)
    assert going.wait(60) == 130
    _, complaint = going.communicate()
    assert b"Traceback" not in complaint
    assert sum(summary_of(tmp_path)["outcomes"].values()) == 600


def test_a_third_interrupt_ends_a_process_that_does_not_answer(
    tmp_path: Path, server: Recording
) -> None:
    going = start(
        *("burst", "--url", server.url, "--rate", "20/s", "--duration", "30s", "-q"),
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
    )
    wait_for(lambda: len(server.bodies) > 3)
    (issuing,) = children_of(going.pid)
    os.kill(issuing, signal.SIGSTOP)
    for _ in range(3):
        going.send_signal(signal.SIGINT)
        time.sleep(0.3)
    assert going.wait(60) == 130
    assert sum(summary_of(tmp_path)["outcomes"].values()) == 600


def children_of(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii")
    return [int(child) for child in text.split()]


def wait_for(holds: Any) -> None:
    deadline_s = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)
