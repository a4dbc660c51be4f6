"""The issuing processes from outside: what the kernel and their counters tell.

Nothing is asked of the processes themselves: they do nothing but offer and stamp.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from loadgen.telemetry.samples import ClientSample

__all__ = ["ClientReader"]

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class _Process(NamedTuple):
    cpu_s: float
    rss_bytes: int
    fds: int | None
    voluntary: int | None
    involuntary: int | None


class ClientReader:
    """Reads ``/proc``; where there is none, only the counters are told.

    Args:
        pids: the issuing processes.
        proc: where the kernel's files are.
    """

    def __init__(self, pids: Sequence[int], proc: Path = Path("/proc")) -> None:
        self._pids = pids
        self._proc = proc

    def sample(self, at_ns: int, counters: Mapping[str, int]) -> ClientSample:
        """One look.

        Args:
            at_ns: CLOCK_MONOTONIC.
            counters: the issuers' shared counters, summed.
        """
        seen = [one for pid in self._pids if (one := self._process(pid)) is not None]
        machine_s, steal_s = self._machine()
        return ClientSample(
            at_ns=at_ns,
            processes=len(seen),
            cpu_s=sum(one.cpu_s for one in seen) if seen else None,
            rss_bytes=sum(one.rss_bytes for one in seen) if seen else None,
            fds=_sum([one.fds for one in seen]),
            voluntary=_sum([one.voluntary for one in seen]),
            involuntary=_sum([one.involuntary for one in seen]),
            machine_s=machine_s,
            steal_s=steal_s,
            sent=counters.get("sent", 0),
            in_flight=counters.get("in_flight", 0),
            ended=counters.get("ended", 0),
            send_lag_last_ns=counters.get("send_lag_last_ns", 0),
            send_lag_sum_ns=counters.get("send_lag_sum_ns", 0),
            send_lag_max_ns=counters.get("send_lag_max_ns", 0),
            loop_lag_max_ns=counters.get("loop_lag_max_ns", 0),
        )

    def _process(self, pid: int) -> _Process | None:
        """None once it has ended."""
        folder = self._proc / str(pid)
        try:
            # the name in parentheses may hold anything, also a parenthesis
            fields = (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2]
            numbers = fields.split()
            cpu_s = (int(numbers[11]) + int(numbers[12])) / _TICKS_PER_S
            rss_bytes = int(numbers[21]) * _PAGE_BYTES
        except (OSError, ValueError, IndexError):
            return None
        return _Process(
            cpu_s,
            rss_bytes,
            self._descriptors(folder),
            *self._switches(folder),
        )

    def _descriptors(self, folder: Path) -> int | None:
        try:
            return len(os.listdir(folder / "fd"))
        except OSError:
            return None

    def _switches(self, folder: Path) -> tuple[int | None, int | None]:
        try:
            lines = (folder / "status").read_text("utf-8", "replace").splitlines()
        except OSError:
            return None, None
        told = dict(line.partition(":")[::2] for line in lines)
        voluntary, involuntary = (
            int(text) if (text := told.get(name, "").strip()).isdecimal() else None
            for name in ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")
        )
        return voluntary, involuntary

    def _machine(self) -> tuple[float | None, float | None]:
        """Processor time since boot and what the hypervisor took of it, seconds."""
        try:
            with (self._proc / "stat").open(encoding="utf-8") as file:
                name, *numbers = file.readline().split()
            ticks = [int(number) for number in numbers]
        except (OSError, ValueError):
            return None, None
        if name != "cpu" or len(ticks) < 8:
            return None, None
        # guest time (the last two) is in user time already
        return sum(ticks[:8]) / _TICKS_PER_S, ticks[7] / _TICKS_PER_S


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None
