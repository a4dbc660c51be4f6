"""One run from a reachable server to a judged folder."""

from __future__ import annotations

import asyncio
import os
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from loadgen import __version__
from loadgen.analysis.summary import Summary
from loadgen.control.ask import Session
from loadgen.control.judging import Judge, client_facts, open_schedule
from loadgen.control.lengths import (
    MAX_PROMPTS,
    PromptLengths,
    count_locally,
    count_on_server,
)
from loadgen.control.limits import Limits
from loadgen.control.offer import Offered, Snapshot, offer
from loadgen.control.preflight import Found
from loadgen.control.target import Target
from loadgen.control.telemetry import Telemetry
from loadgen.issue.config import IssueConfig, PromptTokens, Tls
from loadgen.issue.engine import Engine, HostClock
from loadgen.model import Basis, Manifest, TokenSource
from loadgen.plan.schedule import Schedule
from loadgen.store import RunDir

__all__ = ["Client", "OfferedRun", "Server"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Who is tested and how to talk to it.

    ``counting`` is a session with whoever counts prompts: the engine itself where
    it is known, else the target. ``secrets`` are the values among ``headers`` that
    no file may hold, not even where the server says them back, in each spelling.
    """

    target: Target
    address: tuple[str, int, int]
    counting: Session
    headers: Sequence[tuple[str, str]]
    secrets: Sequence[str]
    tls: Tls | None
    found: Found
    basis: Basis


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """How requests are sent."""

    limits: Limits
    processes: int
    engine: Engine
    fresh_connections: bool
    keep_text: bool
    stamps: str
    count_tokens: Callable[[str], int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedRun:
    """A run folder with its schedule in it, ready to be offered."""

    run: RunDir
    server: Server
    client: Client
    config: dict[str, Any]
    command: Sequence[str]
    name: str
    started_utc: datetime
    duration_ns: int
    telemetry: Telemetry

    async def go(
        self, judge: Judge, warmup: Path | None, on_tick: Callable[[Snapshot], None]
    ) -> tuple[Summary, Offered]:
        """Measure lengths, warm up, offer, judge; everything is in the folder after.

        Args:
            judge: makes the summary.
            warmup: a sealed schedule offered before t0 and never counted.
            on_tick: shown the counters while the run is going.
        """
        # Whoever offers it looks for itself whether it is as it was sealed.
        schedule = open_schedule(self.run.schedule_path, verify=False)
        lengths = await self._lengths(schedule)
        manifest = self._manifest(schedule, lengths)
        self.run.write_manifest(manifest)
        if warmup is not None:
            await self._warm_up(warmup)
        counted = self._store_lengths(lengths)
        configs = [
            self._issue_config(schedule, counted, process)
            for process in range(self.client.processes)
        ]
        with ExitStack() as held:  # to be interrupted is to be saved
            async with self.telemetry.watching(self.run.telemetry_path) as watch:

                def tick(snapshot: Snapshot) -> None:
                    watch.tick(snapshot)
                    on_tick(snapshot)

                offered = await offer(
                    configs, tick, watch.started, self.client.engine, held
                )
            if offered.clocks:
                manifest = _with_clocks(manifest, offered.clocks)
            facts = client_facts(offered.stats, watch.steal_share)
            summary = await asyncio.to_thread(judge.finish, self.run, manifest, facts)
        if self.run.summary_path.is_file():  # else a later judgement needs it
            self._remove_scratch()
        return summary, offered

    @property
    def _request_id_prefix(self) -> str:
        return f"lg-{self.started_utc:%m%d%H%M%S}-"

    def _issue_config(
        self, schedule: Schedule, counted: PromptTokens, process: int
    ) -> IssueConfig:
        """What one of the processes is told; they differ in their share alone."""
        host, port, family = self.server.address
        limits = self.client.limits
        return IssueConfig(
            schedule_path=str(self.run.schedule_path),
            records_path=str(self.run.shard_path(process)),
            progress_path=str(self.run.progress_path(process)),
            api=schedule.header.api,
            stream=schedule.header.stream,
            address=(host, port),
            family=family,
            host_header=self.server.target.authority,
            path=schedule.header.path,
            tls=self.server.tls,
            headers=list(self.server.headers),
            secrets=list(self.server.secrets),
            request_id_prefix=self._request_id_prefix,
            stripe=(process, self.client.processes),
            connect_ns=limits.connect_ns,
            idle_ns=limits.idle_ns,
            total_ns=limits.total_ns,
            drain_ns=limits.drain_ns,
            fresh_connections=self.client.fresh_connections,
            keep_text=self.client.keep_text,
            stamps=self.client.stamps,
            prompt_tokens=counted,
        )

    async def _warm_up(self, schedule_path: Path) -> None:
        config = msgspec.structs.replace(
            self._issue_config(open_schedule(schedule_path), PromptTokens(), 0),
            schedule_path=str(schedule_path),
            records_path=str(self.run.warmup_path),
            progress_path=None,
            request_id_prefix=f"{self._request_id_prefix}w",
            stripe=(0, 1),
        )
        if (await offer([config], lambda _: None)).interrupts:
            raise KeyboardInterrupt

    async def _lengths(self, schedule: Schedule) -> PromptLengths:
        def bodies() -> Iterator[bytes]:
            return map(schedule.body, range(len(schedule)))

        note = "too many prompts to ask the server"
        if len(schedule) <= MAX_PROMPTS:
            counted = await count_on_server(
                self.server.counting, bodies(), schedule.header.model
            )
            if isinstance(counted, PromptLengths):
                return counted
            note = counted
        if self.client.count_tokens is not None:
            return count_locally(bodies(), self.client.count_tokens)
        return PromptLengths(schedule.prompt_tokens, TokenSource.ESTIMATE, note)

    def _store_lengths(self, lengths: PromptLengths) -> PromptTokens:
        path = self.run.path / "prompt-tokens.bin"
        with path.open("wb") as out:
            lengths.tokens.tofile(out)
        return PromptTokens(path=str(path), source=lengths.source)

    def _manifest(self, schedule: Schedule, lengths: PromptLengths) -> Manifest:
        header = schedule.header
        return Manifest(
            loadgen_version=__version__,
            python_version=platform.python_version(),
            host=_host(),
            command=list(self.command),
            started_utc=self.started_utc.isoformat(timespec="seconds"),
            name=self.name,
            basis=self.server.basis,
            config={
                **self.config,
                "processes": self.client.processes,
                "request_id_prefix": self._request_id_prefix,
                "metrics_url": next(iter(self.telemetry.watched.metrics), None),
                "watched": msgspec.to_builtins(self.telemetry.watched),
                "model": header.model,
                "stream": header.stream,
                "api": header.api,
                "path": header.path,
                "workload": header.workload,
                "seed": header.seed,
                "arrivals": header.arrivals,
                "prompt_lengths": {
                    "source": lengths.source,
                    "note": lengths.note or None,
                },
            },
            target=self.server.found.as_manifest(self.server.target),
            schedule_digest=schedule.digest,
            offered_requests=len(schedule),
            duration_ns=schedule.duration_ns,
            clock={"reference": "CLOCK_MONOTONIC since t0"},
        )

    def _remove_scratch(self) -> None:
        for process in range(self.client.processes):
            self.run.progress_path(process).unlink(missing_ok=True)
        (self.run.path / "prompt-tokens.bin").unlink(missing_ok=True)


def _with_clocks(manifest: Manifest, clocks: Sequence[HostClock]) -> Manifest:
    """Instants of another host are its own; t0 differs by no more than the bound."""
    bounds = [clock.bound_ns for clock in clocks]
    known = [bound for bound in bounds if bound is not None]
    told = {
        "hosts": msgspec.to_builtins(clocks),
        "worst_bound_ns": max(known) if len(known) == len(bounds) else None,
    }
    return msgspec.structs.replace(manifest, clock=manifest.clock | told)


def _host() -> dict[str, Any]:
    return {
        "system": platform.system(),
        "release": platform.release(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "implementation": sys.implementation.name,
    }
