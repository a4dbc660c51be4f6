"""What is asked: groups of generated prompts, read from a TOML text.

``workloads/README.md`` is the manual of the format. Every refusal names the key,
and the line where it stands.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from importlib import resources
from typing import Annotated, Any, Protocol

import msgspec

from loadgen.errors import UsageError
from loadgen.plan.arrivals import Arrivals
from loadgen.plan.generate import assign, generate
from loadgen.plan.groups import Group
from loadgen.plan.pointers import refuse_pointer
from loadgen.plan.prompts import Prompt
from loadgen.units import parse_duration_ns, parse_rate_rps

__all__ = [
    "PromptSource",
    "Timing",
    "Workload",
    "builtin_names",
    "builtin_text",
    "parse_mix",
    "parse_workload",
]

#: Fields that are text with a unit: their names in Arrivals, and their readers.
_NUMBERS: dict[str, tuple[str, Callable[[str], float]]] = {
    "rate": ("rate_rps", parse_rate_rps),
    "end_rate": ("end_rate_rps", parse_rate_rps),
    "duration": ("duration_ns", parse_duration_ns),
    "on": ("on_ns", parse_duration_ns),
    "off": ("off_ns", parse_duration_ns),
}


class Timing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When requests are due unless flags say otherwise, as people type it.

    ``end_rate`` belongs to a ramp, ``on`` and ``off`` to on-off; see ``Arrivals``.
    """

    process: str = "poisson"
    rate: str | None = None
    end_rate: str | None = None
    duration: str | None = None
    burstiness: float | None = None
    on: str | None = None
    off: str | None = None
    fixed_count: bool | None = None

    def override(self, **given: str | float | bool | None) -> Timing:
        """This timing with the fields that are given (None: not given) replaced.

        Another process takes nothing of the old one but rate and duration.
        """
        changed = {key: value for key, value in given.items() if value is not None}
        kept: dict[str, Any] = msgspec.structs.asdict(self)
        if changed.get("process", self.process) != self.process:
            kept = {key: kept[key] for key in ("rate", "duration")}
        return Timing(**(kept | changed))

    def arrivals(self) -> Arrivals:
        """The arrival process in numbers.

        Raises:
            UsageError: rate or duration is missing or no number with its unit.
        """
        for key in ("rate", "duration"):
            if getattr(self, key) is None:
                raise UsageError(f"the {key} is not given", f"give --{key}")
        numbers: dict[str, Any] = {
            name: self.number(key)
            for key, (name, _) in _NUMBERS.items()
            if getattr(self, key) is not None
        }
        if self.burstiness is not None:
            numbers["burstiness"] = self.burstiness
        return Arrivals(
            process=self.process, fixed_count=bool(self.fixed_count), **numbers
        )

    def number(self, key: str) -> float | None:
        """The number a field's text means; None where it has none.

        Raises:
            UsageError: it means none.
        """
        text = getattr(self, key)
        return None if text is None else _NUMBERS[key][1](text)


class PromptSource(Protocol):
    """Anything that prompts can be had from: a workload, a file, a trace."""

    @property
    def name(self) -> str: ...
    @property
    def group_names(self) -> list[str]: ...
    def prompts(self, count: int, seed: int) -> Iterator[Prompt]: ...


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """Groups of requests and how they are mixed.

    ``equal`` keeps the groups' request counts equal (they differ by one at most,
    where the count does not divide); otherwise each request's group is drawn by
    weight. ``seed`` is None where the workload names none.
    """

    name: str
    groups: tuple[Group, ...]
    description: str = ""
    equal: bool = False
    seed: int | None = None
    timing: Timing = Timing()

    @property
    def group_names(self) -> list[str]:
        return [group.name for group in self.groups]

    def prompts(self, count: int, seed: int) -> Iterator[Prompt]:
        """The prompts of ``count`` requests in schedule order."""
        weights = [group.share for group in self.groups]
        which = assign(weights, count, seed, equal=self.equal)
        return generate(self.groups, which, seed)

    def with_mix(self, mix: dict[str, float]) -> Workload:
        """These groups in other shares; a group the mix leaves out is left out.

        Raises:
            UsageError: a name the workload has not.
        """
        unknown = [name for name in mix if name not in self.group_names]
        if unknown:
            raise UsageError(
                f"the workload {self.name} has no group {', '.join(unknown)}",
                f"there are {', '.join(self.group_names)}",
            )
        groups = tuple(
            msgspec.structs.replace(group, weight=mix[group.name])
            for group in self.groups
            if mix.get(group.name)
        )
        equal = self.equal and len({group.weight for group in groups}) == 1
        return msgspec.structs.replace(self, groups=groups, equal=equal)

    def with_max_tokens(self, max_tokens: int) -> Workload:
        """The same workload with one output limit for all groups.

        Raises:
            UsageError: the limit is no positive number.
        """
        if max_tokens < 1:
            raise UsageError(f"max_tokens must be at least 1, not {max_tokens}")
        groups = tuple(
            msgspec.structs.replace(group, max_tokens=max_tokens)
            for group in self.groups
        )
        return msgspec.structs.replace(self, groups=groups)


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    groups: Annotated[tuple[Group, ...], msgspec.Meta(min_length=1, max_length=1000)]
    description: str = ""
    equal: bool = False
    seed: int | None = None
    arrivals: Timing = Timing()

    def __post_init__(self) -> None:
        for key in _NUMBERS:
            try:
                self.arrivals.number(key)
            except UsageError as error:
                raise ValueError(f"{error} - at `$.arrivals.{key}`") from None
        names = [group.name for group in self.groups]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two groups are named {name}")
        weighted = [group.name for group in self.groups if group.weight is not None]
        if self.equal and weighted:
            raise ValueError(f"equal = true leaves no weight to group {weighted[0]}")
        if not any(group.share for group in self.groups):
            raise ValueError("no group has a weight above 0")


def parse_workload(text: str, name: str) -> Workload:
    """Read a workload from the text of its TOML file.

    Args:
        text: the file's text.
        name: what results call it.

    Raises:
        UsageError: naming the key, and the line where there is one.
    """
    refuse_pointer(text[:400].encode())
    try:
        tables = tomllib.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:  # also numbers without end
        raise UsageError(f"workload {name}: {error}") from None
    try:
        file = msgspec.convert(tables, _File)
    except msgspec.ValidationError as error:
        raise UsageError(f"workload {name}: {_located(text, str(error))}") from None
    return Workload(
        name=name,
        groups=file.groups,
        description=file.description,
        equal=file.equal,
        seed=file.seed,
        timing=file.arrivals,
    )


def parse_mix(text: str) -> dict[str, float]:
    """Read ``short-question=50,long-document=50``.

    Raises:
        UsageError: not that, a name twice, or no share above 0.
    """
    mix: dict[str, float] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*([\w.-]+)\s*=\s*([0-9]{1,9}(?:\.[0-9]+)?)\s*", part)
        if match is None:
            raise UsageError(f"the mix {text!r} is not group=share,group=share")
        if match[1] in mix:
            raise UsageError(f"the mix {text!r} names {match[1]} twice")
        mix[match[1]] = float(match[2])
    if not any(mix.values()):
        raise UsageError(f"the mix {text!r} has no share above 0")
    return mix


def builtin_names() -> list[str]:
    """The workloads that come with the program."""
    files = (resources.files("loadgen") / "workloads").iterdir()
    names = (file.name for file in files if file.name.endswith(".toml"))
    return sorted(name.removesuffix(".toml") for name in names)


def builtin_text(name: str) -> str:
    """The TOML text of a workload that comes with the program.

    Raises:
        UsageError: there is none of this name.
    """
    if name not in builtin_names():
        raise UsageError(
            f"no workload {name!r}",
            f"there are {', '.join(builtin_names())}, or give the path of a file",
        )
    file = resources.files("loadgen") / "workloads" / f"{name}.toml"
    return file.read_text(encoding="utf-8")


def _located(text: str, message: str) -> str:
    """The message, led by the line of the key that it names.

    msgspec names a key as ``$.groups[1].max_tokens``, an unknown one in quotes.
    """
    path = re.search(r"at `\$([^`]*)`", message)
    keys = re.findall(r"\w+", path[1]) if path else []
    keys += re.findall(r"unknown field `([^`]+)`", message)
    lines = text.splitlines()
    at = None
    for place, key in enumerate(keys):
        if key.isdecimal():
            continue
        found = _lines_of(lines, key, at or 0)
        following = "".join(keys[place + 1 : place + 2])
        nth = int(following) if following.isdecimal() else 0
        if nth >= len(found):
            break
        at = found[nth]
    return message if at is None else f"line {at + 1}: {message}"


def _lines_of(lines: list[str], key: str, start: int) -> list[int]:
    key = re.escape(key)
    pattern = re.compile(rf"\s*(?:\[+\s*{key}\s*\]+|[\"']?{key}[\"']?\s*=)")
    return [at for at in range(start, len(lines)) if pattern.match(lines[at])]
