"""What the load machine has. A field is None where it could not be read."""

from __future__ import annotations

import os
import platform
import resource
import time
from dataclasses import dataclass
from pathlib import Path

from loadgen.issue.limits import read_machine
from loadgen.wire.stamps import bracket, stamping_warm

__all__ = ["MachineFacts", "read_facts"]

CLOCK_READS = 2000
_TW_REUSE = "proc/sys/net/ipv4/tcp_tw_reuse"
_CLOCK_SOURCE = "sys/devices/system/clocksource/clocksource0/current_clocksource"
_GOVERNORS = "sys/devices/system/cpu"
_CGROUP = "sys/fs/cgroup"
_UNLIMITED_BYTES = 1 << 60  # cgroup v1 writes "no limit" as a number near 2^63


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """Numbers of one look.

    Attributes:
        system: kernel and release.
        descriptors_now: the soft limit, which loadgen raises by itself.
        descriptors: the most it can be raised to.
        ports: local ports towards one address.
        time_wait_reuse: Linux's tcp_tw_reuse: 0 never, 1 yes, 2 on loopback only.
        cores: processors this process may run on.
        quota_cores: what a container's limit leaves of them.
        load: tasks that wanted a processor, mean of the last minute.
        clock_source: the kernel's.
        clock_read_ns: what reading CLOCK_MONOTONIC costs.
        clock_width_ns: how closely it can be tied to CLOCK_REALTIME.
        kernel_stamps: whether a loopback trial got receive stamps.
        memory_bytes: free for new work, within the container's limit.
        governors: frequency governors of the processors.
    """

    system: str
    descriptors_now: int
    descriptors: int
    ports: int
    time_wait_reuse: int | None
    cores: int
    quota_cores: float | None
    load: float | None
    clock_source: str | None
    clock_read_ns: float
    clock_width_ns: int
    kernel_stamps: bool
    memory_bytes: int | None
    governors: tuple[str, ...] | None


def read_facts(root: Path = Path("/")) -> MachineFacts:
    """Look at this machine; takes less than half a second.

    Args:
        root: where /proc and /sys are found.
    """
    limits = read_machine(loopback=False)
    return MachineFacts(
        system=f"{platform.system()} {platform.release()}",
        descriptors_now=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        descriptors=limits.descriptors,
        ports=limits.ports,
        time_wait_reuse=_number(root / _TW_REUSE),
        cores=_cores(),
        quota_cores=quota_cores(root / _CGROUP),
        load=_load(),
        clock_source=_word(root / _CLOCK_SOURCE),
        clock_read_ns=_clock_read_ns(),
        clock_width_ns=bracket(time.monotonic_ns, time.time_ns).width_ns,
        kernel_stamps=_stamps_work(),
        memory_bytes=memory_bytes(root),
        governors=governors(root / _GOVERNORS),
    )


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _load() -> float | None:
    try:
        return os.getloadavg()[0]
    except OSError:
        return None


def _clock_read_ns() -> float:
    best_ns = None
    for _ in range(3):
        began_ns = time.monotonic_ns()
        for _ in range(CLOCK_READS):
            time.monotonic_ns()
        took_ns = time.monotonic_ns() - began_ns
        best_ns = took_ns if best_ns is None else min(best_ns, took_ns)
    return (best_ns or 0) / CLOCK_READS


def _stamps_work() -> bool:
    keeper = stamping_warm()
    if keeper is None:
        return False
    keeper.close()
    return True


def quota_cores(cgroup: Path) -> float | None:
    """A container's processor limit in processors; None: no limit is visible."""
    whole = (_word(cgroup / "cpu.max") or "").split()
    if len(whole) == 2 and whole[0].isdecimal() and whole[1].isdecimal():
        return int(whole[0]) / int(whole[1]) if int(whole[1]) else None
    quota_us = _number(cgroup / "cpu" / "cpu.cfs_quota_us")
    period_us = _number(cgroup / "cpu" / "cpu.cfs_period_us")
    if quota_us is None or not period_us or quota_us <= 0:
        return None
    return quota_us / period_us


def memory_bytes(root: Path) -> int | None:
    """Memory free for new work; a container's limit counts where it is lower."""
    free = [_available(root / "proc/meminfo")]
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        most, now = (_number(root / _CGROUP / name) for name in (limit, used))
        if most is not None and now is not None and most < _UNLIMITED_BYTES:
            free.append(max(0, most - now))
    return min((bytes_ for bytes_ in free if bytes_ is not None), default=None)


def _available(meminfo: Path) -> int | None:
    for line in _text(meminfo).splitlines():
        name, _, value = line.partition(":")
        words = value.split()
        if name == "MemAvailable" and words and words[0].isdecimal():
            return int(words[0]) * 1024
    return None


def governors(cpus: Path) -> tuple[str, ...] | None:
    """The governors in use, each once; None where they are not to be seen."""
    found = {
        _word(path) for path in sorted(cpus.glob("cpu[0-9]*/cpufreq/scaling_governor"))
    }
    return tuple(sorted(word for word in found if word)) or None


def _text(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace")
    except OSError:
        return ""


def _word(path: Path) -> str | None:
    return _text(path).strip() or None


def _number(path: Path) -> int | None:
    try:
        return int(_text(path))
    except ValueError:
        return None
