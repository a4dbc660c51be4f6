"""A file of variants: what an experiment compares, and how it is meant to be run."""

from __future__ import annotations

import shlex
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Annotated

import msgspec

from loadgen.cli.options import OfferFlags, PlanFlags
from loadgen.cli.sweep import SweepFlags
from loadgen.cli.sweep_plan import Asked
from loadgen.control.files import text_of
from loadgen.errors import UsageError
from loadgen.plan.groups import Name

__all__ = ["Experiment", "Variant", "read_variants", "with_defaults"]

_FOLDER = "experiments"
MAX_FILE_BYTES = 16 << 20


class Variant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One variant, as it stands in the file.

    ``launch`` starts a server for it; ``standin`` gives the stand-in flags; with
    neither, the server of ``--url`` (or the default stand-in) is offered to.
    ``only`` leaves out the requests of other groups from the same schedules.
    """

    name: Name
    launch: str | list[str] | None = None
    url: str | None = None
    health: str = "/health"
    limit: str = "10m"
    env: dict[str, str] = {}
    standin: str | None = None
    only: list[str] = []

    def __post_init__(self) -> None:
        if self.launch is not None and self.standin is not None:
            raise ValueError("launch and standin exclude each other")
        if self.launch is None and (self.env or self.url is not None):
            raise ValueError("url and env need launch")

    @property
    def command(self) -> list[str] | None:
        if isinstance(self.launch, str):
            return shlex.split(self.launch)
        return self.launch


class Defaults(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Flags that the experiment is meant to be run with; flags given go before."""

    rates: str | None = None
    schedules: int | None = None
    duration: str | None = None
    settle: str | None = None
    target: str | None = None
    workload: str | None = None
    slo: str | None = None


class Experiment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of variants."""

    variants: Annotated[list[Variant], msgspec.Meta(min_length=1, max_length=50)]
    description: str = ""
    sweep: Defaults = Defaults()


def read_variants(named: Path) -> Experiment:
    """Read a file of variants, or an experiment that comes with the program.

    Raises:
        UsageError: missing, not TOML, or not what it should be.
    """
    where = f"--variants {named}"
    if named.suffix == ".toml":
        text = text_of(named, "--variants", MAX_FILE_BYTES)
    else:
        text = _builtin(str(named))
    try:
        experiment = msgspec.toml.decode(text, type=Experiment)
    except msgspec.DecodeError as error:
        raise UsageError(f"{where}: {error}") from None
    names = [variant.name for variant in experiment.variants]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{where}: two variants are named {name}")
    return experiment


def _builtin(name: str) -> str:
    folder = resources.files("loadgen") / "workloads" / _FOLDER
    names = sorted(
        file.name.removesuffix(".toml")
        for file in folder.iterdir()
        if file.name.endswith(".toml")
    )
    if name not in names:
        raise UsageError(
            f"no experiment {name!r}",
            f"there are {', '.join(names)}, or give the path of a .toml file",
        )
    return (folder / f"{name}.toml").read_text(encoding="utf-8")


def with_defaults(asked: Asked, defaults: Defaults) -> Asked:
    """The flags; those that were not given are the experiment's."""

    def taken(flags: object, kind: type, *names: str) -> dict[str, object]:
        untouched = kind()
        return {
            name: wanted
            for name in names
            if (wanted := getattr(defaults, name)) is not None
            and getattr(flags, name) == getattr(untouched, name)
        }

    what, plan, how = asked.what, asked.plan, asked.how
    return replace(
        asked,
        what=replace(
            what,
            **taken(what, SweepFlags, "rates", "schedules", "settle", "target"),  # type: ignore[arg-type]
        ),
        plan=replace(plan, **taken(plan, PlanFlags, "duration", "workload")),  # type: ignore[arg-type]
        how=replace(how, **taken(how, OfferFlags, "slo")),  # type: ignore[arg-type]
    )
