"""What is drawn of a run adds up, and stays small however long the run was."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.analysis.columns import RunData
from loadgen.analysis.goodput import parse_slo
from loadgen.model import Outcome, RequestRecord
from loadgen.report.reduce import (
    GROUPS_DRAWN,
    MOST_DOTS,
    MOST_OPEN,
    Reduced,
    reduce_run,
)
from loadgen.units import NS_PER_S
from tests.report_runs import DURATION_S, LONG, SHORT, SLO, exported, mixed, reduced
from tests.runs import answered, ns, record, refused


def of(records: list[RequestRecord], offered: int | None = None) -> Reduced:
    return reduced(exported(records, offered=offered))


def test_every_request_is_drawn_once_and_as_the_summary_counts_it() -> None:
    run = exported()
    fates = reduced(run).fates
    sums = {name: sum(counts) for name, counts in fates.counts.items()}
    ok = run.summary.outcomes["ok"]
    assert sums.pop("good") == run.summary.goodput.good
    assert sums.pop("late") == ok - run.summary.goodput.good
    assert sums == {row.layer: row.count for row in run.summary.rejections}
    assert fates.undated == 0


def test_a_request_without_a_record_is_counted_and_not_drawn() -> None:
    shown = of(mixed(40)[:-3], offered=40)
    assert sum(map(sum, shown.fates.counts.values())) == 37
    assert shown.fates.undated == 3


def test_the_drain_is_part_of_the_picture() -> None:
    shown = of([answered(0, events_ms=[100, 4000]), refused(1)])
    assert shown.extent_s == pytest.approx(4.0)
    assert shown.duration_s == DURATION_S


def test_a_curve_of_first_tokens_ends_at_the_share_that_got_one() -> None:
    run = exported()
    for name, curve in reduced(run).ttft.items():
        group = run.summary.groups[name]
        assert curve.of == group.offered
        assert curve.n == group.latency.ttft_s.n
        assert curve.shares[-1] == pytest.approx(curve.n / curve.of)
        assert curve.values_s[-1] == pytest.approx(group.latency.ttft_s.max)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=900, unique=True))
def test_a_thinned_curve_is_exact_where_it_has_a_step(waits: list[int]) -> None:
    records = [answered(i, events_ms=[w / 1000]) for i, w in enumerate(waits)]
    curve = of(records).ttft[SHORT]
    ordered = np.sort(np.array([ns(w / 1000) for w in waits])) / NS_PER_S
    assert len(curve.values_s) <= 210
    for value, share in zip(curve.values_s, curve.shares, strict=True):
        assert share == pytest.approx((ordered <= value).mean())


def test_gaps_of_a_group_are_its_own_and_exact() -> None:
    run = exported()
    shown = reduced(run).itl
    for name, curve in shown.items():
        spread = run.summary.groups[name].latency.itl_s
        assert curve.n == curve.of == spread.n
        assert curve.values_s[-1] == pytest.approx(spread.max)
    assert set(shown) == {SHORT, LONG}


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 1900), st.none() | st.integers(0, 3000)),
        min_size=1,
        max_size=60,
    )
)
def test_open_requests_are_those_sent_and_not_ended(
    spans: list[tuple[int, int | None]],
) -> None:
    """One that ends at the instant at which another starts is open beside it."""
    records = []
    for seq, (due, length) in enumerate(spans):
        end = None if length is None else ns(due + length)
        lost = {"outcome": Outcome.TIMEOUT, "end_ns": end}
        records.append(record(seq, scheduled_ns=ns(due), **lost))
    shown = of(records).open
    most = max(
        sum(
            due <= at and (length is None or at <= due + length)
            for due, length in spans
        )
        for at, _ in spans
    )
    assert max(shown.most) == most


def test_the_peak_of_very_many_open_requests_is_kept() -> None:
    """A pile of ten for a tenth of a millisecond, among thousands of short ones."""
    records = [
        record(seq, scheduled_ns=seq * 10**6, end_ns=seq * 10**6 + 1000)
        for seq in range(1900)
    ]
    records += [
        record(1900 + at, scheduled_ns=700_000_500, end_ns=700_100_000)
        for at in range(10)
    ]
    shown = of(records)
    assert len(shown.open.at_s) == MOST_OPEN + 1
    assert max(shown.open.most) == 11


def test_few_answers_are_dots_and_many_are_quantiles() -> None:
    few, many = of(mixed(40)).waits, of(mixed(2000)).waits
    assert sum(map(len, few.dots.values())) == sum(
        curve.n for curve in of(mixed(40)).ttft.values()
    )
    assert not few.middle
    assert not many.dots
    assert len(many.middle) == len(many.slow) < MOST_DOTS
    pairs = zip(many.middle, many.slow, strict=True)
    assert all((m is None) == (s is None) for m, s in pairs)


def test_of_many_groups_the_largest_are_drawn() -> None:
    records = [
        answered(seq, events_ms=[5], group=f"g{min(seq, 6)}") for seq in range(20)
    ]
    shown = of(records)
    assert len(shown.groups) == GROUPS_DRAWN
    assert "g6" in shown.groups
    assert shown.groups_left_out == 3


def test_nothing_at_all_can_be_drawn_too() -> None:
    data = RunData.collect(iter(()), 0)
    shown = reduce_run(data, 0, parse_slo(SLO), stream=True)
    assert shown.extent_s > 0
    assert not shown.fates.counts
    assert not shown.ttft
