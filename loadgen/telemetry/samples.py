"""One moment's observations: the lines of ``telemetry.jsonl``.

``at_ns`` is ns since the run's t0 on CLOCK_MONOTONIC, negative before it. What a
source did not tell is null, never 0.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Literal

import msgspec

from loadgen.telemetry.exposition import Point

__all__ = ["Sample", "SampleLog", "ServerSample", "Watched"]


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """What was watched in a run: kept in the manifest for a later judgement.

    Attributes:
        metrics: addresses of metrics, by number.
        metrics_note: why there are none; empty where there are.
        series: further series that were asked for.
        gpu: ``on``, or why no GPU was looked at.
    """

    metrics: list[str] = []
    metrics_note: str = "off"
    series: list[str] = []
    gpu: str = "off"


class ServerSample(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="source",
    tag="server",
    omit_defaults=True,
):
    """One scrape.

    Attributes:
        at_ns: when it was asked for; the values are of then or ``took_ns`` later.
        url: which of the run's metrics addresses, by number.
        phase: ``before`` t0 and after the warm-up, in the ``run``, or ``after``
            the drain.
        status: ``ok``, or why there is nothing.
        points: rows of the series the vocabulary knows.
        names: base names of all series; in ``before`` and ``after`` only.
        flaws: lines that could not be read.
    """

    at_ns: int
    took_ns: int
    url: int = 0
    phase: Literal["before", "run", "after"] = "run"
    status: str = "ok"
    points: list[Point] = []
    names: list[str] = []
    flaws: list[str] = []


Sample = ServerSample


class SampleLog:
    """Samples as they come, from any thread, into one file.

    Before t0 is known they are held back. A disk that is full ends the writing,
    and nothing else.

    Args:
        path: the file; made with the first line.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._held: list[Sample] = []
        self._t0_ns: int | None = None
        self._file: int | None = None
        self.trouble: str | None = None

    def begin(self, t0_ns: int) -> None:
        """Tell when t0 is, on CLOCK_MONOTONIC."""
        with self._lock:
            self._t0_ns = t0_ns
            for sample in self._held:
                self._write(sample)
            self._held.clear()

    def add(self, sample: Sample) -> None:
        """Keep a sample whose ``at_ns`` is CLOCK_MONOTONIC's own."""
        with self._lock:
            if self._t0_ns is None:
                self._held.append(sample)
            else:
                self._write(sample)

    def _write(self, sample: Sample) -> None:
        assert self._t0_ns is not None
        if self.trouble is not None:
            return
        at_ns = sample.at_ns - self._t0_ns
        line = msgspec.json.encode(msgspec.structs.replace(sample, at_ns=at_ns))
        try:
            if self._file is None:
                flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
                self._file = os.open(self._path, flags, 0o644)
            os.write(self._file, line + b"\n")
        except OSError as error:
            self.trouble = error.strerror or str(error)

    def close(self) -> None:
        """Nothing is written any more; later samples are dropped."""
        with self._lock:
            self.trouble = self.trouble or "closed"
            if self._file is not None:
                os.close(self._file)
                self._file = None
