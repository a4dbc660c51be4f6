"""A sweep's journal: what was planned, begun and ended, one line each, in order.

It is the only state of a sweep. A sweep that was killed goes on from it, and
whatever is said of a sweep is computed from it anew.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from loadgen.analysis.curve import RunPoint
from loadgen.analysis.recovery import RunRecovery
from loadgen.analysis.sweep import CLIENT_CODES
from loadgen.control.rates import Done, Step
from loadgen.errors import RunDirError
from loadgen.model import Basis
from loadgen.store.files import io_errors
from loadgen.store.lines import UNREADABLE
from loadgen.store.schema import check_schema

__all__ = [
    "FILE_NAME",
    "Begun",
    "Dropped",
    "Ended",
    "Journal",
    "Met",
    "Overloaded",
    "Refused",
    "Resumed",
    "State",
    "Stopped",
    "SweepPlan",
    "read_state",
]

SCHEMA = "loadgen.sweep-journal/1"
FILE_NAME = "sweep.jsonl"
MAX_ATTEMPTS = 2


class SweepPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The first line: all that is needed to go on. No secrets.

    ``rates_rps`` is empty where the rates are to be found. ``flags`` are those of
    the command line, by group; of headers only the names.
    """

    schema: str = SCHEMA
    loadgen_version: str
    name: str
    variant: str | None
    started_utc: str
    command: list[str]
    host: dict[str, Any]
    rates: str
    rates_rps: list[float]
    schedules: int
    seeds: list[int]
    run_ns: int
    target: float
    budget_ns: int | None
    overload: bool
    settle_ns: int
    expected: str | None
    flags: dict[str, dict[str, Any]]


class _Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    at_utc: str


class Met(_Event, frozen=True, kw_only=True, tag="met"):
    """Who is tested, at the start and after each resume."""

    basis: Basis
    url: str
    model: str
    server_version: str | None
    workload: str


class Begun(_Event, frozen=True, kw_only=True, tag="begun"):
    """A run's folder was made."""

    folder: str


class Ended(_Event, frozen=True, kw_only=True, tag="ended"):
    """A run at one rate was judged."""

    run: RunPoint


class Overloaded(_Event, frozen=True, kw_only=True, tag="overloaded"):
    """A step past capacity and back was judged."""

    run: RunRecovery


class Refused(_Event, frozen=True, kw_only=True, tag="refused"):
    """A run that this machine cannot offer, so it was not begun."""

    rate_rps: float
    schedule: int
    why: str


class Dropped(_Event, frozen=True, kw_only=True, tag="dropped"):
    """A run that will be made again: the user stopped it, say."""

    folder: str
    why: str


class Resumed(_Event, frozen=True, kw_only=True, tag="resumed"):
    """The sweep was taken up again."""


class Stopped(_Event, frozen=True, kw_only=True, tag="stopped"):
    """The sweep ended: ``status`` as in ``Progress``."""

    status: str
    text: str
    planned_runs: int


Event = Met | Begun | Ended | Overloaded | Refused | Dropped | Resumed | Stopped


@dataclass(slots=True)
class State:
    """The journal, folded.

    Attributes:
        open: folders begun and neither ended nor dropped.
        dropped: folders of runs to be made again, and why.
        refused: places that this machine cannot offer, and why.
        flaws: lines that could not be read.
    """

    plan: SweepPlan
    met: list[Met] = field(default_factory=list)
    runs: list[RunPoint] = field(default_factory=list)
    overloads: list[RunRecovery] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    dropped: dict[str, str] = field(default_factory=dict)
    refused: dict[Step, str] = field(default_factory=dict)
    resumed_utc: list[str] = field(default_factory=list)
    stopped: Stopped | None = None
    flaws: list[str] = field(default_factory=list)

    def done(self) -> list[Done]:
        """What the course needs to know: the last usable run of each place."""
        places: dict[Step, float | None] = dict.fromkeys(self.refused)
        for run in self.runs:
            place = Step(run.rate_rps, run.schedule)
            if run.usable:
                places[place] = run.all.good / run.all.offered
            else:
                places.setdefault(place, None)
        return [Done(*place, ratio) for place, ratio in places.items()]

    def once_more(self) -> list[Step]:
        """Runs that deserve a second chance: left out for our own side's sake."""
        attempts = Counter(Step(run.rate_rps, run.schedule) for run in self.runs)
        usable = {Step(run.rate_rps, run.schedule) for run in self.runs if run.usable}
        ours = dict.fromkeys(
            Step(run.rate_rps, run.schedule)
            for run in self.runs
            if not run.usable and CLIENT_CODES & {r.code for r in run.reasons}
        )
        return [
            place
            for place in ours
            if place not in usable and attempts[place] < MAX_ATTEMPTS
        ]

    def take(self, event: Event) -> None:
        """Fold one more event in."""
        match event:
            case Met():
                self.met.append(event)
            case Begun():
                self.open.append(event.folder)
                self.stopped = None
            case Ended():
                self.runs.append(event.run)
                self._close(event.run.folder)
            case Overloaded():
                self.overloads.append(event.run)
                self._close(event.run.folder)
            case Refused():
                self.refused[Step(event.rate_rps, event.schedule)] = event.why
            case Dropped():
                self.dropped[event.folder] = event.why
                self._close(event.folder)
            case Resumed():
                self.resumed_utc.append(event.at_utc)
                self.stopped = None
            case Stopped():
                self.stopped = event

    def _close(self, folder: str) -> None:
        if folder in self.open:
            self.open.remove(folder)


class Journal:
    """The journal of a sweep that is going on.

    Args:
        folder: the sweep's.
        state: what is in the file; kept up with each event.
    """

    def __init__(self, folder: Path, state: State) -> None:
        self.folder = folder
        self.state = state
        self._path = folder / FILE_NAME

    @classmethod
    def create(cls, folder: Path, plan: SweepPlan) -> Journal:
        """Begin a sweep in a folder made for it."""
        journal = cls(folder, State(plan))
        journal._append(msgspec.json.encode(plan))
        return journal

    @classmethod
    def open(cls, folder: Path) -> Journal:
        """Go on with a sweep.

        Raises:
            RunDirError: there is none, or it is of another version.
        """
        journal = cls(folder, read_state(folder))
        raw = journal._path.read_bytes()
        if not raw.endswith(b"\n"):  # killed in the middle of a line
            journal._append(b"")
        return journal

    def add(self, event: Event) -> None:
        self._append(msgspec.json.encode(event))
        self.state.take(event)

    def _append(self, line: bytes) -> None:
        with io_errors("write", self._path), self._path.open("ab", buffering=0) as out:
            out.write(line + b"\n")
            os.fsync(out.fileno())


def read_state(folder: Path) -> State:
    """What a sweep's journal tells; a line torn by a kill is told as a flaw.

    Raises:
        RunDirError: no sweep, or one of another version.
    """
    path = folder / FILE_NAME
    if not path.is_file():
        raise RunDirError(f"{folder} is not a sweep's folder: it has no {FILE_NAME}")
    with io_errors("read", path):
        first, *lines = path.read_bytes().split(b"\n")
    try:
        check_schema(path, first, SCHEMA)
        state = State(msgspec.json.decode(first, type=SweepPlan))
    except UNREADABLE as error:
        raise RunDirError(f"{path} is damaged: {error}") from error
    decoder = msgspec.json.Decoder(Event)
    for number, line in enumerate(lines, 2):
        if not line:
            continue
        try:
            state.take(decoder.decode(line))
        except UNREADABLE:
            state.flaws.append(f"{FILE_NAME}: line {number} cannot be read")
    return state
