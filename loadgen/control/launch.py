"""Launch a server for the time of a sweep: start, wait until healthy, end for certain.

The server is a child of a guardian (``control.guardian``), so that it ends with us
however we end.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from loadgen.errors import TargetError, UsageError
from loadgen.store.files import io_errors
from loadgen.units import NS_PER_S, format_duration

__all__ = ["DEFAULT_URL", "Launch", "free_port", "launched", "masked"]

DEFAULT_URL = "http://127.0.0.1:{port}"
GRACE_S = 20.0
STEP_S = 0.5
LOG_TAIL_BYTES = 4096
_SECRET = re.compile(r"(?i)(^|[-_])(api_?key|key|token|secret|password)$")
_HUSHED = "***"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How a server is started.

    Args:
        command: program and arguments; ``{port}`` in them is a free port.
        url: its root; ``{port}`` likewise.
        health: path that answers 200 once it is ready.
        limit_ns: how long that may take.
        env: added to the environment; its values are never written down.
    """

    command: Sequence[str]
    url: str = DEFAULT_URL
    health: str = "/health"
    limit_ns: int = 600 * NS_PER_S
    env: Mapping[str, str] = field(default_factory=dict)


def masked(command: Sequence[str]) -> list[str]:
    """The command with the values of keys and tokens blotted out."""
    kept, hush = [], False
    for word in command:
        flag, equals, _ = word.partition("=")
        if hush and not word.startswith("-"):
            kept.append(_HUSHED)
        elif equals and _SECRET.search(flag):
            kept.append(f"{flag}={_HUSHED}")
        else:
            kept.append(word)
        hush = word.startswith("-") and not equals and bool(_SECRET.search(word))
    return kept


def free_port() -> int:
    """A port of loopback that nobody listens on, at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@asynccontextmanager
async def launched(launch: Launch, log_path: Path) -> AsyncIterator[str]:
    """Start the server, wait until it is healthy, give its URL, end it.

    Args:
        launch: how.
        log_path: where what it says is appended.

    Raises:
        UsageError: the command cannot be run.
        TargetError: it ended, or was not healthy in time; its last words are quoted.
    """
    port = str(free_port())
    command = [word.replace("{port}", port) for word in launch.command]
    url = launch.url.replace("{port}", port)
    with io_errors("write", log_path), log_path.open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *(
                sys.executable,
                "-P",
                "-m",
                "loadgen.control.guardian",
                str(GRACE_S),
                "--",
            ),
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=log,
            stderr=log,
            env={**os.environ, **launch.env},
            start_new_session=True,  # an interrupt at the terminal is ours
        )
    try:
        await _healthy(process, launch, url, log_path)
        yield url
    finally:
        if process.stdin is not None:
            process.stdin.close()
        await process.wait()


async def _healthy(
    process: asyncio.subprocess.Process, launch: Launch, url: str, log_path: Path
) -> None:
    deadline_s = time.monotonic() + launch.limit_ns / NS_PER_S
    limit = aiohttp.ClientTimeout(total=5.0)
    async with aiohttp.ClientSession(timeout=limit, trust_env=False) as session:
        while time.monotonic() < deadline_s:
            if process.returncode is not None:
                if process.returncode == 127:
                    raise UsageError(f"cannot launch: {_last_words(log_path)}")
                raise TargetError(
                    f"the launched server ended with {process.returncode}: "
                    f"{_last_words(log_path)}",
                    f"see {log_path}",
                )
            if await _answers(session, url + launch.health):
                return
            await asyncio.sleep(STEP_S)
    raise TargetError(
        f"the launched server was not healthy within "
        f"{format_duration(launch.limit_ns)}: {_last_words(log_path)}",
        f"see {log_path}, or raise limit",
    )


async def _answers(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(url, allow_redirects=False) as response:
            return response.status == 200
    except (aiohttp.ClientError, OSError, TimeoutError):
        return False


def _last_words(log_path: Path) -> str:
    with io_errors("read", log_path), log_path.open("rb") as log:
        log.seek(max(0, log.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
        lines = log.read().decode(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else "it said nothing"
