"""A launched server ends with us, however we end, and with all its children."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from loadgen.control.launch import Launch, launched
from loadgen.errors import TargetError, UsageError
from loadgen.units import NS_PER_S

PYTHON = sys.executable
STANDIN = [PYTHON, "-m", "loadgen.standin", "--port", "{port}"]

STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(
    [sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True
)
print(os.getpid(), child.pid, flush=True)
time.sleep(600)
"""
"""Deaf to SIGTERM, with a child that has left the process group."""


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pid: int, within_s: float = 15.0) -> bool:
    deadline_s = time.monotonic() + within_s
    while alive(pid) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    return not alive(pid)


def test_a_server_is_healthy_before_it_is_handed_out_and_gone_after(
    tmp_path: Path,
) -> None:
    async def use() -> str:
        async with launched(Launch(command=STANDIN), tmp_path / "log") as url:
            return url

    url = asyncio.run(use())
    log = (tmp_path / "log").read_text()
    assert url in log
    pid = int(log.split('"pid": ')[1].split(",")[0])
    assert gone(pid)


@pytest.mark.parametrize(
    ("command", "error", "words"),
    [
        (["/nowhere/vllm"], UsageError, "cannot start /nowhere/vllm"),
        (
            [PYTHON, "-c", "print('no GPU'); raise SystemExit(3)"],
            TargetError,
            "ended with 3: no GPU",
        ),
        ([PYTHON, "-c", "import time; time.sleep(600)"], TargetError, "not healthy"),
    ],
)
def test_a_server_that_does_not_come_up_is_told_in_its_own_words(
    tmp_path: Path, command: list[str], error: type[Exception], words: str
) -> None:
    async def use() -> None:
        launch = Launch(command=command, limit_ns=3 * NS_PER_S)
        async with launched(launch, tmp_path / "log"):
            raise AssertionError("it cannot be healthy")

    with pytest.raises(error, match=words):
        asyncio.run(use())


def guardian(grace_s: str, *command: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [PYTHON, "-m", "loadgen.control.guardian", grace_s, "--", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


@pytest.mark.parametrize("how", ["its input ends", "it is asked to end"])
def test_the_deaf_and_the_runaway_are_killed(how: str) -> None:
    process = guardian("0.3", PYTHON, "-c", STUBBORN)
    assert process.stdin is not None
    assert process.stdout is not None
    server, runaway = map(int, process.stdout.readline().split())
    assert alive(server)
    assert alive(runaway)
    if how == "its input ends":
        process.stdin.close()
    else:
        process.send_signal(signal.SIGTERM)
    code = process.wait(timeout=30)
    process.stdout.close()
    process.stdin.close()
    assert code == 128 + signal.SIGKILL
    assert gone(server)
    assert gone(runaway)


def test_a_parent_killed_for_good_takes_the_server_along() -> None:
    parent = subprocess.Popen(
        [
            *(PYTHON, "-c"),
            "import subprocess, sys, time\n"
            "subprocess.Popen([sys.executable, '-m', 'loadgen.control.guardian', '0.3',"
            " '--', *sys.argv[1:]], stdin=subprocess.PIPE)\n"
            "time.sleep(600)",
            *(PYTHON, "-c", STUBBORN),
        ],
        stdout=subprocess.PIPE,
    )
    assert parent.stdout is not None
    server, runaway = map(int, parent.stdout.readline().split())
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait(timeout=10)
    parent.stdout.close()
    assert gone(server)
    assert gone(runaway)


def test_a_command_that_ends_by_itself_gives_its_code() -> None:
    process = guardian("1", PYTHON, "-c", "raise SystemExit(7)")
    assert process.wait(timeout=30) == 7
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    process.stdout.close()
