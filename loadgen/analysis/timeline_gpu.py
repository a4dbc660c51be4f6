"""GPUs over a run: ``summary.telemetry.gpu``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from loadgen.analysis.columns import RunData
from loadgen.analysis.findings import Finding
from loadgen.telemetry.samples import (
    DeviceAbout,
    GpuAbout,
    GpuEnd,
    GpuEvent,
    GpuSample,
    Sample,
)
from loadgen.units import format_duration, ns_to_s

__all__ = ["DeviceSeen", "GpuSeen", "gpu_seen", "tokens_in_flight"]

MOVED_BYTES = 64 << 20
"""Below this, memory counts as flat: allocators and drivers move so much alone."""
IDLE_BYTES = 1 << 30
"""A GPU that holds less, runs nothing and moves nothing is not the server's."""
THROTTLED_SHARE = 0.05

Number = float | int


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes since t0; ``at_ns`` is when ``peak`` was first seen, ns since t0.

    ``baseline`` is the median before t0, ``growth`` the peak over it.
    ``used_includes_reserved``: the library does not tell apart what the driver
    keeps. ``per_in_flight_token``: growth for each token in flight at the peak;
    None where memory was flat, which says nothing of load.
    """

    baseline: int | None
    peak: int
    at_ns: int
    mean: float
    growth: int | None
    total: int
    reserved: int | None
    used_includes_reserved: bool
    per_in_flight_token: float | None
    note: str


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """A quantity while the run was going on."""

    mean: float
    min: float
    peak: float


class DeviceSeen(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU or slice. What it did not tell is None; ``refused`` says why.

    ``working``: it held a process, computed, or moved memory. ``throttled`` is
    the share of looks by cause. ``processes`` are peaks by process id, None where
    the driver shows none, and ``processes_note`` why. ``lost_ns``: when it was
    lost, ns since t0.
    """

    index: int | None
    logical: int | None
    uuid: str | None
    name: str | None
    slice_of: str | None
    looks: int
    working: bool
    memory: Memory | None
    utilization_pct: Level | None
    power_w: Level | None
    sm_mhz: Level | None
    temperature_c: Level | None
    throttled: dict[str, float]
    ecc: int | None
    processes: dict[str, int] | None
    processes_note: str
    refused: dict[str, str]
    lost_ns: int | None


class Total(msgspec.Struct, frozen=True, kw_only=True):
    """Used bytes of all GPUs together; nothing is summed while one is lost."""

    peak: int
    at_ns: int
    end: int | None


class GpuSeen(msgspec.Struct, frozen=True, kw_only=True):
    """What NVML told. ``status`` is ``ok``, ``off``, or why there is nothing."""

    status: str
    driver: str | None = None
    library: str | None = None
    binding: str | None = None
    devices: list[DeviceSeen] = []
    used_bytes: Total | None = None
    xids: list[int] = []
    rounds: int | None = None
    skipped: int | None = None
    longest_look_s: float | None = None
    notes: list[str] = []
    findings: list[Finding] = []


def gpu_seen(samples: Sequence[Sample], status: str, data: RunData) -> GpuSeen:
    """Fold all samples of GPUs, in order of time.

    Args:
        samples: of any source.
        status: ``on``, or why no GPU was looked at.
        data: the requests.
    """
    if status != "on":
        return GpuSeen(status=status)
    about = next((one for one in samples if isinstance(one, GpuAbout)), None)
    end = next((one for one in samples if isinstance(one, GpuEnd)), None)
    if about is None:
        return GpuSeen(status="no answer from NVML")
    looks = [one for one in samples if isinstance(one, GpuSample)]
    devices = [
        _device(device, [one for one in looks if one.device == number], data)
        for number, device in enumerate(about.devices)
    ]
    seen = GpuSeen(
        status=about.status,
        driver=about.driver,
        library=about.library,
        binding=about.binding,
        devices=devices,
        used_bytes=_total(looks, about.devices),
        xids=[one.xid for one in samples if isinstance(one, GpuEvent)],
        rounds=end.rounds if end else None,
        skipped=end.skipped if end else None,
        longest_look_s=ns_to_s(end.longest_ns) if end else None,
        notes=about.notes,
    )
    found = list(_findings(seen, hung=end is not None and end.hung))
    return msgspec.structs.replace(seen, findings=found)


def tokens_in_flight(data: RunData, instant_ns: int) -> int | None:
    """Prompt and output tokens of the requests under way; None: not all known."""
    under_way = (data.sent_ns <= instant_ns) & ~(data.end_ns <= instant_ns)
    prompts = data.prompt_tokens[under_way]
    if not prompts.size or not np.isfinite(prompts).all():
        return None
    ends = np.cumsum(data.token_count)
    out = sum(
        int(
            np.count_nonzero(
                data.token_ns[ends[i] - data.token_count[i] : ends[i]] <= instant_ns
            )
        )
        for i in np.flatnonzero(under_way)
    )
    return int(prompts.sum()) + out


def _device(
    about: DeviceAbout, looks: Sequence[GpuSample], data: RunData
) -> DeviceSeen:
    alive = [one for one in looks if not one.lost]
    running = [one for one in alive if one.at_ns >= 0] or alive
    memory = _memory(about, alive, data)
    utilization = _level(running, lambda one: one.utilization_pct)
    processes, why_not = _processes(about, alive, memory)
    lost = next((one.at_ns for one in looks if one.lost), None)
    return DeviceSeen(
        index=about.index,
        logical=about.logical,
        uuid=about.uuid,
        name=about.name,
        slice_of=about.slice_of,
        looks=len(alive),
        working=_working(memory, utilization, processes),
        memory=memory,
        utilization_pct=utilization,
        power_w=_level(running, lambda one: one.power_w),
        sm_mhz=_level(running, lambda one: one.sm_mhz),
        temperature_c=_level(running, lambda one: one.temperature_c),
        throttled=_throttled(running),
        ecc=_ecc(alive),
        processes=processes,
        processes_note=why_not,
        refused=dict(about.refused),
        lost_ns=lost,
    )


def _memory(
    about: DeviceAbout, alive: Sequence[GpuSample], data: RunData
) -> Memory | None:
    used = [(one.at_ns, one.used_bytes) for one in alive if one.used_bytes is not None]
    if not used:
        return None
    first = next(one for one in alive if one.used_bytes is not None)
    idle = [value for at_ns, value in used if at_ns < 0]
    running = [look for look in used if look[0] >= 0] or used
    at_ns, peak = max(running, key=lambda look: look[1])
    baseline = int(np.median(idle)) if idle else None
    growth = None if baseline is None else peak - baseline
    per_token, note = _growth(growth, at_ns, data)
    return Memory(
        baseline=baseline,
        peak=peak,
        at_ns=at_ns,
        mean=sum(value for _, value in running) / len(running),
        growth=growth,
        total=first.total_bytes or 0,
        reserved=first.reserved_bytes,
        used_includes_reserved=about.memory_version == 1,
        per_in_flight_token=per_token,
        note=note,
    )


def _growth(growth: int | None, at_ns: int, data: RunData) -> tuple[float | None, str]:
    """Bytes a token in flight, and what the growth says."""
    if growth is None:
        return None, "not seen before t0, so there is no idle memory to compare with"
    if growth < MOVED_BYTES:
        return None, (
            "flat: the engine took its pool before the run, so memory says nothing "
            "of load or headroom; its KV gauge does"
        )
    tokens = tokens_in_flight(data, at_ns)
    if not tokens:
        return None, "grew, with no known tokens in flight at the peak"
    return growth / tokens, f"grew with {tokens:,} tokens in flight at the peak"


def _processes(
    about: DeviceAbout, alive: Sequence[GpuSample], memory: Memory | None
) -> tuple[dict[str, int] | None, str]:
    told = [one.processes for one in alive if one.processes is not None]
    if "processes" in about.refused:
        return None, about.refused["processes"]
    if not told:
        return None, "not told"
    peaks: dict[str, int] = {}
    for listed in told:
        for pid, used in listed.items():
            peaks[str(pid)] = max(used, peaks.get(str(pid), 0))
    if not peaks and memory is not None and memory.peak >= IDLE_BYTES:
        return None, "not visible: memory is used by processes of another namespace"
    return peaks, ""


def _working(
    memory: Memory | None,
    utilization: Level | None,
    processes: Mapping[str, int] | None,
) -> bool:
    moved = memory is not None and (
        memory.peak >= IDLE_BYTES or (memory.growth or 0) >= MOVED_BYTES
    )
    computed = utilization is not None and utilization.peak > 0
    return bool(processes) or moved or computed


def _level(
    looks: Sequence[GpuSample], of: Callable[[GpuSample], Number | None]
) -> Level | None:
    values = [float(value) for one in looks if (value := of(one)) is not None]
    if not values:
        return None
    return Level(mean=sum(values) / len(values), min=min(values), peak=max(values))


def _throttled(looks: Sequence[GpuSample]) -> dict[str, float]:
    told = [one.throttle for one in looks if one.throttle is not None]
    causes = dict.fromkeys(cause for causes in told for cause in causes)
    return {
        cause: sum(cause in causes for causes in told) / len(told) for cause in causes
    }


def _ecc(alive: Sequence[GpuSample]) -> int | None:
    """Uncorrected errors that came during the looks."""
    counts = [one.ecc for one in alive if one.ecc is not None]
    return counts[-1] - counts[0] if counts else None


def _total(looks: Sequence[GpuSample], devices: Sequence[DeviceAbout]) -> Total | None:
    """The sum over whole GPUs, from look to look; a part is no total."""
    whole = {n for n, one in enumerate(devices) if one.slice_of is None}
    if not whole:
        whole = set(range(len(devices)))
    now: dict[int, int | None] = {}
    peak: tuple[int, int] | None = None
    total: int | None = None
    for look in looks:
        if look.device not in whole:
            continue
        now[look.device] = None if look.lost else look.used_bytes
        values = [now.get(number) for number in whole]
        known = [value for value in values if value is not None]
        total = sum(known) if len(known) == len(whole) else None
        if total is not None and (peak is None or total > peak[1]):
            peak = look.at_ns, total
    return None if peak is None else Total(peak=peak[1], at_ns=peak[0], end=total)


def _findings(seen: GpuSeen, *, hung: bool) -> Iterator[Finding]:
    for device in seen.devices:
        name = f"GPU {'?' if device.index is None else device.index}"
        if device.lost_ns is not None:
            yield _finding(
                "gpu_lost",
                f"{name} ({device.name}) was lost {format_duration(device.lost_ns)} "
                "after t0; no sum over GPUs is made from then on",
            )
        if device.ecc:
            yield _finding("gpu_ecc", f"{name}: {device.ecc} uncorrected ECC errors")
        for cause, share in device.throttled.items():
            if share >= THROTTLED_SHARE and device.working:
                yield _finding(
                    "gpu_throttled",
                    f"{name} was throttled ({cause}) {share:.0%} of the time",
                )
    if seen.xids:
        numbers = ", ".join(map(str, seen.xids))
        yield _finding("gpu_xid", f"the driver reported critical errors: Xid {numbers}")
    if hung:
        yield _finding("nvml_hung", "a call to NVML had not come back at the end")
    for note in seen.notes:
        yield _finding("gpu_note", note)


def _finding(code: str, text: str) -> Finding:
    return Finding(code=code, count=1, text=text)
