"""A small shared block of counters: the issuer writes, the parent looks.

Native 64-bit integers in a memory-mapped file (both sides are on one host). The
reader may see counters a moment apart from each other; each by itself is whole.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path

from loadgen.model import Outcome

__all__ = [
    "NAMES",
    "SLOT",
    "SLOTS",
    "ProgressReader",
    "ProgressWriter",
    "create",
    "read_once",
]

SLOTS = 64
_BYTES = SLOTS * 8

NAMES = (
    "t0_ns",  # CLOCK_MONOTONIC; 0 until offering begins
    "scheduled",  # requests in this process's share
    "due",  # of these, taken up so far
    "sent",
    "in_flight",
    "ended",
    "bytes_received",
    "tokens",
    "send_lag_last_ns",
    "send_lag_sum_ns",
    "send_lag_max_ns",
    "loop_lag_max_ns",
    "ttft_count",
    "ttft_sum_ns",
    "ttft_last_ns",
    "draining",  # 1 once nothing more is offered
    *(f"outcome_{outcome}" for outcome in Outcome),
)
"""The slots in order; the rest of the block is zero."""

SLOT = {name: slot for slot, name in enumerate(NAMES)}


def create(path: Path) -> None:
    """Make the block, all zero."""
    # No hole: a full disk could not fill it later, which kills who writes there.
    path.write_bytes(bytes(_BYTES))


class ProgressWriter:
    """The issuer's side: ``slots[i] += 1``.

    Args:
        path: the block as ``create`` made it; None: count into private memory.
    """

    def __init__(self, path: str | None) -> None:
        if path is None:
            self._map = mmap.mmap(-1, _BYTES)
        else:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                self._map = mmap.mmap(descriptor, _BYTES)
            finally:
                os.close(descriptor)
        self.slots = memoryview(self._map).cast("q")

    def close(self) -> None:
        self.slots.release()
        self._map.close()


def read_once(path: Path) -> dict[str, int]:
    """The counters a process has left."""
    reader = ProgressReader(path)
    try:
        return reader.read()
    finally:
        reader.close()


class ProgressReader:
    """The parent's side."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        try:
            self._map = mmap.mmap(self._file.fileno(), _BYTES, access=mmap.ACCESS_READ)
        except BaseException:
            self._file.close()
            raise
        self._slots = memoryview(self._map).cast("q")

    def read(self) -> dict[str, int]:
        """All counters by name, as they stand; zero if somebody cut the file."""
        if os.fstat(self._file.fileno()).st_size < _BYTES:  # to look would kill us
            return dict.fromkeys(NAMES, 0)
        return dict(zip(NAMES, self._slots.tolist(), strict=False))

    def close(self) -> None:
        self._slots.release()
        self._map.close()
        self._file.close()
