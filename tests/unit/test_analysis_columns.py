"""Records become columns: nothing lost, nothing counted twice, nothing invented."""

from __future__ import annotations

import numpy as np
import pytest

from loadgen.analysis.columns import RunData
from loadgen.errors import RunDirError
from loadgen.model import NO_RECORD, Outcome
from tests.runs import answered, record, refused


def test_absent_instants_are_nan_not_zero() -> None:
    data = RunData.collect([refused(0)], 1)
    assert np.isnan(data.first_token_ns[0])
    assert np.isnan(data.output_tokens[0])
    assert data.tenant.counts() == {}


def test_words_are_counted_in_order_of_appearance() -> None:
    records = [record(0, group="b"), record(1, group="a"), record(2, group="b")]
    data = RunData.collect(records, 3)
    assert list(data.group.counts().items()) == [("b", 2), ("a", 1)]
    assert data.group.where("b").tolist() == [True, False, True]
    assert not data.group.where("c").any()


def test_tokens_lie_behind_one_another() -> None:
    records = [answered(0, events_ms=[1, 2]), refused(1), answered(2, events_ms=[5])]
    data = RunData.collect(records, 3)
    assert data.token_count.tolist() == [2, 0, 1]
    assert (data.token_ns / 1e6).tolist() == [1.0, 2.0, 5.0]
    assert data.token_exact.all()


def test_a_stamp_without_its_mark_is_not_exact() -> None:
    short = answered(0, events_ms=[1, 2, 3], token_exact=[True])
    long = answered(1, events_ms=[1], token_exact=[True, True])
    data = RunData.collect([short, long], 2)
    assert data.token_exact.tolist() == [True, False, False, True]


def test_a_doubled_or_foreign_record_is_left_out_and_counted() -> None:
    records = [record(0), record(0, group="again"), record(7), record(-1), record(1)]
    data = RunData.collect(records, 2)
    assert (data.rows, data.surplus, data.unrecorded) == (2, 3, 0)
    assert data.group.counts() == {"short-question": 2}


def test_lost_are_the_absent_and_the_placeholders() -> None:
    stand_in = record(1, outcome=Outcome.INTERNAL, detail=NO_RECORD, sent_ns=None)
    data = RunData.collect([record(0), stand_in], 4)
    assert (data.unrecorded, data.lost) == (2, 3)


def test_findings_are_counted_once_a_request() -> None:
    records = [
        record(0),
        record(1, findings=["odd", "odd"]),
        record(2, findings=["odd", "stale"]),
    ]
    data = RunData.collect(records, 3)
    assert data.noted == {"odd": 2, "stale": 1}
    assert data.first_noted == {"odd": 1, "stale": 2}


def test_endless_kinds_of_findings_are_kept_short() -> None:
    records = [record(seq, findings=[f"code-{seq}"]) for seq in range(100)]
    data = RunData.collect(records, 100)
    assert len(data.noted) == 65
    assert data.noted["other"] == 36


def test_more_records_than_a_chunk_holds() -> None:
    records = [answered(seq, events_ms=[seq, seq + 1]) for seq in range(1000)]
    data = RunData.collect(iter(records), 1000)
    assert data.seq.tolist() == list(range(1000))
    assert data.token_ns.size == 2000


def test_no_records_at_all() -> None:
    data = RunData.collect([], 3)
    assert (data.rows, data.unrecorded) == (0, 3)
    assert not data.ok.any()


@pytest.mark.parametrize("value", [2**53 + 1, -(2**62), 10**400])
def test_a_number_no_run_produces_is_refused(value: int) -> None:
    with pytest.raises(RunDirError, match="the file was edited"):
        RunData.collect([record(0, end_ns=value)], 1)
    with pytest.raises(RunDirError, match="the file was edited"):
        RunData.collect([record(0, token_ns=[value], token_exact=[True])], 1)
