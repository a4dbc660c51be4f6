"""A sweep's curve in the forms that other programs read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import BinaryIO

import msgspec

from loadgen.analysis.curve import Part, Point, Quantiles, SweepSummary
from loadgen.model import Layer
from loadgen.report.curve import sweep_tables
from loadgen.report.curve_words import flag_words, sweep_headline
from loadgen.report.exports.csvfile import csv_line
from loadgen.report.exports.markdown import markdown, markdown_table
from loadgen.report.exports.rows import Cell
from loadgen.report.screen import Screen
from loadgen.report.words import basis_tag

__all__ = ["SWEEP_EXPORTS"]

_QUANTILES = {
    "ttft": ("ttft_s", ("p50", "p95", "p99")),
    "itl": ("itl_s", ("p50", "p99")),
    "tpot": ("tpot_s", ("p50", "p95")),
    "e2e": ("e2e_s", ("p50", "p95")),
}


def _write_json(sweep: SweepSummary, out: BinaryIO) -> None:
    out.write(msgspec.json.format(msgspec.json.encode(sweep), indent=2) + b"\n")


def _write_csv(sweep: SweepSummary, out: BinaryIO) -> None:
    """One row a rate of all requests (``group`` is empty), and one a group."""
    rows = [row for point in sweep.curve for row in _rows(point)]
    if rows:
        out.write(csv_line(rows[0]))
    for row in rows:
        out.write(csv_line(row.values()))


def _rows(point: Point) -> Iterator[dict[str, Cell]]:
    yield _row(point, "", point)
    for name, part in point.groups.items():
        yield _row(point, name, part)


def _row(point: Point, group: str, part: Point | Part) -> dict[str, Cell]:
    good = part.goodput
    low, high = good.ci95 or (None, None)
    return {
        "offered_rps": point.offered_rps,
        "realised_rps": point.realised_rps,
        "group": group,
        "runs": point.runs,
        "left_out": point.left_out,
        "offered": good.offered,
        "good": good.good,
        "goodput_ratio": good.ratio,
        "goodput_ratio_low": low,
        "goodput_ratio_high": high,
        "goodput_rps": good.rate_rps,
        "ok_rps": part.ok_rps.value,
        **{
            f"lost_{layer}": part.shed[layer].count if layer in part.shed else 0
            for layer in Layer
        },
        **dict(_times(part.latency)),
    }


def _times(latency: Mapping[str, Quantiles]) -> Iterator[tuple[str, Cell]]:
    """A quantile, or beside its empty cell what it is longer than."""
    for short, (name, levels) in _QUANTILES.items():
        for level in levels:
            found = None if name not in latency else getattr(latency[name], level)
            yield f"{short}_{level}_s", None if found is None else found.value
            yield f"{short}_{level}_above_s", None if found is None else found.above_s


def _write_markdown(sweep: SweepSummary, out: BinaryIO) -> None:
    out.write("\n".join(_lines(sweep)).encode() + b"\n")


def _lines(sweep: SweepSummary) -> Iterator[str]:
    yield f"### {markdown(sweep.sweep.name + basis_tag(sweep.basis))}"
    yield ""
    yield f"**Verdict: {markdown(sweep.verdict.status.upper())}**"
    yield ""
    yield markdown(sweep_headline(sweep))
    doubts = [*flag_words(sweep.knee.flags)]
    doubts += [f"warning: {reason.text}" for reason in sweep.verdict.warnings]
    if doubts:
        yield ""
    yield from (f"- {markdown(words)}" for words in doubts)
    for table in sweep_tables(sweep, Screen()):
        yield ""
        yield from markdown_table(table)


SWEEP_EXPORTS: Mapping[str, Callable[[SweepSummary, BinaryIO], None]] = {
    "json": _write_json,
    "csv": _write_csv,
    "markdown": _write_markdown,
}
"""What ``--export KIND=FILE`` can write of one sweep."""
