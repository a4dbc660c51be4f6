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

__all__ = [
    "ClientSample",
    "DeviceAbout",
    "GpuAbout",
    "GpuEnd",
    "GpuEvent",
    "GpuSample",
    "Sample",
    "SampleLog",
    "ServerSample",
    "Watched",
]


class Watched(msgspec.Struct, kw_only=True):
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


class DeviceAbout(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU, or one slice of a GPU in MIG mode.

    Attributes:
        index: NVML's own, of the whole GPU; None where it was found by its UUID.
        logical: CUDA's index under ``CUDA_VISIBLE_DEVICES``; None: not limited.
        uuid: for certain which one it is.
        name: as the driver words it.
        mig: whether the GPU is cut into slices; None: it cannot be.
        slice_of: of a slice, the UUID of its GPU.
        memory_version: 2, where reserved memory is told apart; 1, where ``used``
            holds it; None: the driver tells of no memory.
        refused: fields that are never told, and why.
    """

    index: int | None
    logical: int | None = None
    uuid: str | None
    name: str | None
    mig: bool | None = None
    slice_of: str | None = None
    memory_version: int | None = None
    refused: dict[str, str] = {}


class GpuAbout(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="source", tag="gpu-about"
):
    """What NVML is here, said once.

    ``status`` is ``ok`` or why there is nothing to see; ``notes`` are one line
    each. ``binding`` is the version and file of the Python module.
    """

    at_ns: int
    status: str
    driver: str | None = None
    library: str | None = None
    binding: str | None = None
    devices: list[DeviceAbout] = []
    notes: list[str] = []


class GpuSample(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="source",
    tag="gpu",
    omit_defaults=True,
):
    """One device at one moment; ``device`` numbers the list of ``GpuAbout``.

    ``used_bytes`` holds what the driver reserves where the memory version is 1.
    ``processes`` is memory by process id; None: not asked, or not visible.
    ``ecc`` are uncorrected errors since the driver was loaded. ``lost``: the
    device is gone, and this is the last of it.
    """

    at_ns: int
    took_ns: int
    device: int
    used_bytes: int | None = None
    free_bytes: int | None = None
    total_bytes: int | None = None
    reserved_bytes: int | None = None
    utilization_pct: int | None = None
    power_w: float | None = None
    sm_mhz: int | None = None
    temperature_c: int | None = None
    throttle: list[str] | None = None
    processes: dict[int, int] | None = None
    ecc: int | None = None
    lost: bool = False


class GpuEvent(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="source", tag="gpu-event"
):
    """A critical error of the driver: its Xid number."""

    at_ns: int
    xid: int


class GpuEnd(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="source", tag="gpu-end"
):
    """How the looking went: rounds made, grid instants skipped, the longest round.

    ``hung``: a call had not come back when the run ended.
    """

    at_ns: int
    rounds: int
    skipped: int
    longest_ns: int
    hung: bool


class ClientSample(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="source", tag="client"
):
    """The issuing processes from outside, and their own counters.

    ``cpu_s``, the switches and ``steal_s`` count up since the process or the
    machine began; ``steal_s`` and ``machine_s`` are of all processors together.
    ``send_lag_sum_ns`` is over all requests sent, ``send_lag_max_ns`` and
    ``loop_lag_max_ns`` are the worst since t0.
    """

    at_ns: int
    processes: int
    cpu_s: float | None
    rss_bytes: int | None
    fds: int | None
    voluntary: int | None
    involuntary: int | None
    machine_s: float | None
    steal_s: float | None
    sent: int
    in_flight: int
    ended: int
    send_lag_last_ns: int
    send_lag_sum_ns: int
    send_lag_max_ns: int
    loop_lag_max_ns: int


Sample = ServerSample | GpuAbout | GpuSample | GpuEvent | GpuEnd | ClientSample


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
