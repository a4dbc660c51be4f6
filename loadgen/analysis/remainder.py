"""The words for what an account leaves over.

Since the client's own terms sum to what it sent, the difference is the sum of
three: finishes, refusals and aborts that the two sides count differently.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from loadgen.analysis.counters import CounterNames

__all__ = ["Explained", "Remainder", "explain"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Remainder:
    """Both accounts side by side; ``seen_*`` are the client's.

    ``before_engine`` were lost before any engine by attribution, and
    ``elsewhere`` are all the client lost neither to a queue limit nor by
    giving up. None: the engine does not say.
    """

    difference: int | None
    sent: int
    seen_ok: int
    seen_refused: int
    seen_aborted: int
    before_engine: int
    elsewhere: int
    success: int | None
    refused: int | None
    aborted: int | None
    resets: int
    processes: int
    missing: tuple[str, ...]
    names: CounterNames


class Explained(NamedTuple):
    """A status (exact, explained, unexplained, unknown) and its words."""

    status: str
    finding: str
    notes: tuple[str, ...]


def explain(it: Remainder) -> Explained:
    """Say what an account leaves over, the most telling first."""
    gaps = tuple(_gaps(it))
    if it.resets:
        finding = (
            f"counter reset: the engine restarted {_times(it.resets)} in the run; "
            "its totals cannot be held against ours"
        )
        return Explained("unknown", finding, gaps)
    if it.difference is None:
        return Explained("unknown", _what_is_missing(it), gaps)
    told = [*_refusals(it), *_finishes(it), *_aborts(it)]
    lost = tuple(_never_reached(it))
    if not told:
        return Explained("exact", _identity(it), (*lost, *gaps))
    status = "explained" if all(sure for sure, _ in told) else "unexplained"
    words = [text for _, text in told]
    return Explained(status, words[0], (*words[1:], *lost, *gaps))


def _identity(it: Remainder) -> str:
    terms = [f"{it.success} finished", f"{_refused(it)} refused at admission"]
    aborted = it.seen_aborted if it.aborted is None else it.aborted
    if aborted:
        terms.append(f"{aborted} aborted")
    if it.elsewhere:
        terms.append(f"{it.elsewhere} lost elsewhere")
    whose = "" if it.processes == 1 else f" over {it.processes} processes"
    return f"{it.sent} sent = {' + '.join(terms)}{whose}"


def _refused(it: Remainder) -> int:
    return it.seen_refused if it.refused is None else it.refused


def _refusals(it: Remainder) -> Iterator[tuple[bool, str]]:
    """Refusals the two sides count differently, and whether we know why."""
    if it.refused is None or it.refused == it.seen_refused:
        return
    saw = f"the engine refused {it.refused} but the client saw {it.seen_refused}"
    if it.refused < it.seen_refused:
        more = it.seen_refused - it.refused
        yield (
            False,
            f"{saw}: {more} were not this engine's to count (another replica, or "
            "something upstream that answers for it)",
        )
    elif it.seen_refused:
        times = it.refused / it.seen_refused
        factor = f"{times:.0f}" if times.is_integer() else f"{times:.1f} on average"
        yield True, f"{saw}: something upstream retries, ×{factor}"  # noqa: RUF001
    else:
        yield (
            False,
            f"{saw}: something upstream retries until one is taken, or others use "
            "this engine",
        )


def _finishes(it: Remainder) -> Iterator[tuple[bool, str]]:
    if it.success is None or it.success == it.seen_ok:
        return
    more = it.success - it.seen_ok
    if more < 0:
        yield (
            False,
            f"{-more} answers we had whole are not in the engine's count: another "
            "replica, a cache before it, or a scrape too early",
        )
        return
    given_up = it.seen_aborted + it.elsewhere - it.before_engine
    if more <= given_up:
        yield (
            True,
            f"the engine finished {more} that we had given up or that did not "
            "reach us whole",
        )
    else:
        yield (
            False,
            f"the engine finished {more} more than we saw end well: others use it, "
            "or something upstream sends twice",
        )


def _aborts(it: Remainder) -> Iterator[tuple[bool, str]]:
    if it.aborted is None or it.aborted == it.seen_aborted:
        return
    saw = f"the engine aborted {it.aborted} and we gave up {it.seen_aborted}"
    if it.aborted < it.seen_aborted:
        yield True, f"{saw}: the rest were still waiting, or finished first"
    else:
        yield False, f"{saw}: something between us hangs up, or others use it"


def _never_reached(it: Remainder) -> Iterator[str]:
    if it.before_engine:
        yield (
            f"{it.before_engine} never reached the engine: it counted neither a "
            "finish nor a refusal for them"
        )


def _what_is_missing(it: Remainder) -> str:
    absent = list(it.missing)
    for value, series in (
        (it.success, it.names.success),
        (it.refused, it.names.admission_rejections),
    ):
        if value is None and series and series not in absent:
            absent.append(series)
    if absent:
        return f"counters missing: {', '.join(absent)}; no account can be made"
    return f"this engine keeps no such account: {it.names.note or 'no counters known'}"


def _gaps(it: Remainder) -> Iterator[str]:
    """What the engine's counters leave out, where it matters here."""
    if it.seen_aborted and it.success is not None and not it.names.aborts_counted:
        yield (
            "aborts are not counted by this engine: "
            f"{it.seen_aborted} are the client's own count"
        )
    if it.success is not None and not it.names.refusals_counted and it.refused is None:
        yield (
            "refusals are not counted by this engine: "
            f"{it.seen_refused} are the client's own count"
        )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
