"""All open streams silent at once: the engine paused, or the client did."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from loadgen.analysis.columns import RunData
from loadgen.analysis.latency import gaps_of
from loadgen.analysis.silence import Silences, silences
from loadgen.analysis.summary import Summary
from loadgen.model import RequestRecord
from tests.runs import SOUND, answered, judged, ns


def streams(
    count: int, *, pause_ms: float, clock: str = "user", itl_ms: float = 10
) -> list[RequestRecord]:
    """Streams a millisecond apart, all pausing after two seconds and after four."""

    def at(token: int) -> float:
        planned = token * itl_ms
        return planned + pause_ms * ((planned >= 2000) + (planned >= 4000))

    return [
        answered(
            seq,
            events_ms=[seq + at(token) for token in range(1, int(6000 / itl_ms))],
            receive_clock=clock,
        )
        for seq in range(count)
    ]


def found(records: list[RequestRecord]) -> Silences | None:
    data = RunData.collect(records, len(records))
    return silences(data, gaps_of(data))


def test_a_pause_of_all_streams_is_found() -> None:
    silent = found(streams(5, pause_ms=80))
    assert silent is not None
    assert silent.times == 2
    assert 80 <= silent.longest_ns / 1e6 <= 90


@pytest.mark.parametrize(
    "records",
    [
        streams(5, pause_ms=0),
        streams(5, pause_ms=30),
        streams(2, pause_ms=80),
        streams(5, pause_ms=150, itl_ms=50),
        [],
    ],
    ids=["no pause", "too short", "too few streams", "usual for them", "no streams"],
)
def test_what_is_no_common_pause(records: list[RequestRecord]) -> None:
    assert found(records) is None


def test_one_stream_that_goes_on_is_no_common_pause() -> None:
    talking = answered(5, events_ms=range(1, 6500, 10))
    records = [*streams(5, pause_ms=80), talking]
    assert found(records) is None


def told(summary: Summary) -> tuple[bool, bool]:
    """Whether it is a finding, and whether the client is under suspicion."""
    code = "simultaneous_gap_in_all_streams"
    return (
        code in {finding.code for finding in summary.findings},
        code in {warning.code for warning in summary.verdict.warnings},
    )


@pytest.mark.parametrize(
    ("clock", "loop_lag_max_ms", "suspect"),
    [
        ("user", 80, True),
        ("user", None, True),
        ("user", 3, False),
        ("kernel", 80, False),
    ],
)
def test_the_client_is_suspect_unless_it_can_be_cleared(
    clock: str, loop_lag_max_ms: float | None, suspect: bool
) -> None:
    lag_ns = None if loop_lag_max_ms is None else ns(loop_lag_max_ms)
    facts = replace(SOUND, loop_lag_max_ns=lag_ns)
    summary = judged(streams(5, pause_ms=80, clock=clock), client=facts)
    assert told(summary) == (True, suspect)
    assert summary.verdict.status == "valid"
