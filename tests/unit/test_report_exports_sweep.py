"""A sweep's exports say what its summary says."""

from __future__ import annotations

import csv
import io
import json

import msgspec

from loadgen.analysis.curve import RunQuantile, SweepSummary
from loadgen.report.exports.sweep import SWEEP_EXPORTS
from tests.sweeps import as_json, grid, part, point_run, quantiles, swept


def written(kind: str, sweep: SweepSummary) -> str:
    out = io.BytesIO()
    SWEEP_EXPORTS[kind](sweep, out)
    return out.getvalue().decode()


def rows_of(sweep: SweepSummary) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(written("csv", sweep), newline="")))


def test_json_is_the_summary() -> None:
    sweep = swept(grid({2.0: [100, 98, 99], 4.0: [60, 50, 55]}))
    assert json.loads(written("json", sweep)) == as_json(sweep)


def test_csv_has_a_row_a_rate() -> None:
    sweep = swept(grid({2.0: [100, 98, 99], 4.0: [60, 50, 55]}))
    for row, point in zip(rows_of(sweep), sweep.curve, strict=True):
        assert float(row["offered_rps"]) == point.offered_rps
        assert float(row["goodput_ratio"]) == point.goodput.ratio
        assert (int(row["good"]), int(row["runs"])) == (point.goodput.good, 3)
        assert float(row["ttft_p95_s"]) == point.latency["ttft_s"].p95.value


def test_csv_has_a_row_a_group_too() -> None:
    groups = {"short": part(50, 50), "long": part(40, 50, shed={"gateway": 10})}
    sweep = swept([point_run(2.0, 90, groups=groups)])
    rows = {row["group"]: row for row in rows_of(sweep)}
    assert list(rows) == ["", "short", "long"]
    assert rows["long"]["lost_gateway"] == "10"
    assert rows["short"]["lost_gateway"] == "0"


def test_a_quantile_not_reached_is_empty_beside_what_it_is_longer_than() -> None:
    latency = dict.fromkeys(("ttft_s", "itl_s", "tpot_s", "e2e_s"), quantiles())
    latency["ttft_s"] = msgspec.structs.replace(
        quantiles(), p95=RunQuantile(value=None, above_s=30.0)
    )
    sweep = swept([point_run(2.0, 50, all=part(50, latency=latency))])
    (row,) = rows_of(sweep)
    assert row["ttft_p95_s"] == ""
    assert row["ttft_p95_above_s"] == "30"


def test_markdown_leads_with_the_capacity() -> None:
    sweep = swept(grid({2.0: [100, 98, 99], 4.0: [60, 50, 55]}))
    text = written("markdown", sweep)
    assert text.startswith("### sweep-mixed\n\n**Verdict: VALID**\n\nUp to ")
    assert "never_saturated" not in text
