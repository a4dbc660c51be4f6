"""From a sweep's journal to its summary, while it goes on or any time later."""

from __future__ import annotations

from collections.abc import Iterator

from loadgen.analysis.curve import Planned, Progress, SweepRun, SweepSummary
from loadgen.analysis.goodput import parse_slo
from loadgen.analysis.sweep import SweepFacts, judge_sweep
from loadgen.control.journal import State
from loadgen.errors import RunDirError
from loadgen.model import Basis
from loadgen.units import NS_PER_S

__all__ = ["SUMMARY_NAME", "summarise"]

SUMMARY_NAME = "summary.json"
WARM_SHARE = 0.2
"""A prefix hit rate that differs by so much between runs is told."""


def summarise(state: State, *, going_on: bool = False) -> SweepSummary:
    """Judge what the journal holds.

    Args:
        state: the journal.
        going_on: whether this process is still at it.

    Raises:
        RunDirError: the sweep never met a server.
    """
    if not state.met:
        raise RunDirError("the sweep ended before it reached a server")
    plan, met = state.plan, state.met[-1]
    slo = parse_slo(plan.flags["offer"]["slo"])
    return judge_sweep(
        SweepFacts(
            basis=Basis(met.basis),
            sweep=SweepRun(
                name=plan.name,
                started_utc=plan.started_utc,
                loadgen_version=plan.loadgen_version,
                command=plan.command,
                workload=met.workload,
                model=met.model,
                url=met.url,
                server_version=met.server_version,
                variant=plan.variant,
                host=plan.host,
            ),
            progress=_progress(state, going_on),
            plan=Planned(
                rates=plan.rates,
                rates_rps=plan.rates_rps,
                schedules=plan.schedules,
                seeds=plan.seeds,
                duration_s=plan.run_ns / NS_PER_S,
                budget_s=None if plan.budget_ns is None else plan.budget_ns / NS_PER_S,
                expected=plan.expected,
            ),
            slo=slo.limits_s(),
            target=plan.target,
            runs=state.runs,
            overloads=state.overloads,
            findings=list(_findings(state)),
            client_limited=bool(state.refused),
            restarted=len({one.server_version for one in state.met}) > 1,
        )
    )


def _progress(state: State, going_on: bool) -> Progress:
    stopped = state.stopped
    done = len(state.runs) + len(state.overloads)
    planned = stopped.planned_runs if stopped else _planned(state, done)
    if stopped is not None:
        status, why = stopped.status, stopped.text
    elif going_on:
        status, why = "unfinished", "still going on"
    else:
        status, why = "unfinished", "killed, or still going on"
    text = f"{done} of {planned} runs made"
    return Progress(
        status=status,
        planned_runs=planned,
        done_runs=done,
        resumed_utc=state.resumed_utc,
        abandoned=[*state.open, *state.dropped],
        text=text if status == "complete" else f"{text}: {why}",
    )


def _planned(state: State, done: int) -> int:
    plan = state.plan
    runs = len(plan.rates_rps) * plan.schedules
    surges = plan.schedules if plan.overload else 0
    return max(done, runs + surges)


def _findings(state: State) -> Iterator[str]:
    yield from state.flaws
    if state.resumed_utc:
        times = ", ".join(state.resumed_utc)
        yield f"taken up again after an interruption: {times}"
    for folder, why in state.dropped.items():
        yield f"{folder} was begun and not finished ({why}); it was left out"
    if state.refused:
        why = next(iter(state.refused.values()))
        named = ", ".join(
            f"{rate:g}/s" for rate in sorted({r for r, _ in state.refused})
        )
        yield f"{len(state.refused)} runs at {named} were not offered: {why}"
    stopped = state.stopped is not None
    for folder in state.open if stopped else ():
        yield f"{folder} was begun and its end is not known (killed); it was left out"
    versions = list(dict.fromkeys(str(one.server_version) for one in state.met))
    if len(versions) > 1:
        yield f"the server's version changed on the way: {', '.join(versions)}"
    hits = [r.prefix_hit_rate for r in state.runs if r.prefix_hit_rate is not None]
    if hits and max(hits) - min(hits) > WARM_SHARE:
        yield (
            f"the prefix cache's hit rate ran from {min(hits):.0%} to {max(hits):.0%} "
            "over the runs: they are not alike to the engine"
        )
