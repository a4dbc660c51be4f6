"""Where the schedule of a run comes from: planned now, or sealed before."""

from __future__ import annotations

import shutil
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from loadgen.cli.planning import Plan, protocol_of, write_schedule
from loadgen.control.judging import open_schedule
from loadgen.errors import UsageError, naming
from loadgen.plan.schedule import Schedule, load

__all__ = ["FromFile", "FromPlan", "Source"]


class Source(Protocol):
    """A schedule to be.

    Attributes:
        name: what the run is called unless told otherwise.
        model: the model its bodies name; None where the server may choose.
        at_ns: due times.
        asked: rate and duration as asked for.
        notes: what a reader must know of the input.
    """

    @property
    def name(self) -> str: ...
    @property
    def model(self) -> str | None: ...
    @property
    def at_ns(self) -> Sequence[int]: ...
    @property
    def asked(self) -> dict[str, float | None]: ...
    @property
    def api(self) -> str: ...
    @property
    def duration_ns(self) -> int: ...
    @property
    def notes(self) -> tuple[str, ...]: ...

    def write(self, path: Path, model: str) -> None:
        """Write the sealed schedule to ``path``."""
        ...


class FromPlan:
    """Planned from flags; sealed once the model is known."""

    def __init__(self, plan: Plan, model: str | None) -> None:
        self._plan = plan
        self.name = plan.source.name
        self.model = model
        self.api = plan.protocol.name
        self.notes = plan.notes
        self.duration_ns = int(plan.arrivals["duration_ns"])
        self.at_ns: Sequence[int] = array("q", plan.at_ns.tobytes())
        self.asked: dict[str, float | None] = {
            "rate_rps": plan.asked.rate_rps,
            "duration_s": plan.asked.duration_s,
        }

    def write(self, path: Path, model: str) -> None:
        with path.open("wb") as out:
            write_schedule(self._plan, model, out)


class FromFile:
    """A sealed file, offered byte for byte.

    Raises:
        UsageError: missing, cut, edited, or for an API this version has not.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._schedule = _open(path)
        header = self._schedule.header
        protocol_of(header.api)
        self.name = path.name.split(".")[0]
        self.model: str | None = header.model
        self.api = header.api
        self.notes: tuple[str, ...] = ()
        self.duration_ns = header.duration_ns
        self.at_ns: Sequence[int] = self._schedule.at_ns
        self.asked: dict[str, float | None] = {
            "rate_rps": header.asked.rate_rps,
            "duration_s": header.asked.duration_s,
        }

    def write(self, path: Path, model: str) -> None:
        shutil.copyfile(self._path, path)


def _open(path: Path) -> Schedule:
    if path.exists() and not path.is_file():
        raise UsageError(f"schedule {path} is no regular file")
    with naming(f"schedule {path}"):
        try:
            return open_schedule(path)
        except OSError as error:
            raise UsageError(str(error.strerror)) from None
        except ValueError:  # an empty file cannot be mapped
            return load(b"")
