"""A sweep judged: from its runs to the curve, the knee and what to doubt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from loadgen.analysis.curve import (
    Planned,
    Point,
    Progress,
    RunPoint,
    SweepRun,
    SweepSummary,
)
from loadgen.analysis.knee import Flag, Knee, find_knee
from loadgen.analysis.points import points, samples_of
from loadgen.analysis.recovery import RunRecovery, overload_of
from loadgen.analysis.validity import Reason, Verdict
from loadgen.model import Basis
from loadgen.units import format_duration

__all__ = ["CLIENT_CODES", "SweepFacts", "judge_sweep"]

CLIENT_CODES = frozenset({"send_lag", "client_errors", "clock_step"})
"""Reasons of a run's verdict that lie on our own side."""
NAMED = 4
LEAST_ANSWERS = 10
"""A run should be so many times as long as an answer takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepFacts:
    """All that a sweep's judgement is made from.

    Args:
        runs: at the rates, usable or not.
        overloads: of the steps past capacity.
        findings: what is known already, in words.
        client_limited: whether runs were left unmade since we cannot offer them.
        restarted: whether the engine was another one in a later run.
    """

    basis: Basis
    sweep: SweepRun
    progress: Progress
    plan: Planned
    slo: Mapping[str, float]
    target: float
    runs: Sequence[RunPoint]
    overloads: Sequence[RunRecovery]
    findings: Sequence[str] = ()
    client_limited: bool = False
    restarted: bool = False


def judge_sweep(facts: SweepFacts) -> SweepSummary:
    """Judge all runs together; a run that is not usable is told and not counted."""
    curve = points(facts.runs)
    flags = list(_flags(facts))
    names = dict.fromkeys(name for run in facts.runs for name in run.groups)
    group_knees = {}
    if len(names) > 1:
        group_knees = {name: _knee(facts, flags, name) for name in names}
    knee = _knee(facts, flags, None)
    return SweepSummary(
        basis=facts.basis,
        sweep=facts.sweep,
        progress=facts.progress,
        verdict=_verdict(facts, curve),
        plan=facts.plan,
        slo=dict(facts.slo),
        curve=curve,
        knee=knee,
        group_knees=group_knees,
        overload=overload_of(facts.overloads),
        runs=list(facts.runs),
        findings=[*facts.findings, *_findings(facts, curve, knee)],
    )


def _knee(facts: SweepFacts, flags: Sequence[str], group: str | None) -> Knee:
    return find_knee(samples_of(facts.runs, group), facts.target, known=flags)


def _flags(facts: SweepFacts) -> Iterator[str]:
    offered = {(run.rate_rps, run.schedule) for run in facts.runs if run.usable}
    if facts.client_limited or any(
        CLIENT_CODES & {reason.code for reason in run.reasons}
        for run in facts.runs
        if (run.rate_rps, run.schedule) not in offered
    ):
        yield Flag.CLIENT_LIMITED
    if facts.restarted or any(run.engine_restarted for run in facts.runs):
        yield Flag.ENGINE_RESTARTED


def _verdict(facts: SweepFacts, curve: Sequence[Point]) -> Verdict:
    reasons = []
    if not any(run.usable for run in facts.runs):
        reasons.append(
            Reason(
                code="no_usable_run",
                text="no run of the sweep can be used",
                remedy="see why each was left out, mend that, and run again",
            )
        )
    return Verdict(
        status="invalid" if reasons else "valid",
        reasons=reasons,
        warnings=list(_warnings(facts, curve)),
        lost_records=0,
    )


def _warnings(facts: SweepFacts, curve: Sequence[Point]) -> Iterator[Reason]:
    yield from _left_out(facts.runs)
    if facts.progress.status != "complete":
        yield Reason(
            code="not_complete",
            text=facts.progress.text,
            remedy="go on with --resume FOLDER",
        )
    thin = [p for p in curve if p.runs == 1 and facts.plan.schedules > 1]
    bracketing = not facts.plan.rates_rps
    if thin and not bracketing:
        named = ", ".join(f"{point.offered_rps:g}/s" for point in thin)
        yield Reason(
            code="one_run",
            text=f"a single run stands behind {named}: there is no interval",
            remedy="go on with --resume FOLDER, or see why runs were left out",
        )
    crowded = [run for run in facts.runs if _not_settled(run)]
    if crowded:
        yield Reason(
            code="not_settled",
            text=f"{len(crowded)} runs began before the engine was at rest",
            remedy="raise --settle, or see what else uses the server",
        )


def _left_out(runs: Sequence[RunPoint]) -> Iterator[Reason]:
    """One doubt for all runs that were left out for the same sort of reason."""
    alike: dict[tuple[str, ...], list[RunPoint]] = {}
    for run in runs:
        if not run.usable:
            alike.setdefault(tuple(r.code for r in run.reasons), []).append(run)
    for out in alike.values():
        named = [f"{run.rate_rps:g}/s schedule {run.schedule + 1}" for run in out]
        more = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
        yield Reason(
            code="run_left_out",
            text=f"{len(out)} of {len(runs)} runs are left out "
            f"({', '.join(named[:NAMED])}{more}): {out[0].why_not}",
            remedy=next((reason.remedy for reason in out[0].reasons), ""),
        )


def _not_settled(run: RunPoint) -> bool:
    return run.settle is not None and run.settle.how == "not empty"


def _findings(facts: SweepFacts, curve: Sequence[Point], knee: Knee) -> Iterator[str]:
    below = knee.rate_rps or knee.at_least_rps or 0.0
    for point in (point for point in curve if point.runs):
        started = point.latency["e2e_s"].n_cut - point.latency["ttft_s"].n_cut
        if started > 0 and point.offered_rps <= below:
            yield (
                f"at {point.offered_rps:g}/s {started:,} answers were cut by a limit "
                "after their first token and count as misses: raise --drain"
            )
    first = curve[0].latency.get("e2e_s") if curve else None
    answer_s = first.p50.value if first else None
    if answer_s and facts.plan.duration_s < LEAST_ANSWERS * answer_s:
        yield (
            f"runs of {facts.plan.duration_s:g} s are short beside answers of "
            f"{format_duration(answer_s * 1e9)}: the knee is that of such bursts, and "
            "a longer load may break earlier"
        )
