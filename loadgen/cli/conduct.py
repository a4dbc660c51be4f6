"""Offer one schedule and say what came of it: the flow `burst` and `replay` share."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from loadgen.analysis.summary import Summary
from loadgen.cli.bench import Bench, Read, reach, read_flags
from loadgen.cli.capacity import check_capacity
from loadgen.cli.engines import engine_of
from loadgen.cli.evidence import judge_by
from loadgen.cli.options import (
    EvidenceFlags,
    OfferFlags,
    OutputFlags,
    PlanFlags,
    TargetFlags,
)
from loadgen.cli.planning import make_plan, write_schedule
from loadgen.cli.show import Show
from loadgen.cli.sources import Source
from loadgen.control.judging import Judge, Judged
from loadgen.control.run import Client, OfferedRun
from loadgen.control.tail import LayerTail
from loadgen.errors import ExitCode, RunDirError, UsageError
from loadgen.issue.limits import raise_descriptor_limit, read_machine, shortages
from loadgen.store import RunDir
from loadgen.store.files import io_errors

__all__ = ["Made", "check_machine", "conduct", "offer_once", "without_secrets"]


def conduct(
    source: Source,
    to: TargetFlags,
    how: OfferFlags,
    evidence: EvidenceFlags,
    output: OutputFlags,
) -> int:
    """Offer the source's schedule once and report.

    Returns:
        The exit code; results are saved whatever it is.
    """
    read = read_flags(source.api, to, how)
    judge = judge_by(evidence, read.slo, from_now=True)
    show = Show(output, sys.stdout, sys.stderr)
    for note in source.notes:
        show.note(f"note: {note}")
    check_machine(source, read, how, show)
    if output.dry_run:
        _dry_run(source, read, how, show)
        return ExitCode.OK
    return asyncio.run(_conduct(source, read, to, how, judge, output, show))


def check_machine(source: Source, read: Read, how: OfferFlags, show: Show) -> None:
    """Refuse what this machine surely cannot offer, warn of what it may not.

    Raises:
        UsageError: files or ports will run out, or the engine is out of reach.
    """
    raise_descriptor_limit()
    engine = engine_of(how)
    engine.check(how.processes)
    if engine.remote:
        return  # each node looks for itself
    loopback = read.target is None or read.target.is_loopback
    for lack in shortages(
        source.at_ns,
        read_machine(loopback=loopback),
        total_ns=read.limits.total_ns,
        fresh_connections=how.fresh_connections,
        processes=how.processes,
    ):
        words = f"{lack.need:,} {lack.what} needed, {lack.have:,} there: {lack.why}"
        if lack.certain:
            raise UsageError(words, lack.remedy)
        show.note(f"warning: {words}; {lack.remedy}")
    cores = len(os.sched_getaffinity(0))
    if how.processes > cores:
        show.note(
            f"warning: {how.processes} issuing processes on {cores} processors: "
            "they will wait for each other"
        )


def _dry_run(source: Source, read: Read, how: OfferFlags, show: Show) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "schedule.jsonl"
        source.write(path, source.model or "MODEL")
        check_capacity(path, read.slo, how, show.note)
        show.plan(path, model_known=source.model is not None)


async def _conduct(
    source: Source,
    read: Read,
    to: TargetFlags,
    how: OfferFlags,
    judge: Judge,
    output: OutputFlags,
    show: Show,
) -> int:
    seen: list[Judged] = []
    async with AsyncExitStack() as stack:
        bench = await reach(source.model, read, to, stack, show.note)
        made = await offer_once(
            source,
            bench,
            read,
            how,
            replace(judge, see=seen.append),
            show,
            out=output.out,
            name=output.name or source.name,
        )
        show.result(seen[-1], made.run)
    if not made.run.summary_path.is_file():
        raise RunDirError(
            f"the results in {made.run.path} could not be saved whole",
            f"make room, then loadgen report {made.run.path}",
        )
    if made.interrupted:
        return ExitCode.INTERRUPTED
    return ExitCode.OK if made.summary.verdict.status == "valid" else ExitCode.INVALID


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A run that was made, whole or broken off."""

    run: RunDir
    summary: Summary
    interrupted: bool


async def offer_once(
    source: Source,
    bench: Bench,
    read: Read,
    how: OfferFlags,
    judge: Judge,
    show: Show,
    *,
    out: Path,
    name: str,
    config: Mapping[str, Any] | None = None,
    begun: Callable[[RunDir], None] = lambda _: None,
) -> Made:
    """Make one run in a folder of its own.

    Args:
        source: the schedule.
        bench: the server.
        read: the flags.
        how: the flags as they were given.
        judge: makes the summary.
        show: the person's side.
        out: the folder that the run's folder is made in.
        name: the run's.
        config: what else the manifest keeps.
        begun: told of the folder before anything is sent.

    Raises:
        UsageError: it does not fit this machine, and that was to be refused.
    """
    started = datetime.now(UTC)
    run = RunDir.create(out, name, started)
    with io_errors("write", run.schedule_path):
        source.write(run.schedule_path, bench.model)
    try:
        check_capacity(run.schedule_path, read.slo, how, show.note)
    except UsageError:
        run.schedule_path.unlink()
        run.path.rmdir()
        raise
    begun(run)
    offered_run = OfferedRun(
        run=run,
        server=bench.server,
        client=Client(
            limits=read.limits,
            processes=how.processes,
            engine=engine_of(how),
            fresh_connections=how.fresh_connections,
            keep_text=how.keep_text,
            stamps=how.stamps,
            count_tokens=read.count_tokens,
        ),
        config={
            "slo": how.slo,
            "asked": source.asked,
            "notes": list(source.notes),
            **_limits_as_typed(how),
            **(config or {}),
        },
        command=without_secrets(sys.argv[1:]),
        name=name,
        started_utc=started,
        duration_ns=source.duration_ns,
        telemetry=bench.telemetry,
    )
    shards = [run.shard_path(process) for process in range(how.processes)]
    tail = LayerTail(shards, judge.attribute)
    with show.live(offered_run, source.at_ns, tail) as on_tick:
        summary, offered = await offered_run.go(
            judge, _warmup(run, how.warmup, bench.model, source.api), on_tick
        )
    return Made(run=run, summary=summary, interrupted=offered.interrupts > 0)


def _warmup(run: RunDir, count: int, model: str, api: str) -> Path | None:
    """A schedule of its own: other prompts than the run's, two a second."""
    if count == 0:
        return None
    flags = PlanFlags(
        workload="short-questions",
        arrivals="constant",
        rate="2/s",
        duration=f"{count * 500}ms",
        seed=0x5EED,
        api=api,
    )
    path = run.path / "warmup-schedule.jsonl"
    with path.open("wb") as out:
        write_schedule(make_plan(flags, None), model, out)
    return path


def _limits_as_typed(how: OfferFlags) -> dict[str, str | bool | int]:
    return {
        "warmup": how.warmup,
        "connect_timeout": how.connect_timeout,
        "idle_timeout": how.idle_timeout,
        "timeout": how.timeout,
        "drain": how.drain,
        "fresh_connections": how.fresh_connections,
        "stamps": how.stamps,
    }


def without_secrets(arguments: list[str]) -> list[str]:
    """The command line with the values of headers blotted out."""
    kept, blot = [], False
    for argument in arguments:
        if blot:
            kept.append(f"{argument.partition(':')[0]}: ***")
            blot = False
        elif argument.startswith("--header="):
            kept.append(f"{argument.partition(':')[0]}: ***")
        else:
            kept.append(argument)
            blot = argument == "--header"
    return ["loadgen", *kept]
