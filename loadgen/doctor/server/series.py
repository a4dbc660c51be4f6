"""What a server's metrics page has, and what it lacks of what it should. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from loadgen.doctor.check import Check, Status
from loadgen.doctor.server.engine import EngineSeen
from loadgen.doctor.server.reply import Reply
from loadgen.report.escape import safe
from loadgen.telemetry.exposition import NotMetricsError, Page, read_page
from loadgen.telemetry.prometheus import status_words
from loadgen.telemetry.samples import ServerSample
from loadgen.telemetry.series import Scrapes
from loadgen.telemetry.vocabulary import Engine, Selector, Vocabulary, base_name

__all__ = ["MetricsSeen", "read_metrics", "series_checks"]

SHOWN = 6
_TURN_ON = {
    "sglang": "start it with --enable-metrics",
    "llamacpp": "start it with --metrics",
    "ollama": "it has none; watch /api/ps and its log",
}


@dataclass(frozen=True, slots=True)
class MetricsSeen:
    """The page, or why there is none.

    Attributes:
        page: what is on it; None where there is no page.
        why_not: in words; empty where there is a page.
        engines: whose names it has, engines before what stands in front.
    """

    page: Page | None = None
    why_not: str = ""
    engines: list[Engine] = field(default_factory=list)


def read_metrics(reply: Reply | None, vocabulary: Vocabulary) -> MetricsSeen:
    """Read the answer of a metrics address; never raises."""
    if reply is None:
        return MetricsSeen(why_not="not asked")
    if reply.trouble:
        return MetricsSeen(why_not=reply.words)
    if not reply.ok:
        return MetricsSeen(why_not=status_words(reply.status or 0))
    content_type = reply.header("content-type") or ""
    try:
        page = read_page(reply.body, content_type, vocabulary.known)
    except NotMetricsError as error:
        return MetricsSeen(why_not=f"answers with something else: {error}")
    if not page.names:
        return MetricsSeen(why_not="an empty page")
    return MetricsSeen(page, engines=vocabulary.recognise(page.names))


def series_checks(
    seen: MetricsSeen,
    engine: EngineSeen | None,
    vocabulary: Vocabulary,
    asked: Sequence[str] = (),
) -> list[Check]:
    """Whether metrics answer, and which series are missing or renamed.

    Args:
        seen: the page.
        engine: which engine answers; None where it is not known.
        vocabulary: what each engine should have.
        asked: series that somebody says are read: each must be there.
    """
    if seen.page is None:
        return [_no_page(seen, engine), *_asked_of_nobody(asked)]
    checks = [_page_check(seen)]
    if seen.engines:
        checks.append(_series_check(seen, engine, vocabulary))
    checks += [_asked_check(n, seen.page, vocabulary) for n in dict.fromkeys(asked)]
    return checks


def _no_page(seen: MetricsSeen, engine: EngineSeen | None) -> Check:
    how = _TURN_ON.get(engine.name) if engine is not None else None
    return Check(
        id="server.metrics",
        name="metrics",
        status=Status.WARN,
        found=seen.why_not,
        meaning="queue, KV use and refusals cannot be seen from the server's side, and "
        "our counts not be held against its own",
        do=how or "name the address by --metrics-url, if there is one",
    )


def _page_check(seen: MetricsSeen) -> Check:
    assert seen.page is not None
    titles = ", ".join(engine.title for engine in seen.engines)
    flaws = f"; {safe(seen.page.flaws[0])}" if seen.page.flaws else ""
    return Check(
        id="server.metrics",
        name="metrics",
        status=Status.OK if titles and not flaws else Status.WARN,
        found=f"{len(seen.page.names)} series"
        + (f" of {titles}" if titles else ", of nobody known here")
        + flaws,
        meaning="" if titles else "no series with a known meaning: nothing to follow",
        do=None if titles else "name the engine's own address by --metrics-url",
    )


def _series_check(
    seen: MetricsSeen, found: EngineSeen | None, vocabulary: Vocabulary
) -> Check:
    assert seen.page is not None
    engine = seen.engines[0]
    version = found.version if found is not None and found.name == engine.name else None
    scrapes = Scrapes([_as_sample(seen.page)], engine, vocabulary, version)
    missing, old = [], []
    for term, series in engine.series.items():
        selector = scrapes.present(series)
        if selector is not None and selector.name != series.selector.name:
            old.append(f"{series.selector.name} is {selector.name} here")
        elif (
            selector is None
            and scrapes.expected(series)
            and vocabulary.terms[term].kind != "histogram"  # may await an answer
        ):
            missing.append(series.name)
    gone = list(_gone(engine, scrapes))
    status = Status.WARN if missing or old else Status.OK
    told = [f"MISSING {_list(missing)}"] if missing else []
    told += [f"old names: {_list(old)}"] if old else []
    blind = "sees nothing, and may take it for 0"
    return Check(
        id="server.series",
        name="expected series",
        status=status,
        found="; ".join(told) or f"all there that {engine.title} should have",
        meaning=f"a policy or dashboard that reads {_list(gone)} {blind}"
        if gone
        else "",
        do="read the names this version has" if status is Status.WARN else None,
    )


def _gone(engine: Engine, scrapes: Scrapes) -> Iterator[str]:
    """Old names, not on the page, that something may still read."""
    for old in engine.renamed:
        if not scrapes.has(base_name(old)):
            yield old


def _as_sample(page: Page) -> ServerSample:
    return ServerSample(
        at_ns=0, took_ns=0, phase="before", points=page.points, names=sorted(page.names)
    )


def _asked_check(name: str, page: Page, vocabulary: Vocabulary) -> Check:
    base = Selector.parse(name).name
    here = base in page.names or f"{base}_count" in page.names
    rename = vocabulary.rename_of(base)
    do = None
    if not here:
        do = f"read {rename.to}" if rename and rename.to else "read another series"
    return _asked_row(
        name,
        Status.OK if here else Status.FAIL,
        "present" if here else "MISSING",
        rename.words(_bare(name)) if rename else "",
        do,
    )


def _asked_of_nobody(asked: Sequence[str]) -> Iterator[Check]:
    for name in dict.fromkeys(asked):
        found = "no metrics page to find it on"
        yield _asked_row(name, Status.FAIL, found, "", "name one by --metrics-url")


def _asked_row(
    name: str, status: Status, found: str, meaning: str, do: str | None
) -> Check:
    return Check(
        id=f"server.series.{_bare(name)}",
        name=_bare(name),
        status=status,
        found=found,
        meaning=meaning,
        do=do,
    )


def _bare(name: str) -> str:
    """A series' name without labels, spelt as it was given."""
    return name.partition("{")[0].strip()


def _list(words: Sequence[str]) -> str:
    shown = ", ".join(words[:SHOWN])
    return shown + (f" and {len(words) - SHOWN} more" if words[SHOWN:] else "")
