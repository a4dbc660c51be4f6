"""``loadgen sweep --variants``: the same sweep on several servers, side by side."""

from __future__ import annotations

import asyncio
import shlex
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from loadgen import __version__
from loadgen.analysis.variants import VariantResult, VariantsSummary, interference
from loadgen.cli.experiment import Experiment, Variant, read_variants, with_defaults
from loadgen.cli.sweep_plan import Asked, kept_flags, resumed
from loadgen.cli.sweep_show import SweepShow, encode_sweep
from loadgen.cli.sweeping import Subject, exit_code, plan_of, read_standin, sweep_once
from loadgen.control.journal import Journal, read_state
from loadgen.control.launch import DEFAULT_URL, Launch, launched, masked
from loadgen.control.sweep_judging import summarise
from loadgen.errors import ExitCode, LoadgenError, RunDirError, UsageError, naming
from loadgen.model import Basis
from loadgen.store import RunDir
from loadgen.store.files import atomic_file, io_errors
from loadgen.units import parse_duration_ns

__all__ = ["FLAGS_NAME", "VARIANTS_NAME", "conduct_variants"]

VARIANTS_NAME = "variants.json"
FLAGS_NAME = "variants-flags.json"
"""By this file a folder of variants is known; the summary comes with the first end."""


def conduct_variants(asked: Asked) -> int:
    """Sweep each variant, and report them side by side.

    Returns:
        The exit code; results are saved whatever it is.
    """
    folder = asked.what.resume
    if folder is not None:
        asked = resumed(asked, _read_flags(folder))
    assert asked.what.variants is not None
    name = asked.output.name or asked.what.variants.stem
    experiment = read_variants(asked.what.variants)
    show = SweepShow(asked.output, sys.stdout, sys.stderr)
    flags = kept_flags(asked)
    asked = with_defaults(asked, experiment.sweep)
    _refuse(asked, experiment)
    if asked.output.dry_run:
        for variant in experiment.variants:
            show.note(f"variant {variant.name}")
            show.plan(*plan_of(_to(asked, variant, None), _subject(asked, variant)))
        return ExitCode.OK
    if folder is None:
        folder = RunDir.create(asked.output.out, name, datetime.now(UTC)).path
        with atomic_file(folder / FLAGS_NAME) as out:
            out.write(msgspec.json.encode(flags) + b"\n")
    made = _Variants(asked, experiment, show, folder, name)
    code = asyncio.run(made.go())
    show.variants(made.summary())
    return code


def _read_flags(folder: Path) -> dict[str, dict[str, Any]]:
    path = folder / FLAGS_NAME
    with io_errors("read", path):
        raw = path.read_bytes()
    try:
        return msgspec.json.decode(raw, type=dict[str, dict[str, Any]])
    except msgspec.DecodeError as error:
        raise RunDirError(f"{path} is damaged: {error}") from None


def _refuse(asked: Asked, experiment: Experiment) -> None:
    if asked.what.standin is not None:
        raise UsageError("--standin is given by each variant here")
    for variant in experiment.variants:
        with naming(f"variant {variant.name}"):
            parse_duration_ns(variant.limit)
            if variant.standin is not None:
                read_standin(variant.standin)
            if asked.to.url is not None and (variant.launch or variant.standin):
                raise UsageError("it has a server of its own", "leave out --url")
            plan_of(_to(asked, variant, None), _subject(asked, variant))


def _subject(asked: Asked, variant: Variant) -> Subject:
    return Subject(
        name=variant.name,
        only=tuple(variant.only),
        standin=read_standin(variant.standin),
    )


def _to(asked: Asked, variant: Variant, url: str | None) -> Asked:
    """The flags of one variant's sweep."""
    if variant.launch is not None:
        some_url = url or DEFAULT_URL.replace("{port}", "1")  # none before the launch
        asked = replace(asked, to=replace(asked.to, url=some_url))
    output = replace(asked.output, name=variant.name)
    return replace(asked, output=output)


@dataclass(slots=True)
class _Standing:
    """What is known of a variant by now."""

    folder: Path | None = None
    ready_s: float | None = None
    trouble: str | None = None


class _Variants:
    """The variants' sweeps, one after the other, each on its own server."""

    def __init__(
        self,
        asked: Asked,
        experiment: Experiment,
        show: SweepShow,
        folder: Path,
        name: str,
    ) -> None:
        self._name = name
        self._asked = asked
        self._experiment = experiment
        self._show = show
        self._folder = folder
        self._started_utc = datetime.now(UTC).isoformat(timespec="seconds")
        self._standing = {v.name: _Standing() for v in experiment.variants}
        for path in sorted(folder.glob("*/sweep.jsonl")):
            variant = read_state(path.parent).plan.variant
            if variant in self._standing:
                self._standing[variant].folder = path.parent

    async def go(self) -> int:
        """Make what is left of each variant; the worst of their exit codes."""
        worst = 0
        for variant in self._experiment.variants:
            standing = self._standing[variant.name]
            journal = None
            if standing.folder is not None:
                journal = Journal.open(standing.folder)
                stopped = journal.state.stopped
                if stopped is not None and stopped.status == "complete":
                    continue
            self._show.note(f"variant {variant.name}")
            try:
                code = await self._sweep(variant, standing, journal)
            except LoadgenError as error:
                standing.trouble = str(error)
                self._show.note(f"variant {variant.name}: {error}")
                code = error.exit_code
            self._find(variant, standing)
            self._save()
            if code == ExitCode.INTERRUPTED:
                return code
            worst = max(worst, code)
        return worst

    async def _sweep(
        self, variant: Variant, standing: _Standing, journal: Journal | None
    ) -> int:
        subject = _subject(self._asked, variant)
        began_s = time.monotonic()
        async with self._server(variant) as own_url:
            if own_url is not None:
                standing.ready_s = round(time.monotonic() - began_s, 3)
            summary = await sweep_once(
                _to(self._asked, variant, own_url),
                subject,
                self._show,
                self._folder,
                journal,
            )
        return exit_code(summary)

    @asynccontextmanager
    async def _server(self, variant: Variant) -> AsyncIterator[str | None]:
        """The variant's own server; None where it has none."""
        command = variant.command
        if command is None:
            yield None
            return
        launch = Launch(
            command=command,
            url=variant.url or DEFAULT_URL,
            health=variant.health,
            limit_ns=parse_duration_ns(variant.limit),
            env=variant.env,
        )
        log_path = self._folder / f"{variant.name}-server.log"
        self._show.note(f"launching {shlex.join(masked(command))}")
        async with launched(launch, log_path) as url:
            yield url

    def _find(self, variant: Variant, standing: _Standing) -> None:
        for path in self._folder.glob("*/sweep.jsonl"):
            if read_state(path.parent).plan.variant == variant.name:
                standing.folder = path.parent

    def summary(self) -> VariantsSummary:
        """All that is known of all of them."""
        results = [self._result(variant) for variant in self._experiment.variants]
        bases = [one.sweep.basis for one in results if one.sweep is not None]
        return VariantsSummary(
            basis=bases[0] if bases else Basis.MEASURED,
            name=self._name,
            started_utc=self._started_utc,
            loadgen_version=__version__,
            file=str(self._asked.what.variants),
            description=self._experiment.description,
            variants=results,
            interference=interference(results),
        )

    def _result(self, variant: Variant) -> VariantResult:
        standing = self._standing[variant.name]
        sweep, trouble = None, standing.trouble
        if standing.folder is not None:
            try:
                sweep = summarise(read_state(standing.folder))
            except RunDirError as error:
                trouble = trouble or str(error)
        command = variant.command
        return VariantResult(
            name=variant.name,
            folder=standing.folder.name if standing.folder else None,
            launch=None if command is None else masked(command),
            standin=variant.standin,
            only=variant.only,
            ready_s=standing.ready_s,
            sweep=sweep,
            trouble=trouble,
        )

    def _save(self) -> None:
        with atomic_file(self._folder / VARIANTS_NAME) as out:
            out.write(encode_sweep(self.summary()))
