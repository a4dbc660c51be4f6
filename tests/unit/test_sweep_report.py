"""A sweep's report: right words first, nothing that acts, fits every screen."""

from __future__ import annotations

import msgspec
import pytest

from loadgen.analysis.curve import SweepSummary
from loadgen.model import Basis
from loadgen.report.curve import sweep_text
from loadgen.report.screen import Screen
from loadgen.report.sweep_line import minutes, plan_lines, run_line, surge_line
from tests.sweeps import (
    DONE,
    RESTED,
    WHICH,
    grid,
    part,
    point_run,
    quantiles,
    spoilt,
    swept,
)
from tests.unit.test_curve_recovery import run as surge

WIDE = Screen(width=100)
GOOD = {2.0: [100, 100, 100], 4.0: [99, 98, 100], 8.0: [60, 50, 55]}


def text(summary: SweepSummary, screen: Screen = WIDE) -> str:
    return sweep_text(summary, screen)


def one_line(summary: SweepSummary) -> str:
    return " ".join(text(summary).split())


def test_the_knee_comes_first_in_words() -> None:
    found = one_line(swept(grid(GOOD)))
    assert "Up to 4.36/s at least 95% of the offered requests are good" in found
    assert "TTFT <= 2 s" in found
    assert "95% interval" in found
    assert "At 8/s 55% are good, 4.4/s." in found
    assert "cliff:" in found


def test_a_bound_is_never_printed_as_a_capacity() -> None:
    """rep-04: the highest tested rate still passes."""
    found = one_line(swept(grid({1.0: [100] * 3, 4.0: [100] * 3})))
    assert "The capacity is above that" in found
    assert ">= 4/s" in found
    assert "never saturated" in found


def test_a_server_that_fails_at_the_lowest_rate() -> None:
    found = one_line(swept(grid({2.0: [50] * 3, 4.0: [10] * 3})))
    assert "Already at 2/s, the lowest rate offered, less than 95%" in found
    assert "missed at the lowest rate" in found


def test_a_sweep_nobody_can_use() -> None:
    found = one_line(swept([spoilt(2.0), spoilt(4.0)]))
    assert "nothing is known of the capacity" in found
    assert "INVALID" in found
    assert "client-limited" in found


def test_a_sweep_that_was_broken_off_says_so_before_its_numbers() -> None:
    progress = msgspec.structs.replace(
        DONE, status="unfinished", text="5 of 9 runs made: killed, or still going on"
    )
    found = one_line(swept(grid(GOOD), progress=progress))
    assert found.index("Not complete (5 of 9") < found.index("Up to")


def test_the_stand_in_is_named_on_each_heading() -> None:
    found = text(swept(grid(GOOD), basis=Basis.STAND_IN))
    assert found.startswith("sweep-mixed, offered to http://127.0.0.1:8000 [stand-in]")
    assert "A stand-in engine answered" in found
    assert found.count("[stand-in]") >= 4


def test_a_quantile_not_reached_is_printed_as_such() -> None:
    cut = quantiles(0.1, 0.5)
    beyond = type(cut.p95)(value=None, above_s=30.0)
    waits = dict.fromkeys(
        ("ttft_s", "itl_s", "tpot_s", "e2e_s"),
        type(cut)(n=100, n_cut=9, p50=cut.p50, p90=cut.p90, p95=beyond, p99=beyond),
    )
    runs = [point_run(8.0, 0, at, all=part(50, latency=waits)) for at in range(3)]
    found = text(swept(runs))
    assert "> 30 s" in found
    assert "not reached" in found


def test_losses_and_groups_have_tables_of_their_own() -> None:
    groups = {"short": part(50, 50), "long": part(20, 50, shed={"gateway": 30})}
    whole = part(70, 100, shed={"gateway": 30})
    runs = [
        point_run(8.0, 0, at, all=whole, groups=groups, preemptions=2)
        for at in range(3)
    ]
    found = text(swept(runs))
    assert "Lost, by layer" in found
    assert "30%" in found
    assert "queued_requests" in found
    assert "retries: 0" in found
    assert "By group" in found
    assert "Knee by group" in found


def test_overload_is_told_in_words() -> None:
    found = one_line(swept(grid(GOOD), overloads=[surge(0), surge(1)]))
    assert "Past capacity and back" in found
    assert "recovered (as good as before) 3 s after the peak" in found
    never = [surge(0, recovery_s=None), surge(1, recovery_s=None)]
    assert "in none of 2 runs" in one_line(swept(grid(GOOD), overloads=never))


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("utf8", [True, False])
def test_it_fits_and_says_the_same_without_utf8(width: int, utf8: bool) -> None:
    runs = [*grid(GOOD), spoilt(16.0), *grid({12345.6: [1, 2, 3]})]
    found = text(swept(runs), Screen(width=width, utf8=utf8))
    assert max(map(len, found.splitlines())) <= width
    assert found.isascii() or utf8


def test_hostile_names_do_nothing() -> None:
    evil = "\x1b[2Jevil\u202e<script>" * 5
    which = msgspec.structs.replace(WHICH, name=evil, url=evil, variant=evil)
    runs = [
        point_run(
            2.0,
            0,
            at,
            why_not=evil,
            usable=at > 0,
            groups={evil: part(50, 50), "b": part(50, 50)},
            all=part(60, shed={evil: 40}, resources={evil: 40}),
        )
        for at in range(3)
    ]
    found = text(swept(runs, sweep=which, findings=[evil]))
    assert "\x1b" not in found
    assert "\u202e" not in found


def test_each_run_is_a_line() -> None:
    line = run_line(point_run(8.0, 0, 1, all=part(60, shed={"engine_admission": 30})))
    assert line == (
        "8/s schedule 2: 60% good (60 of 100) TTFT p95 500 ms, "
        "30 lost at engine admission"
    )
    assert "left out: the client" in run_line(spoilt(8.0))
    busy = msgspec.structs.replace(RESTED, how="not empty", note="3 still open")
    assert "unsettled: 3 still open" in run_line(point_run(8.0, 9, settle=busy))
    assert "5/s to 16/s and back, schedule 1" in surge_line(surge(0))
    assert "did not recover" in surge_line(surge(0, recovery_s=None))


def test_the_plan_says_how_long_and_how_precise() -> None:
    lines = plan_lines(
        rates="2/s,4/s",
        rates_rps=[2.0, 4.0],
        schedules=3,
        run_s=30.0,
        takes_s=400.0,
        expected="the knee to about +-9 %",
        requests=(60, 120),
        overload=True,
    )
    said = " ".join(lines)
    assert "2 rates (2/s, 4/s), 3 schedules at each, 30 s a run, 6 runs" in said
    assert "past capacity and back" in said
    assert "about 7 min" in said
    assert "+-9 %" in said


def test_times_to_wait_are_said_without_false_digits() -> None:
    assert minutes(44.6) == "45 s"
    assert minutes(12 * 60 + 20) == "12 min"
    assert minutes(5_000) == "83 min"
    assert minutes(7_300) == "2 h 2 min"
