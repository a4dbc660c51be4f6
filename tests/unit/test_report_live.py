"""A moment of a run, as a picture and as a line."""

from __future__ import annotations

from typing import Any

from loadgen.report.live import Live, live_line, live_view
from loadgen.report.screen import Screen, to_text

MS = 1_000_000
COUNTERS = {
    "due": 28,
    "sent": 27,
    "in_flight": 8,
    "outcome_ok": 4,
    "outcome_http_reject": 11,
    "outcome_in_stream_reject": 4,
    "ttft_count": 4,
    "ttft_sum_ns": 4 * 350 * MS,
    "ttft_last_ns": 412 * MS,
    "send_lag_last_ns": 120_000,
    "send_lag_max_ns": 432_000,
}


def live(**changes: Any) -> Live:
    moment: dict[str, Any] = {
        "name": "agent-burst",
        "target": "http://127.0.0.1:8000",
        "basis": "stand-in",
        "offered": 40,
        "duration_ns": 2000 * MS,
        "elapsed_ns": 1400 * MS,
        "counters": COUNTERS,
        "lost_by_layer": {"engine_admission": 15},
    }
    return Live(**(moment | changes))


SCREEN = Screen()


def drawn(moment: Live, screen: Screen = SCREEN) -> list[str]:
    return to_text(live_view(moment, screen), screen).splitlines()


def test_the_picture() -> None:
    assert drawn(live()) == [
        "agent-burst to http://127.0.0.1:8000 [stand-in]",
        "███████████░░░░░  1.4 of 2.0 s  28 of 40 offered",
        "sent  in flight  ok  refused  failed    first token       send lag",
        "  27          8   4       15       0  mean   350 ms  max    432 us",
        "                                      last   412 ms  last   120 us",
        "lost at: engine admission 15",
    ]


def test_without_utf8() -> None:
    assert drawn(live(), Screen(utf8=False))[1].startswith("###########.....  ")


def test_the_line() -> None:
    assert live_line(live(), Screen()) == (
        "1.4 of 2.0 s: offered 28/40, in flight 8, ok 4, refused 15 (engine admission "
        "15), TTFT 350 ms [stand-in]"
    )


def test_before_anything_happened_there_are_dashes() -> None:
    early = live(counters={}, lost_by_layer={}, elapsed_ns=-50 * MS)
    assert drawn(early)[1:] == [
        "░░░░░░░░░░░░░░░░  0.0 of 2.0 s  0 of 40 offered",
        "sent  in flight  ok  refused  failed    first token       send lag",
        "   0          0   0        0       0  mean        -  max         -",
        "                                      last        -  last        -",
        "lost at: -",
    ]
    assert live_line(early, Screen()).endswith("refused 0, TTFT - [stand-in]")


def test_when_all_is_offered_it_says_what_it_waits_for() -> None:
    late = live(counters={**COUNTERS, "due": 40}, elapsed_ns=2600 * MS)
    assert "  2.6 s  all 40 offered, waiting for answers" in drawn(late)[1]


def test_when_stopped_early_it_says_how_far_it_came() -> None:
    stopped = live(counters={**COUNTERS, "draining": 1})
    assert "28 of 40 offered, waiting for answers" in drawn(stopped)[1]


def test_every_other_ending_counts_as_failed() -> None:
    counters = {**COUNTERS, "outcome_reset": 2, "outcome_timeout": 1}
    layers = {"network": 2, "engine_admission": 15, "client": 1, "router": 0, "x": 1}
    line = live_line(
        live(counters=counters, lost_by_layer=layers, basis="measured"), Screen()
    )
    assert line == (
        "1.4 of 2.0 s: offered 28/40, in flight 8, ok 4, refused 15, failed 3 (engine "
        "admission 15, network 2, our own side 1, +1 more), TTFT 350 ms"
    )


def test_a_million_requests_fit_80_columns() -> None:
    counters = {name: 25_000 * number for name, number in COUNTERS.items()}
    rows = drawn(
        live(
            offered=1_000_000,
            counters=counters | {"due": 1_000_000, "ttft_last_ns": 412 * MS},
            elapsed_ns=3_700_000 * MS,
        )
    )
    assert max(map(len, rows)) <= 80
    assert rows[1].endswith("all 1,000,000 offered, waiting for answers")
    assert rows[3].endswith(" s")
