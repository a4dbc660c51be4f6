"""The client's counts held against the engine's own.

The identity is: sent = finished + refused at admission + aborted + lost
elsewhere. What remains is the difference, and it is explained in words, never
spread over the terms. A counter that is missing is None, and never 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from loadgen.analysis.counters import CounterNames, names_of
from loadgen.analysis.remainder import Remainder, explain
from loadgen.model import Attribution, Layer, Outcome, RequestRecord, Resource

__all__ = [
    "ClientCounts",
    "EngineDeltas",
    "Reconciliation",
    "add_deltas",
    "reconcile",
]

# What an engine's admission counter counts; a prompt too long is not in it.
QUEUE_RESOURCES = frozenset(
    {
        Resource.QUEUED_REQUESTS,
        Resource.QUEUED_TOKENS,
        Resource.ACTIVE_SEQUENCES,
        Resource.CONCURRENCY,
        Resource.KV_MEMORY,
    }
)
_BEFORE_THE_ENGINE = (Layer.CLIENT, Layer.NETWORK, Layer.GATEWAY, Layer.ROUTER)
_OURS = (Outcome.TIMEOUT, Outcome.STALLED, Outcome.CANCELLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCounts:
    """What the client saw of a run, warm-up apart.

    Args:
        sent: requests handed to the kernel.
        ok: those that ended well.
        admission: refused by the engine for want of room in its queue.
        aborted: sent, and cut by us (limits, drain, the user).
        by_layer: of all others that are not ok, how many each layer lost.
    """

    sent: int
    ok: int
    admission: int
    aborted: int
    by_layer: Mapping[Layer, int] = field(default_factory=dict)

    @property
    def other(self) -> int:
        return sum(self.by_layer.values())

    @property
    def before_engine(self) -> int:
        """Lost before any engine, by attribution."""
        return sum(self.by_layer.get(layer, 0) for layer in _BEFORE_THE_ENGINE)

    @classmethod
    def of(
        cls, counted: Iterable[tuple[RequestRecord, Attribution | None]]
    ) -> ClientCounts:
        """Count records with their attributions."""
        return cls.summed(
            (
                record.outcome,
                attribution.layer if attribution else Layer.UNKNOWN,
                attribution.limiting_resource if attribution else Resource.UNKNOWN,
                1,
            )
            for record, attribution in counted
            if record.sent_ns is not None
        )

    @classmethod
    def summed(
        cls, counted: Iterable[tuple[Outcome, Layer, Resource, int]]
    ) -> ClientCounts:
        """Count sent requests that are grouped by how and where they ended."""
        sent = ok = admission = aborted = 0
        by_layer: dict[Layer, int] = {}
        for outcome, layer, resource, count in counted:
            sent += count
            if outcome is Outcome.OK:
                ok += count
            elif outcome in _OURS:
                aborted += count
            elif layer is Layer.ENGINE_ADMISSION and resource in QUEUE_RESOURCES:
                admission += count
            else:
                by_layer[layer] = by_layer.get(layer, 0) + count
        return cls(
            sent=sent, ok=ok, admission=admission, aborted=aborted, by_layer=by_layer
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineDeltas:
    """What the engine's counters moved by over the run.

    Args:
        engine: its name as telemetry found it: vllm, sglang, tgi, …
        success: requests it finished; None where it does not say.
        admission_rejections: refusals at admission, one an attempt.
        aborted: requests it dropped since the client left.
        failed: requests it failed itself.
        resets: how often a counter started over: the process restarted.
        processes: API servers and ranks summed in these numbers.
        missing: series that should be there and are not.
    """

    engine: str
    success: int | None = None
    admission_rejections: int | None = None
    aborted: int | None = None
    failed: int | None = None
    resets: int = 0
    processes: int = 1
    missing: tuple[str, ...] = ()


_SUMMED = ("success", "admission_rejections", "aborted", "failed")


def add_deltas(deltas: Iterable[EngineDeltas]) -> EngineDeltas | None:
    """Sum the counters of several API servers or data-parallel ranks.

    A counter that one process lacks is None in the sum: a part is no total.
    None without any process.
    """
    total: EngineDeltas | None = None
    for one in deltas:
        if total is None:
            total = one
            continue
        sums = {
            name: _sum(getattr(total, name), getattr(one, name)) for name in _SUMMED
        }
        total = replace(
            total,
            **sums,
            engine=total.engine if total.engine == one.engine else "several",
            resets=total.resets + one.resets,
            processes=total.processes + one.processes,
            missing=tuple(dict.fromkeys(total.missing + one.missing)),
        )
    return total


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


class Reconciliation(msgspec.Struct, frozen=True, kw_only=True):
    """The account: ``summary.reconciliation``.

    ``difference`` is what the engine and the client together account for, less
    what was sent: above 0 the engine saw more than we sent, below 0 some never
    reached it. None where a counter it needs is missing or started over.
    ``amplification`` is engine refusals for each one we saw; None without any.
    ``status``: exact, explained, unexplained or unknown.
    """

    engine: dict[str, int | None]
    client: dict[str, int]
    series: dict[str, str]
    difference: int | None
    amplification: float | None
    status: str
    finding: str
    findings: list[str]


def reconcile(client: ClientCounts, engine: EngineDeltas) -> Reconciliation:
    """Hold the two accounts against each other.

    Args:
        client: our counts.
        engine: the engine's, already summed over its processes.
    """
    names = names_of(engine.engine)
    aborted = client.aborted if engine.aborted is None else engine.aborted
    difference = _difference(client, engine, aborted)
    verdict = explain(
        Remainder(
            difference=difference,
            sent=client.sent,
            seen_ok=client.ok,
            seen_refused=client.admission,
            seen_aborted=client.aborted,
            before_engine=client.before_engine,
            elsewhere=client.other,
            success=engine.success,
            refused=engine.admission_rejections,
            aborted=engine.aborted,
            resets=engine.resets,
            processes=engine.processes,
            missing=engine.missing,
            names=names,
        )
    )
    return Reconciliation(
        engine={name: getattr(engine, name) for name in _SUMMED},
        client={
            "sent": client.sent,
            "ok": client.ok,
            "admission_rejections": client.admission,
            "aborted": client.aborted,
            "other": client.other,
            **{f"other_{layer}": n for layer, n in sorted(client.by_layer.items())},
        },
        series=_series(names),
        difference=difference,
        amplification=_amplification(client, engine),
        status=verdict.status,
        finding=verdict.finding,
        findings=list(verdict.notes),
    )


def _difference(client: ClientCounts, engine: EngineDeltas, aborted: int) -> int | None:
    refused = engine.admission_rejections
    if refused is None and not names_of(engine.engine).refusals_counted:
        refused = client.admission  # it counts none: ours must stand for them
    if engine.success is None or refused is None or engine.resets:
        return None
    return engine.success + refused + aborted + client.other - client.sent


def _series(names: CounterNames) -> dict[str, str]:
    known = {
        "success": names.success,
        "admission_rejections": names.admission_rejections,
        "aborted": names.aborted,
    }
    return {term: series for term, series in known.items() if series}


def _amplification(client: ClientCounts, engine: EngineDeltas) -> float | None:
    if engine.admission_rejections is None or engine.resets or not client.admission:
        return None
    return round(engine.admission_rejections / client.admission, 3)
