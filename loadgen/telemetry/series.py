"""One server's scrapes folded into the vocabulary: a level or a count a term.

Pure. Counters and queue lengths are summed over engines and models; of ratios the
highest is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec

from loadgen.telemetry.counting import (
    Buckets,
    Quantile,
    histogram_increase,
    increase,
    summed,
)
from loadgen.telemetry.exposition import Point
from loadgen.telemetry.samples import ServerSample
from loadgen.telemetry.vocabulary import Engine, Selector, Series, Term, Vocabulary

__all__ = ["CounterSeen", "GaugeSeen", "HistogramSeen", "Scrapes", "Seen"]

Labels = tuple[tuple[str, str], ...]
Key = tuple[str, Labels]
Rows = Mapping[Key, float | None]


class _Seen(msgspec.Struct, frozen=True, tag_field="kind"):
    """What became of a term: ``kind`` in JSON says which sort it is."""


class GaugeSeen(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="gauge"
):
    """A level over the run; ``at_ns`` is when ``peak`` was seen, ns since t0.

    ``peak`` is the highest of ``n`` looks: between two of them it may have been
    higher. ``by`` are the peaks of its rows, by the labels they differ in.
    """

    series: str
    unit: str
    before: float | None
    after: float | None
    peak: float | None
    at_ns: int | None
    mean: float | None
    n: int
    by: dict[str, float]


class CounterSeen(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="counter"
):
    """A count over the run: ``delta`` is None without a look at both ends.

    With ``resets`` the delta is a lower bound: what a process counted after the
    last look before its end is lost. ``assumed``: the series was on no page, and
    such a one appears with its first count, so the delta is 0.
    """

    series: str
    unit: str
    before: float | None
    after: float | None
    delta: float | None
    resets: int
    assumed: bool
    by: dict[str, float]


class HistogramSeen(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="histogram"
):
    """What was observed in the run alone; in seconds.

    A quantile is None where it lies above the last finite bound, ``above``.
    """

    series: str
    unit: str
    count: float | None
    mean: float | None
    p50: float | None
    p90: float | None
    p99: float | None
    above: float | None
    reset: bool


Seen = GaugeSeen | CounterSeen | HistogramSeen


@dataclass(frozen=True)
class Scrapes:
    """All scrapes of one address, in order of time.

    Args:
        samples: those that failed too.
        engine: whose page it is.
        vocabulary: the terms.
        version: the engine's, as far as known.
    """

    samples: Sequence[ServerSample]
    engine: Engine
    vocabulary: Vocabulary
    version: str | None

    @cached_property
    def good(self) -> list[ServerSample]:
        return [sample for sample in self.samples if sample.status == "ok"]

    @cached_property
    def names(self) -> frozenset[str]:
        """Base names of all series that were ever on the page."""
        return frozenset(name for sample in self.good for name in sample.names)

    @cached_property
    def _rows(self) -> list[Rows]:
        return [{p.key: p.value for p in sample.points} for sample in self.good]

    @cached_property
    def _keys(self) -> dict[str, list[Key]]:
        """All rows ever seen, by base name."""
        found: dict[str, list[Key]] = {}
        for key in dict.fromkeys(key for rows in self._rows for key in rows):
            found.setdefault(key[0], []).append(key)
        return found

    def _of(self, selector: Selector) -> list[Key]:
        """The rows that a selector takes."""
        keys = self._keys.get(selector.name, [])
        return [key for key in keys if selector.takes(dict(key[1]))]

    def _end(self, phase: str) -> int | None:
        """The last good scrape of a phase, by its place in ``good``."""
        places = [i for i, sample in enumerate(self.good) if sample.phase == phase]
        return places[-1] if places else None

    @cached_property
    def before(self) -> int | None:
        return self._end("before")

    @cached_property
    def after(self) -> int | None:
        return self._end("after")

    def seen(self, term: str) -> Seen | None:
        """What became of a term; None where its series is not on the page."""
        series = self.engine.series.get(term)
        if series is None:
            return None
        return self.seen_of(series, self.vocabulary.terms[term])

    def seen_of(self, series: Series, term: Term) -> Seen | None:
        """The same of any series, read as the term's kind says."""
        found = self.present(series)
        if found is None:
            return None
        if term.kind == "counter":
            return self._counter(series, found, term)
        if term.kind == "histogram":
            return self._histogram(series, found, term)
        return self._gauge(series, found, term)

    def present(self, series: Series) -> Selector | None:
        """The rows to read a series from: its own, or an older name's."""
        selector = series.selector
        if self.has(selector.name):
            return selector
        for old, _ in self.engine.old_names(series):
            if self.has(Selector.parse(old).name):
                return msgspec.structs.replace(selector, name=Selector.parse(old).name)
        return selector if series.absent == "zero" and self.good else None

    def has(self, base: str) -> bool:
        """Whether a series was ever on the page, be it a histogram."""
        return base in self.names or f"{base}_count" in self.names

    def expected(self, series: Series) -> bool:
        """Whether a page of this version should have it from the start."""
        if series.absent != "missing":
            return False
        return (
            series.since is None
            or self.version is None
            or version_of(self.version) >= version_of(series.since)
        )

    def restarts(self) -> int:
        """How often counters fell or a process' start time moved."""
        counters = {
            key
            for term, series in self.engine.series.items()
            if self.vocabulary.terms[term].kind == "counter"
            and (selector := self.present(series)) is not None
            for key in self._of(selector)
        }
        starts = self._keys.get(_START, [])
        found, last = 0, {}  # type: int, dict[Key, float]
        for rows in self._rows:
            now = {
                key: value
                for key in (*counters, *starts)
                if (value := rows.get(key)) is not None
            }
            found += any(
                value != last.get(key, value)
                if key[0] == _START
                else value < last.get(key, value)
                for key, value in now.items()
            )
            last.update(now)
        return found

    def level(self, selector: Selector, kind: str) -> list[tuple[int, float]]:
        """A gauge over time: (ns since t0, value)."""
        fold: Callable[[Iterable[float]], float] = max if kind == "ratio" else sum
        levels, keys = [], self._of(selector)
        for sample, rows in zip(self.good, self._rows, strict=True):
            values = [v for key in keys if (v := rows.get(key)) is not None]
            if values:
                levels.append((sample.at_ns, fold(values)))
        return levels

    def _at(self, place: int | None, selector: Selector, kind: str) -> float | None:
        if place is None:
            return None
        rows, keys = self._rows[place], self._of(selector)
        values = [value for key in keys if (value := rows.get(key)) is not None]
        if not values:
            return None
        return max(values) if kind == "ratio" else sum(values)

    def _gauge(self, series: Series, selector: Selector, term: Term) -> GaugeSeen:
        levels = self.level(selector, term.kind)
        at_ns, peak = max(levels, key=lambda look: look[1], default=(None, None))
        peaks: dict[Labels, float] = {}
        for key in self._of(selector):
            seen = [v for rows in self._rows if (v := rows.get(key)) is not None]
            if seen:
                peaks[key[1]] = max(seen)
        return GaugeSeen(
            series=_name(series, selector),
            unit=term.unit,
            before=self._at(self.before, selector, term.kind),
            after=self._at(self.after, selector, term.kind),
            peak=peak,
            at_ns=at_ns,
            mean=sum(v for _, v in levels) / len(levels) if levels else None,
            n=len(levels),
            by=_differing(peaks),
        )

    def _counter(self, series: Series, selector: Selector, term: Term) -> CounterSeen:
        keys = self._of(selector)
        deltas: dict[Labels, float] = {}
        resets = 0
        both = self.before is not None and self.after is not None
        if both:
            rows = self._rows[self.before : self.after + 1]  # type: ignore[operator]
            for key in keys:
                grew = increase([one.get(key) for one in rows])
                deltas[key[1]] = deltas.get(key[1], 0.0) + grew.delta
                resets = max(resets, grew.resets)
        return CounterSeen(
            series=_name(series, selector),
            unit=term.unit,
            before=self._at(self.before, selector, "counter"),
            after=self._at(self.after, selector, "counter"),
            delta=sum(deltas.values(), 0.0) if both else None,
            resets=resets,
            assumed=both and not keys,
            by=_differing(deltas),
        )

    def _histogram(
        self, series: Series, selector: Selector, term: Term
    ) -> HistogramSeen | None:
        if self.before is None or self.after is None:
            return None
        before, after = (
            summed(_histograms(self.good[place].points, selector))
            for place in (self.before, self.after)
        )
        if not after:
            return None
        grew, reset = histogram_increase(before, after)
        at = [_scaled(grew, q, series.scale) for q in (0.5, 0.9, 0.99)]
        above = [one.above for one in at if one is not None and one.value is None]
        mean = grew.mean
        return HistogramSeen(
            series=_name(series, selector),
            unit=term.unit,
            count=grew.n,
            mean=None if mean is None else mean * series.scale,
            p50=at[0].value if at[0] else None,
            p90=at[1].value if at[1] else None,
            p99=at[2].value if at[2] else None,
            above=above[0] if above else None,
            reset=reset,
        )


def _name(series: Series, selector: Selector) -> str:
    """The series that was read, in an exporter's spelling where it is known."""
    return series.name if selector == series.selector else selector.text


_START = "process_start_time_seconds"


def version_of(text: str) -> tuple[int, ...]:
    """``0.33.0rc1`` as numbers that compare; what follows them is passed over."""
    numbers: list[int] = []
    for part in text.lstrip("v").split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
        if digits != part:
            break
    return tuple(numbers)


def _differing(values: Mapping[Labels, float]) -> dict[str, float]:
    """Rows by the labels in which they differ; empty where there is but one."""
    if len(values) < 2:
        return {}
    common = set.intersection(*(set(labels) for labels in values))
    named: dict[str, float] = {}
    for labels, value in values.items():
        name = ",".join(f"{k}={v}" for k, v in labels if (k, v) not in common)
        named[name] = value
    return named


def _histograms(
    points: Iterable[Point], selector: Selector
) -> Iterable[dict[str, float]]:
    """One mapping a set of labels: cumulative counts by ``le``, sum and count."""
    found: dict[Labels, dict[str, float]] = {}
    for point in points:
        name, _, part = point.name.rpartition("_")
        if name != selector.name or part not in ("bucket", "sum", "count"):
            continue
        labels = {k: v for k, v in point.labels.items() if k != "le"}
        if point.value is None or not selector.takes(labels):
            continue
        key = point.labels.get("le", "") if part == "bucket" else part
        found.setdefault(tuple(sorted(labels.items())), {})[key] = point.value
    return found.values()


def _scaled(grew: Buckets, q: float, scale: float) -> Quantile | None:
    one = grew.quantile(q)
    if one is None:
        return None
    return Quantile(
        None if one.value is None else one.value * scale,
        None if one.above is None else one.above * scale,
    )
