"""Several runs in one table: a line each, and what could not be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from loadgen.report.escape import safe
from loadgen.report.facts import Facts, read_summary
from loadgen.report.headline import offered, refused, slo_words
from loadgen.report.layout import INDENT, Line, paragraph, set_table
from loadgen.report.numbers import count, interval, rate, seconds, share
from loadgen.report.screen import Screen
from loadgen.report.table import Column, Row, Table
from loadgen.report.terminal import drawn
from loadgen.report.words import basis_tag, plural

__all__ = ["SeveralModel", "build_several", "several_text"]

NAME_CELLS = 34


@dataclass(frozen=True, slots=True, kw_only=True)
class SeveralModel:
    """Runs beside each other.

    Attributes:
        title: how many.
        tag: what follows where all stand on the same basis and that is no server.
        table: one row a run.
        troubles: what could not be read, and why.
        all_valid: whether each could be read and is valid.
    """

    title: str
    tag: str
    table: Table
    troubles: tuple[str, ...]
    all_valid: bool


def build_several(
    summaries: Sequence[tuple[str, Mapping[str, Any] | msgspec.Struct]],
    troubles: Sequence[tuple[str, str]],
) -> SeveralModel:
    """Compute the table.

    Args:
        summaries: folder and summary of each run that could be judged.
        troubles: folder and reason of each that could not.
    """
    runs = [(folder, read_summary(summary)) for folder, summary in summaries]
    bases = {facts.basis for _, facts in runs}
    total = len(runs) + len(troubles)
    return SeveralModel(
        title=plural(total, "run"),
        tag=basis_tag(bases.pop()) if len(bases) == 1 else "",
        table=Table(
            "Runs",
            (
                Column("offered"),
                Column("requests", spare=True),
                Column("good"),
                Column("95% interval", spare=True),
                Column("TTFT p95"),
                Column("refused"),
                Column("verdict", numeric=False),
            ),
            tuple(_row(folder, facts) for folder, facts in runs),
            tuple(_notes([facts for _, facts in runs])),
        ),
        troubles=tuple(
            f"{safe(folder, 120)}: {safe(why, 300)}" for folder, why in troubles
        ),
        all_valid=not troubles
        and all(facts.verdict.status == "valid" for _, facts in runs),
    )


def _row(folder: str, facts: Facts) -> Row:
    good, total = facts.goodput, offered(facts)
    return Row(
        safe(folder.rstrip("/").rpartition("/")[2] or folder, NAME_CELLS),
        (
            rate(facts.offered.rate_rps),
            count(total),
            share(good.good, total),
            interval(good.ci95),
            seconds(facts.latency.ttft_s.p95),
            share(refused(facts), total),
            safe(facts.verdict.status or "not judged", 12),
        ),
    )


def _notes(runs: Sequence[Facts]) -> Iterator[str]:
    if not runs:
        return
    targets = {slo_words(facts.goodput.slo) or "none" for facts in runs}
    if len(targets) == 1:
        yield f"good: answered in full; target {targets.pop()}"
    else:
        yield f"good by different targets ({'; '.join(sorted(targets))}): give --slo"
    digests = {facts.offered.schedule_digest for facts in runs}
    if len(runs) > 1:
        yield (
            "all were offered the same sealed schedule"
            if len(digests) == 1
            else f"{len(digests)} different schedules: the load differs too"
        )
    if len({facts.basis for facts in runs}) > 1:
        yield "not all stand on the same basis: some have no real server behind them"


def several_text(several: SeveralModel, screen: Screen) -> str:
    """The table as one string that ends in a newline."""
    return drawn(list(_lines(several, screen)), screen)


def _lines(several: SeveralModel, screen: Screen) -> Iterator[Line]:
    yield Line(screen.text(several.title + several.tag), "strong")
    yield Line("")
    yield from set_table(several.table, several.tag, screen)
    if several.troubles:
        yield Line("")
        yield Line("Not readable", "strong")
        for trouble in several.troubles:
            for line in paragraph(trouble, screen, indent=INDENT, hanging=INDENT * 2):
                yield Line(line)
