"""Start a stand-in beside this process, and end it."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
from pathlib import Path
from typing import IO

import msgspec

from loadgen.errors import TargetError
from loadgen.standin.options import StandinOptions, to_argv

__all__ = ["Standin", "start"]


class _Ready(msgspec.Struct):
    """The line the child writes once it listens."""

    url: str
    pid: int
    model: str


class Standin:
    """A running stand-in. It ends by itself when this process does."""

    def __init__(self, process: asyncio.subprocess.Process, ready: _Ready) -> None:
        self._process = process
        self.url = ready.url
        self.pid = ready.pid
        self.model = ready.model

    @property
    def returncode(self) -> int | None:
        """None while it runs."""
        return self._process.returncode

    async def stop(self, grace_s: float = 5.0) -> int:
        """End it and wait; killed when it takes longer than ``grace_s``.

        Returns:
            Its exit code. Calling again does no harm.
        """
        return await _end(self._process, grace_s)


async def start(
    options: StandinOptions | None = None,
    *,
    log_path: Path | None = None,
    wait_s: float = 15.0,
) -> Standin:
    """Start a stand-in and wait until it listens.

    Args:
        options: what to serve; None is the default engine.
        log_path: where its log is appended; None keeps none.
        wait_s: how long it may take.

    Raises:
        TargetError: it ended or said nothing in time; its last words are quoted.
    """
    asked = msgspec.structs.replace(options or StandinOptions(), parent_stdin=True)
    with _log_file(log_path) as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-P", "-m", "loadgen.standin", *to_argv(asked)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            start_new_session=True,  # an interrupt at the terminal is the parent's
        )
        try:
            ready = await _read_ready(process, wait_s)
        except BaseException:
            await _end(process, 0.0)
            raise
        if ready is None:
            code = await _end(process, 0.5)
            log.seek(0)
            words = log.read().decode(errors="replace").strip().splitlines()
            cause = words[-1] if words else f"exit code {code}"
            raise TargetError(f"the stand-in engine did not start: {cause}")
    return Standin(process, ready)


def _log_file(path: Path | None) -> IO[bytes]:
    return tempfile.TemporaryFile() if path is None else path.open("a+b")


async def _read_ready(
    process: asyncio.subprocess.Process, wait_s: float
) -> _Ready | None:
    if process.stdout is None:
        return None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), wait_s)
        return msgspec.json.decode(line, type=_Ready)
    except (TimeoutError, msgspec.DecodeError):
        return None


async def _end(process: asyncio.subprocess.Process, grace_s: float) -> int:
    if process.stdin is not None:
        process.stdin.close()  # the child ends when its standard input does
    try:
        return await asyncio.wait_for(process.wait(), grace_s)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        return await process.wait()
