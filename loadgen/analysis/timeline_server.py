"""One server's metrics over a run: ``summary.telemetry.server``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from loadgen.analysis.counters import ENGINE_COUNTERS
from loadgen.analysis.findings import Finding
from loadgen.analysis.reconcile import EngineDeltas
from loadgen.analysis.stats import Floats
from loadgen.telemetry.samples import ServerSample
from loadgen.telemetry.series import CounterSeen, Scrapes, Seen
from loadgen.telemetry.vocabulary import (
    Engine,
    Kind,
    Rename,
    Selector,
    Series,
    Term,
    Vocabulary,
    base_name,
)
from loadgen.units import NS_PER_MS, ns_to_s

__all__ = ["InFlight", "ServerSeen", "engine_deltas", "server_seen"]

LAG_MIN_IN_FLIGHT = 4
LAG_NS = 500 * NS_PER_MS
_NAMES_SHOWN = 5


class Looks(msgspec.Struct, frozen=True, kw_only=True):
    """The scrapes: how many answered, how many did not, and how long they took."""

    ok: int
    failed: int
    failures: dict[str, int]
    took_max_s: float | None


class Renamed(msgspec.Struct, frozen=True, kw_only=True):
    """A series under two names; ``gone`` is the version without the old one."""

    old: str
    new: str
    gone: str | None
    text: str


class ServerSeen(msgspec.Struct, frozen=True, kw_only=True):
    """What one address told.

    ``status`` is ``ok``, ``off``, or why nothing could be read. ``series`` holds
    the terms of the vocabulary, and series that were asked for by their own name.
    ``missing`` are names that a page of this engine and version should have.
    ``foreign_requests`` are finished requests above what we know to have sent:
    others use the server, or something before it sends twice.
    """

    status: str
    url: str | None = None
    engine: str | None = None
    title: str | None = None
    layer: str | None = None
    version: str | None = None
    scrapes: Looks | None = None
    series: dict[str, Seen] = {}
    missing: list[str] = []
    renamed: list[Renamed] = []
    restarts: int = 0
    foreign_requests: int | None = None
    prefix_hit_rate: float | None = None
    findings: list[Finding] = []


class InFlight(NamedTuple):
    """Our own requests on the axis: when each was sent and when it ended, ns."""

    sent_ns: Floats
    end_ns: Floats

    def at(self, instant_ns: float, *, for_ns: float = 0) -> int:
        """How many were under way; at least so many for ``for_ns`` already."""
        sent = np.searchsorted(self.sent_ns, instant_ns - for_ns, side="right")
        ended = np.searchsorted(self.end_ns, instant_ns, side="right")
        return max(0, int(sent - ended))


def server_seen(
    samples: Sequence[ServerSample],
    vocabulary: Vocabulary,
    *,
    url: str,
    version: str | None,
    asked: Sequence[str],
    in_flight: InFlight,
) -> tuple[ServerSeen, Scrapes | None]:
    """Fold the scrapes of one address.

    Args:
        samples: in order of time.
        vocabulary: the terms and engines.
        url: the address, as it is shown.
        version: the engine's, as far as known.
        asked: further series by their own names.
        in_flight: our requests.
    """
    looks = _looks(samples)
    names = {name for sample in samples for name in sample.names}
    engines = vocabulary.recognise(names)
    flaws = [
        Finding(code="metrics_flaw", count=1, text=f"{url}: {words}")
        for words in dict.fromkeys(w for sample in samples for w in sample.flaws)
    ]
    if not engines and not (asked and names):
        status = _failure(samples) or "no known series"
        flaws.append(
            Finding(code="no_metrics", count=1, text=f"no metrics of {url}: {status}")
        )
        return ServerSeen(status=status, url=url, scrapes=looks, findings=flaws), None
    engine = engines[0] if engines else Engine("", "", "", (), {}, {})
    scrapes = Scrapes(samples, engine, vocabulary, version)
    series = {t: one for t in engine.series if (one := scrapes.seen(t)) is not None}
    for name in asked:
        if (one := _asked(scrapes, name)) is not None:
            series[name] = one
    missing, renamed = _absent(scrapes, asked)
    seen = ServerSeen(
        status="ok",
        url=url,
        engine=engine.name or None,
        title=engine.title or None,
        layer=engine.layer or None,
        version=version if engine.layer == "engine" else None,
        scrapes=looks,
        series=series,
        missing=missing,
        renamed=renamed,
        restarts=scrapes.restarts(),
        prefix_hit_rate=_hit_rate(series),
    )
    found = [*flaws, *_findings(seen, scrapes, samples, in_flight)]
    return msgspec.structs.replace(seen, findings=found), scrapes


def engine_deltas(seen: ServerSeen, scrapes: Scrapes) -> EngineDeltas | None:
    """The engine's account of the run; None where both ends were not seen."""
    if seen.engine not in ENGINE_COUNTERS:
        return None
    if scrapes.before is None or scrapes.after is None:
        return None
    success = seen.series.get("success")
    ranks = {
        label
        for sample in scrapes.good
        for point in sample.points
        if (label := point.labels.get("engine")) is not None
    }
    return EngineDeltas(
        engine=seen.engine,
        success=_whole(success),
        admission_rejections=_whole(seen.series.get("admission_rejections")),
        aborted=_whole(seen.series.get("aborted")),
        failed=_whole(seen.series.get("failed")),
        resets=seen.restarts,
        processes=max(1, len(ranks)),
        missing=tuple(name for name in seen.missing if _counts(name, scrapes)),
    )


def _whole(seen: Seen | None) -> int | None:
    if not isinstance(seen, CounterSeen) or seen.delta is None:
        return None
    return round(seen.delta)


def _counts(name: str, scrapes: Scrapes) -> bool:
    """Whether a missing series is one that the account is made from."""
    terms = ("success", "admission_rejections", "aborted")
    return any(
        term in scrapes.engine.series and scrapes.engine.series[term].name == name
        for term in terms
    )


def _looks(samples: Sequence[ServerSample]) -> Looks:
    failures: dict[str, int] = {}
    for sample in samples:
        if sample.status != "ok":
            failures[sample.status] = failures.get(sample.status, 0) + 1
    took = [sample.took_ns for sample in samples]
    return Looks(
        ok=len(samples) - sum(failures.values()),
        failed=sum(failures.values()),
        failures=failures,
        took_max_s=ns_to_s(max(took)) if took else None,
    )


def _failure(samples: Sequence[ServerSample]) -> str:
    return next((s.status for s in samples if s.status != "ok"), "")


def _asked(scrapes: Scrapes, name: str) -> Seen | None:
    """A series by its own name; the parser names every counter ``_total``."""
    selector = Selector.parse(name)
    if not scrapes.has(selector.name):
        return None
    is_counter = any(
        base_name(point.name) == selector.name and point.name.endswith("_total")
        for sample in scrapes.good
        for point in sample.points
    )
    kind: Kind = "counter" if is_counter else "gauge"
    return scrapes.seen_of(Series(name), Term(kind, ""))


def _absent(scrapes: Scrapes, asked: Sequence[str]) -> tuple[list[str], list[Renamed]]:
    """What should be there and is not, and what is there by an older name."""
    missing, renamed = [], []
    for series in scrapes.engine.series.values():
        found = scrapes.present(series)
        if found is None and scrapes.expected(series):
            missing.append(series.name)
        elif found is not None and found.name != series.selector.name:
            for old, rename in scrapes.engine.old_names(series):
                if Selector.parse(old).name == found.name:
                    renamed.append(_renamed(old, rename))
    for name in asked:
        base = Selector.parse(name).name
        if scrapes.has(base):
            continue
        missing.append(name)
        known = scrapes.vocabulary.rename_of(base)
        if known is not None:
            renamed.append(_renamed(name, known))
    return list(dict.fromkeys(missing)), renamed


def _renamed(old: str, rename: Rename) -> Renamed:
    return Renamed(old=old, new=rename.to, gone=rename.gone, text=rename.words(old))


def _hit_rate(series: dict[str, Seen]) -> float | None:
    """Of the run alone: the counters' lifetime ratio would mix in what was before."""
    queries, hits = series.get("prefix_queries"), series.get("prefix_hits")
    if not isinstance(queries, CounterSeen) or not isinstance(hits, CounterSeen):
        return None
    if not queries.delta or hits.delta is None:
        return None
    return hits.delta / queries.delta


def _findings(
    seen: ServerSeen,
    scrapes: Scrapes,
    samples: Sequence[ServerSample],
    in_flight: InFlight,
) -> Iterator[Finding]:
    for phase, place, when in (
        ("start", scrapes.before, "before t0"),
        ("end", scrapes.after, "after the drain"),
    ):
        if place is None:
            yield Finding(
                code=f"{phase}_scrape_failed",
                count=1,
                text=f"no counters of {seen.url} {when}; what they grew by is unknown",
            )
    failed = [s.status for s in samples if s.phase == "run" and s.status != "ok"]
    if failed:
        total = sum(sample.phase == "run" for sample in samples)
        yield Finding(
            code="scrape_gaps",
            count=1,
            text=f"{len(failed)} of {total} looks at {seen.url} failed ({failed[0]}); "
            "peaks are lower bounds",
        )
    if seen.restarts:
        yield Finding(
            code="server_restarted",
            count=1,
            text=f"counters of {seen.url} started over: the server restarted, or "
            "several processes answer there in turn; deltas are lower bounds",
        )
    if seen.missing:
        yield _missing(seen)
    for rename in seen.renamed:
        yield Finding(code="series_renamed", count=1, text=rename.text)
    yield from _gauge_lag(scrapes, in_flight)


def _missing(seen: ServerSeen) -> Finding:
    named = ", ".join(seen.missing[:_NAMES_SHOWN])
    more = len(seen.missing) - _NAMES_SHOWN
    return Finding(
        code="series_missing",
        count=1,
        text=f"{seen.title or 'the server'} {seen.version or '(version not known)'} "
        f"does not have {named}{f' and {more} more' if more > 0 else ''}: missing, "
        "not 0",
    )


def _gauge_lag(scrapes: Scrapes, in_flight: InFlight) -> Iterator[Finding]:
    """Gauges at zero while requests of ours had long been under way."""
    levels = []
    for term in ("running", "waiting"):
        series = scrapes.engine.series.get(term)
        selector = None if series is None else scrapes.present(series)
        if selector is None:
            return
        levels.append(dict(scrapes.level(selector, "gauge")))
    idle = [at for at, running in levels[0].items() if not running]
    under_way = [
        in_flight.at(at, for_ns=LAG_NS) for at in idle if not levels[1].get(at)
    ]
    most = max(under_way, default=0)
    if most >= LAG_MIN_IN_FLIGHT:
        yield Finding(
            code="gauge_lag",
            count=1,
            text=f"its gauges stood at 0 while up to {most} requests of ours were "
            "under way: they lag, so peaks are lower bounds",
        )
