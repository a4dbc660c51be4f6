"""Servers that know the truth: when each request was read, and each token written.

Our own (``truth_server.c``) obeys lines on its input. One that is given as a binary
takes ``PORT CORE TTFT_US ITL_US``, logs into ``$SSE_LOG_DIR/NAME.srv`` between
``GET /ctl/open/NAME`` and ``GET /ctl/close``. All instants are CLOCK_MONOTONIC.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

__all__ = ["Pace", "Served", "TruthServer", "favour", "given_server", "own_server"]


class Pace(NamedTuple):
    """What the server does unasked: µs to the first token, and between two."""

    core: int
    ttft_us: int = 20_000
    itl_us: int = 10_000


class Served(NamedTuple):
    """One request as the server saw it, ns of CLOCK_MONOTONIC."""

    request_id: str
    read_ns: int
    status: int
    token_ns: NDArray[np.int64]


class TruthServer(Protocol):
    """A running truth server."""

    @property
    def port(self) -> int: ...
    @property
    def certificate(self) -> Path | None:
        """PEM of the certificate it speaks TLS with; None: plain HTTP."""

    def open_log(self) -> None: ...
    def served(self) -> list[Served]:
        """End the log; what it holds, in the order of the requests' ends."""


def favour(pid: int) -> None:
    """Where the system lets us: what is measured comes before what else runs here."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, -10)
        Path(f"/proc/{pid}/autogroup").write_text("-10")


def _log(data: bytes, form: struct.Struct, order: tuple[int, ...]) -> list[Served]:
    """Cut a log apart: a head of that form, then so many 64-bit instants, and on."""
    found, at = [], 0
    read_at, status_at, count_at, id_at = order
    while at + form.size <= len(data):
        head = form.unpack_from(data, at)
        count, at = head[count_at], at + form.size
        tokens = np.frombuffer(data, "<i8", count, at).astype(np.int64)
        at += 8 * count
        name = head[id_at].split(b"\0")[0].decode("utf-8", "replace")
        found.append(Served(name, head[read_at], head[status_at], tokens))
    return found


@dataclass
class _Own:
    port: int
    certificate: Path | None
    process: subprocess.Popen[bytes]
    folder: Path
    _form = struct.Struct("=QII64s")

    def _order(self, line: str) -> bytes:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def open_log(self) -> None:
        self._order(f"log {self.folder / 'truth.log'}")

    def served(self) -> list[Served]:
        self._order("close")
        data = (self.folder / "truth.log").read_bytes()
        return _log(data, self._form, (0, 1, 2, 3))


@contextmanager
def own_server(
    binary: Path, folder: Path, pace: Pace, certificate: Path | None = None
) -> Iterator[TruthServer]:
    """Run our own on a free port, under TLS if a certificate with its key is given."""
    command = [str(binary), "--core", str(pace.core)]
    command += ["--ttft-us", str(pace.ttft_us), "--itl-us", str(pace.itl_us)]
    if certificate is not None:
        command += ["--tls", str(certificate), str(certificate)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    favour(process.pid)
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout:
        try:
            said = msgspec.json.decode(process.stdout.readline(), type=dict[str, int])
            yield _Own(said["port"], certificate, process, folder)
        finally:
            process.kill()
            process.wait()


@dataclass
class _Given:
    port: int
    folder: Path
    certificate: Path | None = None
    _form = struct.Struct("=QQQIIQ48s")

    def _ask(self, what: str) -> None:
        url = f"http://127.0.0.1:{self.port}/ctl/{what}"
        with urllib.request.urlopen(url, timeout=10) as reply:
            reply.read()

    def open_log(self) -> None:
        self._ask("open/truth")

    def served(self) -> list[Served]:
        self._ask("close")
        data = (self.folder / "truth.srv").read_bytes()
        return _log(data, self._form, (1, 4, 3, 6))


@contextmanager
def given_server(binary: Path, folder: Path, pace: Pace) -> Iterator[TruthServer]:
    """Run that binary on a free port."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [str(binary), str(port), *map(str, pace)],
        env={**os.environ, "SSE_LOG_DIR": str(folder)},
        start_new_session=True,
    )
    favour(process.pid)
    try:
        _wait_until_up(port)
        yield _Given(port, folder)
    finally:
        process.kill()
        process.wait()


def _wait_until_up(port: int) -> None:
    for _ in range(500):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.01)
        else:
            return
    raise TimeoutError("the truth server does not listen")
