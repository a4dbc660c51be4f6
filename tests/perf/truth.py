"""A ground-truth server: it logs when it read each request and wrote each token.

The binary takes ``PORT CORE TTFT_US ITL_US``, writes ``$SSE_LOG_DIR/NAME.srv``
between ``GET /ctl/open/NAME`` and ``GET /ctl/close``, all on CLOCK_MONOTONIC.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_RECORD = struct.Struct("QQQIIQ48s")


class Served(NamedTuple):
    """One request as the server saw it, ns of CLOCK_MONOTONIC."""

    read_ns: int
    status: int
    token_ns: NDArray[np.int64]


@dataclass
class TruthServer:
    """A running truth server."""

    port: int
    folder: Path

    def control(self, what: str) -> None:
        url = f"http://127.0.0.1:{self.port}/ctl/{what}"
        with urllib.request.urlopen(url, timeout=10) as reply:
            reply.read()

    @contextmanager
    def log(self, name: str) -> Iterator[None]:
        """Log what is served meanwhile."""
        self.control(f"open/{name}")
        yield
        self.control("close")

    def served(self, name: str) -> dict[str, Served]:
        """That log, by request id."""
        data, at = (self.folder / f"{name}.srv").read_bytes(), 0
        found = {}
        while at + _RECORD.size <= len(data):
            _, read_ns, _, count, status, _, raw_id = _RECORD.unpack_from(data, at)
            at += _RECORD.size
            tokens = np.frombuffer(data, "<i8", count, at).astype(np.int64)
            at += 8 * count
            found[raw_id.split(b"\0")[0].decode()] = Served(read_ns, status, tokens)
        return found


@contextmanager
def truth_server(
    binary: Path, folder: Path, *, core: int, ttft_us: int, itl_us: int
) -> Iterator[TruthServer]:
    """Run the binary on a free port, pinned to that core."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [str(binary), str(port), str(core), str(ttft_us), str(itl_us)],
        env={**os.environ, "SSE_LOG_DIR": str(folder)},
    )
    try:
        _wait_until_up(port)
        yield TruthServer(port, folder)
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
