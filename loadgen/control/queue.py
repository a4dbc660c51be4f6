"""How much an engine has to do, asked of its own metrics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from loadgen.telemetry.exposition import Point
from loadgen.telemetry.prometheus import Metrics
from loadgen.telemetry.vocabulary import Engine, Vocabulary, base_name

__all__ = ["EngineQueue", "open_in"]

TERMS = ("running", "waiting")


class EngineQueue:
    """The queue behind all of a run's metrics addresses.

    Args:
        sources: the addresses; none is told as ``note``.
        vocabulary: which series tell of a queue.
        note: why there are no addresses.
    """

    def __init__(
        self, sources: Sequence[Metrics], vocabulary: Vocabulary, note: str = ""
    ) -> None:
        self._sources = sources
        self._engines = list(vocabulary.engines.values())
        self._note = note or "no metrics are watched"

    async def open_requests(self) -> int | str:
        """Requests running and waiting in all engines, or why that is not known."""
        if not self._sources:
            return self._note
        points: list[Point] = []
        for source in self._sources:
            sample = await source.scrape("run")
            if sample.status != "ok":
                return f"{source.url}: {sample.status}"
            points += sample.points
        found = open_in(points, self._engines)
        return "the metrics tell of no queue" if found is None else found


def open_in(points: Iterable[Point], engines: Iterable[Engine]) -> int | None:
    """Requests running and waiting by these rows; None where none tells.

    What stands before an engine counts the same requests again, so it is asked
    only where no engine tells.
    """
    rows = [point for point in points if point.value is not None]
    for layer_is_engine in (True, False):
        told = [
            value
            for engine in engines
            if (engine.layer == "engine") is layer_is_engine
            if (value := _open(rows, engine)) is not None
        ]
        if told:
            return round(sum(told))
    return None


def _open(rows: Sequence[Point], engine: Engine) -> float | None:
    values = [
        row.value or 0.0
        for term in TERMS
        if (series := engine.series.get(term)) is not None
        for row in rows
        if base_name(row.name) == series.selector.name
        and series.selector.takes(row.labels)
    ]
    return sum(values) if values else None
