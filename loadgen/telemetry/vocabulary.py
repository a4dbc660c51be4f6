"""One vocabulary for what servers count, and which series each engine has for it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import Literal

import msgspec

from loadgen.errors import UsageError

__all__ = [
    "Engine",
    "Kind",
    "Rename",
    "Selector",
    "Series",
    "Term",
    "Vocabulary",
    "base_name",
    "load_vocabulary",
    "parse_vocabulary",
]

Kind = Literal["gauge", "ratio", "counter", "histogram"]

_SELECTOR = re.compile(r"([^{}]+)(?:\{(.*)\})?")
_LABEL = re.compile(r'([A-Za-z_]\w*)(!?=)"([^"]*)"(?:,|$)')
_HISTOGRAM_SUFFIX = re.compile(r"_(bucket|sum|count)$")


def base_name(name: str) -> str:
    """A series' name without ``_total``: exporters differ in writing it."""
    return name.removesuffix("_total")


class Selector(msgspec.Struct, frozen=True):
    """Which rows of a series: its base name, labels that must and must not hold."""

    name: str
    equal: tuple[tuple[str, str], ...] = ()
    unequal: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        """As a person would ask Prometheus for it, but for ``_total``."""
        labels = [f'{name}="{value}"' for name, value in self.equal]
        labels += [f'{name}!="{value}"' for name, value in self.unequal]
        return f"{self.name}{{{','.join(labels)}}}" if labels else self.name

    def takes(self, labels: Mapping[str, str]) -> bool:
        """Whether a row with these labels is meant; an absent label is empty."""
        return all(labels.get(name, "") == value for name, value in self.equal) and all(
            labels.get(name, "") != value for name, value in self.unequal
        )

    @classmethod
    def parse(cls, text: str) -> Selector:
        """Read ``name`` or ``name{label="value",other!="value"}``.

        Raises:
            UsageError: it is neither.
        """
        match = _SELECTOR.fullmatch(text.strip())
        labels = _labels(match[2] or "") if match else None
        if match is None or labels is None:
            raise UsageError(f"{text!r} names no series")
        pairs: dict[str, list[tuple[str, str]]] = {"=": [], "!=": []}
        for label, sign, value in labels:
            pairs[sign].append((label, value))
        return cls(base_name(match[1].strip()), tuple(pairs["="]), tuple(pairs["!="]))


def _labels(text: str) -> list[tuple[str, str, str]] | None:
    found, end = [], 0
    for match in _LABEL.finditer(text):
        if match.start() != end:
            return None
        found.append((match[1], match[2], match[3]))
        end = match.end()
    return found if end == len(text) else None


class Series(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One engine's series for one term; see the head of ``series.toml``."""

    name: str
    since: str | None = None
    absent: Literal["missing", "zero", "unknown"] = "missing"
    scale: float = 1.0

    @property
    def selector(self) -> Selector:
        return Selector.parse(self.name)


class Rename(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What became of an old name: ``to`` is empty where nothing took its place."""

    to: str
    gone: str | None = None

    def words(self, old: str) -> str:
        """``old is now new; the old name is gone since 0.12``."""
        since = f"since {self.gone}" if self.gone else "in newer versions"
        if not self.to:
            return f"{old} is gone {since}, without a successor"
        return f"{old} is now {self.to}; the old name is gone {since}"


class Term(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One thing servers count: how rows of it add up, and in which unit."""

    kind: Kind
    unit: str


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    layer: Literal["engine", "router", "gateway", "provider"]
    prefixes: list[str]
    read: str
    series: dict[str, str | Series]
    renamed: dict[str, Rename] = {}


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    terms: dict[str, Term]
    engines: dict[str, _Entry]


@dataclass(frozen=True)
class Engine:
    """One engine, router or gateway, and its series by term."""

    name: str
    title: str
    layer: str
    prefixes: tuple[str, ...]
    series: Mapping[str, Series]
    renamed: Mapping[str, Rename]

    def has(self, name: str) -> bool:
        """Whether a series' name is one of this engine's."""
        return name.startswith(self.prefixes)

    def old_names(self, series: Series) -> Iterator[tuple[str, Rename]]:
        """Names that stood for a series in older versions."""
        for old, rename in self.renamed.items():
            if rename.to and base_name(rename.to) == series.selector.name:
                yield old, rename


@dataclass(frozen=True)
class Vocabulary:
    """All terms and engines. ``known`` holds the base names worth keeping."""

    terms: Mapping[str, Term]
    engines: Mapping[str, Engine]

    @cached_property
    def known(self) -> frozenset[str]:
        names = {"process_start_time_seconds"} | self._names(histograms=True)
        for engine in self.engines.values():
            names.update(base_name(old) for old in engine.renamed)
        return frozenset(names)

    @cached_property
    def brief(self) -> frozenset[str]:
        """Of the known names, all but histograms.

        They are long, and only their growth over the whole run is used.
        """
        return self.known - self._names(histograms=True) | self._names()

    def _names(self, *, histograms: bool = False) -> set[str]:
        return {
            series.selector.name
            for engine in self.engines.values()
            for term, series in engine.series.items()
            if histograms or self.terms[term].kind != "histogram"
        }

    def recognise(self, names: Iterable[str]) -> list[Engine]:
        """Whose page it is, engines before what stands in front of them."""
        names = list(names)
        found = [e for e in self.engines.values() if any(map(e.has, names))]
        return sorted(found, key=lambda engine: engine.layer != "engine")

    def rename_of(self, name: str) -> Rename | None:
        """What became of a name; None where nothing is known of it."""
        base = base_name(name)
        for engine in self.engines.values():
            for old, rename in engine.renamed.items():
                if base_name(old) == base:
                    return rename
        return None


def parse_vocabulary(text: str) -> Vocabulary:
    """Read a vocabulary file.

    Raises:
        UsageError: it is not one, or a term or a series in it is not known.
    """
    try:
        file = msgspec.toml.decode(text, type=_File)
    except msgspec.DecodeError as error:
        raise UsageError(f"series file: {error}") from None
    engines = {name: _engine(name, entry) for name, entry in file.engines.items()}
    for engine in engines.values():
        unknown = engine.series.keys() - file.terms.keys()
        if unknown:
            raise UsageError(f"series file: {engine.name} has unknown {unknown}")
        for series in engine.series.values():
            Selector.parse(series.name)
    return Vocabulary(file.terms, engines)


def _engine(name: str, entry: _Entry) -> Engine:
    return Engine(
        name=name,
        title=entry.title,
        layer=entry.layer,
        prefixes=tuple(entry.prefixes),
        series={
            term: Series(one) if isinstance(one, str) else one
            for term, one in entry.series.items()
        },
        renamed=entry.renamed,
    )


def load_vocabulary() -> Vocabulary:
    """The vocabulary that comes with the package."""
    file = resources.files("loadgen.telemetry") / "series.toml"
    return parse_vocabulary(file.read_text("utf-8"))


def family_name(name: str) -> str:
    """The base name of a sample: histogram suffixes and ``_total`` taken off."""
    return base_name(_HISTOGRAM_SUFFIX.sub("", name))
