"""What became of the offered requests, how long it took, and how many were good."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from loadgen.model import Outcome
from loadgen.report.escape import cells, safe
from loadgen.report.facts import Facts, Spread
from loadgen.report.headline import offered, slo_words
from loadgen.report.numbers import (
    aligned,
    count,
    durations,
    interval,
    percent,
    rate,
    seconds,
    share,
)
from loadgen.report.table import NAME_CELLS, Column, Row, Table
from loadgen.report.words import outcome_words, plural, source_words

__all__ = ["goodput_table", "latency_table", "outcome_table"]

GROUPS_SHOWN = 12
FEW_VALUES = 100
"""Below this count a p99 lies between the two largest values."""


def outcome_table(facts: Facts) -> Table:
    """How the offered requests ended, in all and by group."""
    names = _groups(facts)
    ended = [facts.outcomes, *(facts.groups[name].outcomes for name in names)]
    totals = [offered(facts), *(facts.groups[name].offered for name in names)]
    outcomes = [
        outcome
        for outcome in _in_order(facts.outcomes)
        if facts.outcomes[outcome] or outcome == Outcome.OK
    ]
    columns = [
        _counts_of(total, [total, *(counts.get(o, 0) for o in outcomes)])
        for total, counts in zip(totals, ended, strict=True)
    ]
    labels = [("offered", ""), *((outcome_words(o), o) for o in outcomes)]
    return Table(
        "What became of the requests",
        (
            Column("outcome", numeric=False, spare=True),
            Column("all"),
            *(Column(safe(name, NAME_CELLS)) for name in names),
        ),
        tuple(
            Row(safe(words, 40), (safe(code, 40), *counts))
            for (words, code), *counts in zip(labels, *columns, strict=True)
        ),
        tuple(_outcome_notes(facts)),
    )


def _outcome_notes(facts: Facts) -> Iterator[str]:
    if facts.outcomes.get(Outcome.IN_STREAM_REJECT):
        yield (
            "refused inside a 200: said after the status line; a tool that looks at "
            "the status alone counts it as a success"
        )
    asked, real = facts.offered.asked.get("rate_rps"), facts.offered.rate_rps
    if asked is not None and real is not None and rate(asked) != rate(real):
        yield f"{rate(asked)} was asked for; this schedule's draw came to {rate(real)}"
    if facts.warmup.requests:
        warm = plural(facts.warmup.requests, "request")
        yield f"warm-up: {warm} before these, in no number here"
    hidden = len(facts.groups) - GROUPS_SHOWN
    if hidden > 0:
        yield f"{plural(hidden, 'smaller group')} more in summary.json"


def latency_table(facts: Facts) -> Table:
    """TTFT in all and by group, then what followed it."""
    slo, latency = facts.goodput.slo, facts.latency
    ttft_s = slo.get("ttft_s")
    first = [
        _Line("to the first token (TTFT)", latency.ttft_s, ttft_s),
        *(
            _Line(name, facts.groups[name].latency.ttft_s, ttft_s, depth=1)
            for name in _groups(facts)
        ),
    ]
    families = [first, *([line] for line in _later(facts) if line.spread.n)]
    every = [line for family in families for line in family]
    late = any(map(_is_late, every))
    headings = ("count", "p50", "p95", "p99", "target")
    return Table(
        "How long it took",
        (Column("unit", numeric=False), *map(Column, headings)),
        tuple(row for family in families for row in _rows(family, late)),
        tuple(_latency_notes(facts, every, late)),
    )


class _Line(NamedTuple):
    label: str
    spread: Spread
    limit_s: float | None = None
    depth: int = 0

    @property
    def quantiles(self) -> tuple[float | None, ...]:
        return self.spread.p50, self.spread.p95, self.spread.p99

    @property
    def late(self) -> list[bool]:
        """Which quantiles are over the target."""
        limit_s = float("inf") if self.limit_s is None else self.limit_s
        return [value is not None and value > limit_s for value in self.quantiles]


def _is_late(line: _Line) -> bool:
    return any(line.late)


def _later(facts: Facts) -> Iterator[_Line]:
    slo, latency = facts.goodput.slo, facts.latency
    answer = latency.ttft_answer_s
    if answer.p50 != latency.ttft_s.p50:
        yield _Line("to the answer's first token", answer)
    yield _Line("between two tokens (ITL)", latency.itl_s)
    yield _Line("per token, mean (TPOT)", latency.tpot_s, slo.get("tpot_s"))
    yield _Line("to the end (E2E)", latency.e2e_s, slo.get("e2e_s"))
    yield _Line("until refused", latency.time_to_reject_s)


def _rows(family: Sequence[_Line], starred: bool) -> Iterator[Row]:
    """Lines to be compared, in one unit; where stars are used all leave room."""
    unit, numbers = durations(value for line in family for value in line.quantiles)
    left = iter(numbers)
    for line in family:
        marks = [("*" if late else " ") if starred else "" for late in line.late]
        quantiles = [next(left) + mark for mark in marks]
        target = "" if line.depth else seconds(line.limit_s)
        label = safe(line.label, NAME_CELLS + 8)
        yield Row(label, (unit, count(line.spread.n), *quantiles, target), line.depth)


def _latency_notes(facts: Facts, lines: Sequence[_Line], late: bool) -> Iterator[str]:
    if late:
        yield "* over the target"
    without = offered(facts) - facts.latency.ttft_s.n
    if facts.latency.ttft_s.n and without > 0:
        yield (
            f"{plural(without, 'request')} had no first token: not in these times, "
            "but misses in the goodput"
        )
    yield "TTFT, E2E and refusals are counted from when a request was due"
    few = any(0 < line.spread.n < FEW_VALUES for line in lines)
    yield "p95: 95 of 100 took no longer" + (
        f"; below {FEW_VALUES} values the p99 is about the longest" if few else ""
    )
    gaps = facts.latency.itl_s
    if gaps.n_missing:
        yield (
            f"ITL leaves out {count(gaps.n_missing)} of "
            f"{count(gaps.n + gaps.n_missing)} gaps whose ends came in one read"
        )


def goodput_table(facts: Facts) -> Table:
    """Requests that were answered in full and in time, over all offered."""
    whole = facts.goodput
    parts = {"all": whole} | {n: facts.groups[n].goodput for n in _groups(facts)}
    rates = aligned([part.rate_rps for part in parts.values()])
    return Table(
        "Goodput",
        (
            Column("good"),
            Column("offered"),
            Column("share"),
            Column(f"95% interval, {safe(whole.scope, 24)}"),
            Column("good/s"),
        ),
        tuple(
            Row(
                safe(name, NAME_CELLS),
                (
                    count(part.good),
                    count(part.offered),
                    share(part.good, part.offered),
                    interval(part.ci95),
                    good_rate,
                ),
            )
            for (name, part), good_rate in zip(parts.items(), rates, strict=True)
        ),
        tuple(_goodput_notes(facts)),
    )


def _goodput_notes(facts: Facts) -> Iterator[str]:
    whole = facts.goodput
    yield (
        f"good: answered in full with {slo_words(whole.slo)}"
        if whole.slo
        else "good: answered in full; no target was given (--slo ttft=2s)"
    )
    if len(whole.slo) > 1 and whole.attainment:
        met = ", ".join(
            f"{slo_words({key: limit})} {percent(whole.attainment.get(key))}"
            for key, limit in whole.slo.items()
        )
        yield f"each target alone: {met}"
    for source, speed in facts.throughput.output_tokens_per_s_over_wall.items():
        yield (
            f"{aligned([speed])[0]} output tokens/s, first send to last end, "
            f"by {safe(source_words(source), 30)}"
        )


def _groups(facts: Facts) -> list[str]:
    """Groups worth a column: none when there is but one, the largest of many."""
    if len(facts.groups) < 2:
        return []
    largest = sorted(facts.groups, key=lambda name: -facts.groups[name].offered)
    kept = set(largest[:GROUPS_SHOWN])
    return [name for name in facts.groups if name in kept]


def _in_order(outcomes: dict[str, int]) -> list[str]:
    known = [outcome.value for outcome in Outcome if outcome in outcomes]
    return known + [name for name in outcomes if name not in set(Outcome)]


def _counts_of(whole: int, parts: Sequence[int]) -> list[str]:
    """``15  38%``, aligned among themselves."""
    shares = [share(part, whole) for part in parts]
    wide = max(map(cells, shares))
    return [
        f"{count(part)} {text:>{wide}}"
        for part, text in zip(parts, shares, strict=True)
    ]
