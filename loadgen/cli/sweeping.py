"""Conduct a sweep: one server, many runs, one summary that grows with them."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from loadgen.analysis.columns import RunData
from loadgen.analysis.curve import RunPoint, Settle, SweepSummary
from loadgen.analysis.goodput import good_rows, meets
from loadgen.analysis.latency import times_of
from loadgen.analysis.recovery import Phases, RunRecovery, recovery
from loadgen.analysis.runpoint import Place, run_point
from loadgen.cli.bench import Bench, Read, reach, read_flags
from loadgen.cli.conduct import Made, check_machine, offer_once
from loadgen.cli.evidence import judge_by
from loadgen.cli.show import Show
from loadgen.cli.sources import Source
from loadgen.cli.sweep_plan import Asked, Asking, course_of, make_sweep_plan, resumed
from loadgen.cli.sweep_show import SweepShow
from loadgen.cli.sweep_source import Schedules
from loadgen.clock import MonotonicClock
from loadgen.control.journal import Journal, Met, Resumed, SweepPlan
from loadgen.control.preflight import connectable_address
from loadgen.control.queue import EngineQueue
from loadgen.control.rates import Step
from loadgen.control.settle import Pause, settle
from loadgen.control.sweep import Surge, Sweep
from loadgen.control.sweep_judging import SUMMARY_NAME, summarise
from loadgen.errors import ExitCode, TargetError, UsageError
from loadgen.standin.options import StandinOptions, parse
from loadgen.store import RunDir
from loadgen.store.files import atomic_file
from loadgen.telemetry.vocabulary import load_vocabulary

__all__ = ["Subject", "conduct_sweep", "sweep_once"]

GONE_S = 30
"""How long a server that was there may be away before the sweep gives up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What one sweep of several differs in; the defaults are of a sweep alone.

    Args:
        name: the variant's.
        only: groups that are offered; empty: all.
        standin: what a stand-in serves.
    """

    name: str | None = None
    only: tuple[str, ...] = ()
    standin: StandinOptions | None = None


def conduct_sweep(asked: Asked) -> int:
    """Sweep, and report.

    Returns:
        The exit code; results are saved whatever it is.
    """
    from loadgen.cli.variants import FLAGS_NAME, conduct_variants

    folder = asked.what.resume
    several = folder is not None and (folder / FLAGS_NAME).is_file()
    if several or asked.what.variants is not None:
        return conduct_variants(asked)
    show = SweepShow(asked.output, sys.stdout, sys.stderr)
    journal = None if folder is None else Journal.open(folder)
    if journal is not None:
        asked = resumed(asked, journal.state.plan.flags)
    subject = Subject(standin=read_standin(asked.what.standin))
    if asked.output.dry_run:
        asking, schedules = plan_of(asked, subject)
        show.plan(asking, schedules)
        return ExitCode.OK
    summary = asyncio.run(sweep_once(asked, subject, show, asked.output.out, journal))
    show.result(summary)
    return exit_code(summary)


def exit_code(summary: SweepSummary) -> int:
    """What a sweep that ended so says."""
    if summary.progress.status == "interrupted":
        return ExitCode.INTERRUPTED
    return ExitCode.OK if summary.verdict.status == "valid" else ExitCode.INVALID


def read_standin(text: str | None) -> StandinOptions | None:
    """Read ``--standin "--speed 10 --max-num-seqs 8"``.

    Raises:
        UsageError: flags that the stand-in has not.
    """
    if text is None:
        return None
    try:
        return parse(shlex.split(text))
    except SystemExit:
        raise UsageError(
            f"--standin {text!r} cannot be read", "see loadgen serve --help"
        ) from None
    except ValueError as error:
        raise UsageError(f"--standin {text!r}: {error}") from None


def plan_of(asked: Asked, subject: Subject) -> tuple[Asking, Schedules]:
    """Plan and check all that can be checked without a server.

    Raises:
        UsageError: naming what cannot be used.
    """
    schedules = _schedules(asked, subject)
    asking = make_sweep_plan(asked, schedules, datetime.now(UTC), subject.name)
    plan = asking.plan
    for rate in {*plan.rates_rps[:1], *plan.rates_rps[-1:]}:
        source = schedules.at_rate(rate, plan.seeds[0], plan.run_ns)
        read = read_flags(source.api, asked.to, asked.how)
        check_machine(
            source, read, asked.how, Show(asked.output, sys.stdout, sys.stderr)
        )
    return asking, schedules


def _schedules(asked: Asked, subject: Subject) -> Schedules:
    if asked.to.url is not None and subject.standin is not None:
        raise UsageError("--standin and --url exclude each other")
    model = asked.plan.model or (None if asked.to.url else "stand-in")
    return Schedules(
        flags=asked.plan, endpoint=asked.to.endpoint, model=model, only=subject.only
    )


async def sweep_once(
    asked: Asked,
    subject: Subject,
    show: SweepShow,
    out: Path,
    journal: Journal | None = None,
) -> SweepSummary:
    """Make the runs of one sweep, or those that are left of it.

    Args:
        asked: the flags.
        subject: what this sweep differs in.
        show: the person's side.
        out: the folder that the sweep's is made in.
        journal: of a sweep to go on with.

    Returns:
        What is known in the end; it is in the folder too.

    Raises:
        UsageError: a flag that cannot be used; nothing was sent.
        TargetError: no server, at the start or later.
    """
    if journal is None:
        asking, schedules = plan_of(asked, subject)
        show.begins(asking, schedules)
    else:
        schedules = _schedules(asked, subject)
    read = read_flags(asked.plan.api, asked.to, asked.how)
    judge_by(asked.evidence, read.slo, from_now=True)  # refuse bad files before t0
    async with AsyncExitStack() as stack:
        bench = await reach(
            schedules.model, read, asked.to, stack, show.note, subject.standin
        )
        if journal is None:
            journal = _created(asking.plan, out)
        else:
            journal.add(Resumed(at_utc=_utc()))
        show.folder(journal.folder, out if subject.name else journal.folder)
        journal.add(_met(bench, asked))
        offerer = _OnBench(asked, schedules, read, bench, journal, show)

        def changed() -> None:
            _save(journal, going_on=journal.state.stopped is None)
            show.progress(journal.state, going.planned())

        going = Sweep(
            journal=journal,
            course=course_of(journal.state.plan),
            offerer=offerer,
            clock=MonotonicClock(),
            on_event=changed,
        )
        await going.go()
    return summarise(journal.state)


def _created(plan: SweepPlan, out: Path) -> Journal:
    run = RunDir.create(out, plan.name, datetime.fromisoformat(plan.started_utc))
    return Journal.create(run.path, plan)


def _met(bench: Bench, asked: Asked) -> Met:
    server = bench.server
    return Met(
        at_utc=_utc(),
        basis=server.basis,
        url=server.target.url,
        model=bench.model,
        server_version=server.found.version,
        workload=Path(asked.plan.workload).stem,
    )


def _save(journal: Journal, *, going_on: bool) -> None:
    from loadgen.cli.sweep_show import encode_sweep

    summary = summarise(journal.state, going_on=going_on)
    with atomic_file(journal.folder / SUMMARY_NAME) as out:
        out.write(encode_sweep(summary))


def _utc() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


class _OnBench:
    """Makes the sweep's runs on one server."""

    def __init__(
        self,
        asked: Asked,
        schedules: Schedules,
        read: Read,
        bench: Bench,
        journal: Journal,
        show: SweepShow,
    ) -> None:
        self._asked = asked
        self._schedules = schedules
        self._read = read
        self._bench = bench
        self._journal = journal
        self._show = show
        self._clock = MonotonicClock()
        self._warm = False
        telemetry = bench.telemetry
        self._queue = EngineQueue(
            telemetry.sources, load_vocabulary(), telemetry.watched.metrics_note
        )

    async def rest(self, sleep: Pause) -> Settle:
        await self._still_there(sleep)
        return await settle(
            self._queue, self._journal.state.plan.settle_ns, self._clock, sleep
        )

    async def _still_there(self, sleep: Pause) -> None:
        """Wait a while for a server that is away; runs without it would say nothing."""
        for _ in range(GONE_S):
            try:
                await connectable_address(self._bench.server.target)
            except TargetError:
                if await sleep(1.0):
                    return
            else:
                return
        await connectable_address(self._bench.server.target)

    async def offer(
        self, what: Step | Surge, how_settled: Settle, begun: Callable[[str], None]
    ) -> RunPoint | RunRecovery | None:
        plan = self._journal.state.plan
        seed = plan.seeds[what.schedule]
        if isinstance(what, Step):
            source = self._schedules.at_rate(what.rate_rps, seed, plan.run_ns)
            name = f"{what.rate_rps:g}rps-{what.schedule + 1}"
            made = await self._made(source, name, begun, {"rate_rps": what.rate_rps})
            return (
                None if made.interrupted else self._point(what, seed, made, how_settled)
            )
        source, phases = self._schedules.surge(
            what.base_rps, what.peak_rps, seed, plan.run_ns
        )
        name = f"overload-{what.schedule + 1}"
        made = await self._made(source, name, begun, {"overload": what._asdict()})
        return None if made.interrupted else self._recovery(what, phases, made)

    async def _made(
        self,
        source: Source,
        name: str,
        begun: Callable[[str], None],
        config: dict[str, object],
    ) -> Made:
        asked = self._asked
        how = replace(asked.how, warmup=0) if self._warm else asked.how
        self._warm = True
        return await offer_once(
            source,
            self._bench,
            self._read,
            how,
            judge_by(asked.evidence, self._read.slo, from_now=True),
            self._show.of_run(),
            out=self._journal.folder,
            name=name,
            config={"sweep": config},
            begun=lambda run: begun(run.path.name),
        )

    def _point(
        self, step: Step, seed: int, made: Made, how_settled: Settle
    ) -> RunPoint:
        place = Place(
            folder=made.run.path.name,
            rate_rps=step.rate_rps,
            schedule=step.schedule,
            seed=seed,
        )
        return run_point(place, made.summary, _data(made), how_settled)

    def _recovery(self, surge: Surge, phases: Phases, made: Made) -> RunRecovery:
        data = _data(made)
        kept = meets(
            self._read.slo,
            data,
            times_of(data),
            stream=not self._asked.plan.no_stream,
        )
        figures = recovery(
            phases, data.scheduled_ns, data.end_ns, good_rows(kept, data.ok)
        )
        verdict = made.summary.verdict
        phase_s = phases.base_ends_ns / 1e9
        return RunRecovery(
            folder=made.run.path.name,
            schedule=surge.schedule,
            base_rps=surge.base_rps,
            peak_rps=surge.peak_rps,
            phase_s=(phase_s, phase_s, phase_s),
            usable=verdict.status == "valid",
            why_not="; ".join(reason.text for reason in verdict.reasons) or None,
            **figures,
        )


def _data(made: Made) -> RunData:
    offered = made.summary.offered.requests
    return RunData.collect(made.run.records(offered=offered), offered)
