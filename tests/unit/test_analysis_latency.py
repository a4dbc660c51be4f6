"""Durations: from which instant to which, and when there is none."""

from __future__ import annotations

import numpy as np
import pytest

from loadgen.analysis.columns import RunData
from loadgen.analysis.latency import gaps_of, latency, times_of
from loadgen.model import Outcome, RequestRecord
from tests.runs import answered, judged, ns, record, refused


def collect(*records: RequestRecord) -> RunData:
    return RunData.collect(records, len(records))


def test_time_counts_from_when_the_request_was_due() -> None:
    late = answered(
        events_ms=[130, 150],
        due_ms=100,
        sent_ns=ns(120),
        first_answer_ns=ns(150),
        end_ms=160,
    )
    times = times_of(collect(late))
    assert times.ttft[0] == ns(30)
    assert times.ttft_from_sent[0] == ns(10)
    assert times.ttft_answer[0] == ns(50)
    assert times.e2e[0] == ns(60)
    assert times.send_lag[0] == ns(20)


def test_the_wait_for_a_connection_is_not_the_clients_lateness() -> None:
    fresh = record(0, started_ns=ns(1), connected_ns=ns(41), sent_ns=ns(42))
    reused = record(1, started_ns=ns(1), connected_ns=ns(-500), sent_ns=ns(2))
    never = record(2, started_ns=ns(3), sent_ns=None, outcome=Outcome.CONNECT_ERROR)
    times = times_of(collect(fresh, reused, never))
    assert times.client_lag.tolist() == [ns(2), ns(2), ns(3)]
    assert times.connect[0] == ns(40)
    assert np.isnan(times.connect[1:]).all()
    assert np.isnan(times.send_lag[2])


def test_tpot_needs_two_tokens_that_came_apart() -> None:
    times = times_of(
        collect(
            answered(0, events_ms=[10]),
            answered(1, events_ms=[10, 10]),
            answered(2, events_ms=[10, 40], output_tokens=4),
            answered(3, events_ms=[10, 40]),
            answered(4, events_ms=[10, 40], output_tokens=0),
        )
    )
    assert np.isnan(times.tpot[[0, 1, 4]]).all()
    assert times.tpot[2] == ns(10)
    assert times.tpot[3] == ns(30)
    assert times.at_once.tolist() == [True, True, False, False, False]


def test_a_refusal_has_a_time_to_reject_and_nothing_else() -> None:
    in_stream = refused(1, at_ms=30, status=200, outcome=Outcome.IN_STREAM_REJECT)
    data = collect(refused(0, at_ms=10), in_stream, answered(2, events_ms=[5]))
    found = latency(data, times_of(data), gaps_of(data), None)
    assert found.time_to_reject_s.n == 2
    assert found.time_to_reject_s.p50 == pytest.approx(0.020)
    assert found.time_to_reject_s.n_missing == 0
    assert (found.ttft_s.n, found.ttft_s.n_missing) == (1, 2)
    assert (found.e2e_s.n, found.e2e_s.n_missing) == (1, 2)


def test_an_answer_cut_after_its_first_token_keeps_its_ttft_and_has_no_e2e() -> None:
    cut = answered(events_ms=[10, 20], outcome=Outcome.STALLED, end_ms=60_000)
    data = collect(cut)
    found = latency(data, times_of(data), gaps_of(data), None)
    assert found.ttft_s.n == 1
    assert found.e2e_s.n == 0


def test_gaps_stay_within_a_request_and_need_two_exact_ends() -> None:
    data = collect(
        answered(0, events_ms=[10, 20, 20, 35], token_exact=[True, False, False, True]),
        answered(1, events_ms=[]),
        answered(2, events_ms=[100]),
        answered(3, events_ms=[50, 57, 70]),
    )
    gaps = gaps_of(data)
    assert (gaps.ns / 1e6).tolist() == [10, 0, 15, 7, 13]
    assert gaps.exact.tolist() == [False, False, False, True, True]
    assert gaps.row.tolist() == [0, 0, 0, 3, 3]
    found = latency(data, times_of(data), gaps, None)
    assert (found.itl_s.n, found.itl_s.n_missing) == (2, 3)
    alone = latency(data, times_of(data), gaps, data.seq == 0)
    assert (alone.itl_s.n, alone.itl_s.n_missing) == (0, 3)


def test_stamps_that_contradict_each_other_are_left_out_and_told() -> None:
    early = answered(0, events_ms=[50], due_ms=60, end_ms=70)
    backward = answered(1, events_ms=[100, 90, 120])
    summary = judged([early, backward])
    told = {finding.code: finding for finding in summary.findings}
    assert told["before_scheduled"].first_seq == 0
    assert told["token_stamps_out_of_order"].first_seq == 1
    assert summary.latency.ttft_s.n == 1
    assert (summary.latency.itl_s.n, summary.latency.itl_s.n_missing) == (1, 1)


def test_nothing_measured_is_none() -> None:
    data = collect(refused(0, end_ns=None))
    found = latency(data, times_of(data), gaps_of(data), None)
    for name in found.__struct_fields__:
        one = getattr(found, name)
        assert one.n == 0
        assert one.mean is one.p50 is one.p99 is one.max is None
