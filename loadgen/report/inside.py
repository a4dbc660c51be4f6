"""What went on inside the server and its GPUs while the requests came."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from loadgen.errors import RunDirError
from loadgen.report.escape import safe
from loadgen.report.facts import Facts
from loadgen.report.numbers import NOTHING, count, percent, seconds
from loadgen.report.table import Column, Row, Table
from loadgen.report.words import plural
from loadgen.units import NS_PER_S

__all__ = ["inside_table"]

GIB = 1 << 30
GPUS_SHOWN = 8
COUNTS_SHOWN = ("admission_rejections", "rate_limited", "retries", "no_capacity")
_LEVELS = {
    "running": "requests running",
    "waiting": "requests waiting",
    "queued_tokens": "tokens waiting",
    "kv_usage": "KV cache in use",
}


class _Series(msgspec.Struct, frozen=True):
    before: float | None = None
    peak: float | None = None
    at_ns: int | None = None
    delta: float | None = None
    resets: int = 0
    n: int = 0


class _Server(msgspec.Struct, frozen=True):
    status: str = "off"
    title: str | None = None
    version: str | None = None
    series: dict[str, _Series] = {}
    missing: list[str] = []


class _Memory(msgspec.Struct, frozen=True):
    baseline: int | None = None
    peak: int = 0
    at_ns: int | None = None
    total: int = 0
    per_in_flight_token: float | None = None


class _Device(msgspec.Struct, frozen=True):
    index: int | None = None
    name: str | None = None
    working: bool = False
    memory: _Memory | None = None
    utilization_pct: dict[str, float] | None = None
    power_w: dict[str, float] | None = None


class _Gpu(msgspec.Struct, frozen=True):
    status: str = "off"
    devices: list[_Device] = []


class _Moments(msgspec.Struct, frozen=True):
    first_refusal_ns: int | None = None
    waiting_peak_ns: int | None = None
    at_refusal: dict[str, float] = {}


class _Inside(msgspec.Struct, frozen=True):
    gpu: _Gpu = _Gpu()
    server: _Server = _Server()
    moments: _Moments = _Moments()


def inside_table(facts: Facts) -> Table | None:
    """Levels before the run, at their peak and when requests were first refused.

    None where nobody looked, or nothing was seen.
    """
    if not facts.telemetry:
        return None
    seen = _read(facts.telemetry)
    rows = (*_levels(seen), *_memory(seen))
    if not rows:
        return None
    who = " ".join(
        safe(text, 24) for text in (seen.server.title, seen.server.version) if text
    )
    return Table(
        f"Inside the server{f', {who}' if who else ''}",
        (
            Column("before"),
            Column("peak"),
            Column("at"),
            Column("at first refusal"),
        ),
        rows,
        tuple(_notes(seen)),
    )


def _read(telemetry: dict[str, Any]) -> _Inside:
    try:
        return msgspec.convert(telemetry, _Inside)
    except msgspec.ValidationError as error:
        raise RunDirError(f"summary.json cannot be read: {error}") from None


def _levels(seen: _Inside) -> Iterator[Row]:
    for term, label in _LEVELS.items():
        one = seen.server.series.get(term)
        if one is None or one.peak is None:
            continue
        text = percent if term == "kv_usage" else _number
        yield Row(
            label,
            (
                text(one.before),
                text(one.peak),
                _when(one.at_ns if one.peak else None),
                text(seen.moments.at_refusal.get(term)),
            ),
        )


def _memory(seen: _Inside) -> Iterator[Row]:
    working = [device for device in seen.gpu.devices if device.working]
    for device in working[:GPUS_SHOWN]:
        memory = device.memory
        if memory is None:
            continue
        number = "?" if device.index is None else device.index
        yield Row(
            f"GPU {number} memory",
            (
                _bytes(memory.baseline),
                _bytes(memory.peak),
                _when(memory.at_ns),
                "",
            ),
        )


def _notes(seen: _Inside) -> Iterator[str]:
    yield from _order(seen.moments)
    counted = [
        f"{term.replace('_', ' ')} {_number(one.delta)}"
        for term in ("preemptions", *COUNTS_SHOWN)
        if (one := seen.server.series.get(term)) is not None
        and (one.delta or term == "preemptions")
    ]
    if counted:
        yield f"counted in the run: {', '.join(counted)}"
    yield from _gpus(seen.gpu)
    looks = max((one.n for one in seen.server.series.values()), default=0)
    if looks:
        yield f"{plural(looks, 'look')}: between two, a level may have been higher"
    elif seen.server.status not in ("ok", "off"):
        yield f"the server's metrics: {safe(seen.server.status, 60)}"


def _order(moments: _Moments) -> Iterator[str]:
    """When the first refusal came, and how that lies to the longest queue."""
    refusal, queue = moments.first_refusal_ns, moments.waiting_peak_ns
    if refusal is None:
        return
    text = f"the first refusal came at {_when(refusal)}"
    if queue is None:
        yield text
    elif queue >= refusal:
        yield f"{text}, {_when(queue - refusal)} before the longest queue was seen"
    else:
        yield f"{text}, {_when(refusal - queue)} after the longest queue was seen"


def _gpus(gpu: _Gpu) -> Iterator[str]:
    if gpu.status not in ("ok", "off"):
        yield f"GPUs: {safe(gpu.status, 60)}"
    for device in [one for one in gpu.devices if one.working][:GPUS_SHOWN]:
        told = [
            f"{name} {level['mean']:.0f}{unit} in the mean"
            for name, level, unit in (
                ("in use", device.utilization_pct, "%"),
                ("power", device.power_w, " W"),
            )
            if level and "mean" in level
        ]
        memory = device.memory
        if memory is not None and memory.per_in_flight_token:
            told.append(f"{memory.per_in_flight_token:,.0f} bytes a token in flight")
        number = "?" if device.index is None else device.index
        name = f" ({safe(device.name, 30)})" if device.name else ""
        if told:
            yield f"GPU {number}{name}: {', '.join(told)}"
    hidden = sum(not one.working for one in gpu.devices)
    if hidden:
        yield f"{plural(hidden, 'GPU')} more, idle"


def _when(instant_ns: int | None) -> str:
    return NOTHING if instant_ns is None else seconds(instant_ns / NS_PER_S)


def _bytes(value: int | None) -> str:
    return NOTHING if value is None else f"{value / GIB:,.2f} GiB"


def _number(value: float | None) -> str:
    return NOTHING if value is None else count(round(value))
