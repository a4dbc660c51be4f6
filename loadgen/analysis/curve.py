"""Offered load against what came of it: the contract of a sweep's ``summary.json``.

A point of the curve stands on several runs, each of another sealed schedule. Its
intervals are over those runs; a request is never taken as a sample of its own.
"""

from __future__ import annotations

from typing import Any

import msgspec

from loadgen.analysis.knee import Knee
from loadgen.analysis.validity import Reason, Verdict
from loadgen.model import Basis

__all__ = [
    "DEFINITIONS",
    "SCHEMA",
    "Mean",
    "Overload",
    "Part",
    "Planned",
    "Point",
    "PointGoodput",
    "Progress",
    "Quantile",
    "Quantiles",
    "RunPart",
    "RunPoint",
    "RunQuantile",
    "RunQuantiles",
    "Settle",
    "Shed",
    "SweepRun",
    "SweepSummary",
]

SCHEMA = "loadgen.sweep/1"

DEFINITIONS = {
    "goodput": "ok and within every limit (<=), over all offered requests",
    "ci95": "Student's t over runs of independent schedules; of latencies on their "
    "logarithms; null below two runs",
    "quantiles": "Kaplan-Meier within a run: requests cut by a limit of ours count as "
    "'longer than that'; then the geometric mean over runs",
    "not_reached": "runs in which so many were cut that the quantile is not known; "
    "'above' is a time it is longer than",
    "knee": "isotonic fit of goodput over the offered rates, crossing of the target by "
    "linear interpolation, interval by drawing whole schedules again",
    "offered_rps": "the rate that was asked for; realised_rps is what was offered",
    "shed": "requests lost, by the layer that lost them, over all offered",
}


class Mean(msgspec.Struct, frozen=True, kw_only=True):
    """A mean over ``n`` runs; ``ci95`` is None below two."""

    value: float | None
    ci95: tuple[float, float] | None
    n: int


class Quantile(msgspec.Struct, frozen=True, kw_only=True):
    """One quantile at one load, in seconds, over runs.

    ``value`` is None where no run has it, or where it was not reached in some:
    ``not_reached`` counts those, and ``above_s`` is a time it is longer than.
    """

    value: float | None
    ci95: tuple[float, float] | None = None
    runs: int = 0
    not_reached: int = 0
    above_s: float | None = None


class Quantiles(msgspec.Struct, frozen=True, kw_only=True):
    """Of ``n`` requests (or gaps) in all runs, ``n_cut`` were cut before their time."""

    n: int
    n_cut: int
    p50: Quantile
    p90: Quantile
    p95: Quantile
    p99: Quantile


class PointGoodput(msgspec.Struct, frozen=True, kw_only=True):
    """Goodput at one load: mean ratio and mean rate over ``runs`` runs."""

    ratio: float | None
    ci95: tuple[float, float] | None
    rate_rps: float | None
    rate_ci95: tuple[float, float] | None
    good: int
    offered: int
    runs: int
    scope: str = "over schedules"


class Shed(msgspec.Struct, frozen=True, kw_only=True):
    """Requests that one layer lost: all runs' count, and the mean share over runs."""

    count: int
    share: float | None
    ci95: tuple[float, float] | None


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """What came of all requests of a load, or of one group's.

    ``latency`` has ``ttft_s``, ``itl_s``, ``tpot_s``, ``e2e_s``. ``shed`` is by
    layer, ``resources`` by what ran out. ``ok_rps`` counts per second of schedule.
    """

    goodput: PointGoodput
    outcomes: dict[str, int]
    shed: dict[str, Shed]
    resources: dict[str, int]
    ok_rps: Mean
    latency: dict[str, Quantiles]


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One offered rate: a ``Part`` of all requests, and one of each group.

    ``runs`` stand behind the numbers, ``left_out`` do not: their reasons are in
    the sweep's ``runs``. ``preemptions`` is a mean over the runs, None where the
    engine does not tell. ``output_tokens_per_s`` is by who counted them.
    """

    offered_rps: float
    realised_rps: float | None
    runs: int
    left_out: int
    goodput: PointGoodput
    outcomes: dict[str, int]
    shed: dict[str, Shed]
    resources: dict[str, int]
    ok_rps: Mean
    output_tokens_per_s: dict[str, Mean]
    latency: dict[str, Quantiles]
    drain_s: Mean
    preemptions: Mean
    retries: int = 0
    groups: dict[str, Part]


class RunQuantile(msgspec.Struct, frozen=True, kw_only=True):
    """A quantile within one run: None and ``above_s`` where it was not reached."""

    value: float | None
    above_s: float | None = None


class RunQuantiles(msgspec.Struct, frozen=True, kw_only=True):
    """Kaplan-Meier quantiles within one run; ``n`` includes the ``n_cut`` cut ones."""

    n: int = 0
    n_cut: int = 0
    p50: RunQuantile = RunQuantile(value=None)
    p90: RunQuantile = RunQuantile(value=None)
    p95: RunQuantile = RunQuantile(value=None)
    p99: RunQuantile = RunQuantile(value=None)


class RunPart(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one run's requests, or of one group's."""

    offered: int
    good: int
    ok: int
    outcomes: dict[str, int]
    shed: dict[str, int]
    resources: dict[str, int]
    latency: dict[str, RunQuantiles]


class Settle(msgspec.Struct, frozen=True, kw_only=True):
    """How the engine was brought to rest before a run.

    ``how`` is ``queue empty``, ``fixed time``, ``not empty`` (the limit passed
    first) or ``none``; ``note`` says why it was not the first.
    """

    how: str
    waited_s: float
    note: str | None = None


class RunPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a sweep. ``folder`` is relative to the sweep's.

    ``usable`` is whether it stands behind the curve; ``why_not`` says why it does
    not. ``drain_s`` is from the end of the schedule to the last answer's end.
    """

    folder: str
    rate_rps: float
    schedule: int
    seed: int
    started_utc: str
    schedule_digest: str
    duration_s: float
    verdict: str
    usable: bool
    why_not: str | None
    reasons: list[Reason]
    warnings: list[Reason]
    all: RunPart
    groups: dict[str, RunPart]
    output_tokens_per_s: dict[str, float]
    drain_s: float | None
    preemptions: int | None
    prefix_hit_rate: float | None
    engine_restarted: bool | None
    settle: Settle | None


class SweepRun(msgspec.Struct, frozen=True, kw_only=True):
    """Which sweep this is; ``variant`` is None unless it is one of several."""

    name: str
    started_utc: str
    loadgen_version: str
    command: list[str]
    workload: str
    model: str | None
    url: str | None
    server_version: str | None
    variant: str | None
    host: dict[str, Any]


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """What was to be offered; ``duration_s`` is of each run.

    ``rates_rps`` is empty where the rates were to be found (``auto``). ``expected``
    says in words what precision the plan could bring.
    """

    rates: str
    rates_rps: list[float]
    schedules: int
    seeds: list[int]
    duration_s: float
    budget_s: float | None
    expected: str | None


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far the sweep came.

    ``status`` is ``complete``, ``interrupted`` (by the user), ``budget spent``,
    ``failed`` (``text`` says how) or ``unfinished`` (killed, or still going).
    ``resumed_utc`` are the times it was taken up again; ``abandoned`` the folders
    of runs that were begun and never ended.
    """

    status: str
    planned_runs: int
    done_runs: int
    resumed_utc: list[str]
    abandoned: list[str]
    text: str


class Overload(msgspec.Struct, frozen=True, kw_only=True):
    """A step past capacity and back, one mean over schedules each.

    The load was ``base_rps``, then ``peak_rps``, then ``base_rps`` again.
    ``before`` and ``after`` are the goodput ratios at the same rate; ``hysteresis``
    is before - after. ``drain_s`` is from the end of the step until no more
    requests were open than before it, ``recovery_s`` until requests that came due
    were good again as before. Both count only runs in which it happened:
    ``not_drained`` and ``not_recovered`` are the others.
    """

    base_rps: float
    peak_rps: float
    phase_s: tuple[float, float, float]
    before: Mean
    during: Mean
    after: Mean
    hysteresis: Mean
    drain_s: Mean
    recovery_s: Mean
    not_drained: int
    not_recovered: int
    runs: list[str]


class SweepSummary(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of one sweep. Absent values are null, never 0 or NaN."""

    schema: str = SCHEMA
    basis: Basis
    sweep: SweepRun
    progress: Progress
    verdict: Verdict
    plan: Planned
    slo: dict[str, float]
    curve: list[Point]
    knee: Knee
    group_knees: dict[str, Knee]
    overload: Overload | None
    runs: list[RunPoint]
    findings: list[str]
    definitions: dict[str, str] = msgspec.field(default_factory=lambda: DEFINITIONS)
