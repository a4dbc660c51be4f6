"""From runs to a point of the curve: means over schedules, never over requests."""

from __future__ import annotations

import math

import pytest
from scipy.stats import t

from loadgen.analysis.points import mean_of, points, samples_of
from tests.runs import answered, judged, refused
from tests.sweeps import (
    as_json,
    grid,
    part,
    point_run,
    quantiles,
    run_of,
    spoilt,
    swept,
)


def test_a_point_a_rate_from_the_lowest_up() -> None:
    found = points(grid({8.0: [50, 60], 2.0: [100, 100]}))
    assert [point.offered_rps for point in found] == [2.0, 8.0]
    assert found[1].goodput.ratio == pytest.approx(0.55)
    assert found[1].goodput.good == 110
    assert found[1].goodput.offered == 200
    assert found[1].goodput.scope == "over schedules"


def test_the_interval_is_students_over_runs_not_wilsons_over_requests() -> None:
    found = points(grid({8.0: [40, 60, 80]}))[0].goodput
    half = t.ppf(0.975, 2) * 0.2 / math.sqrt(3)
    assert half > 0.05  # Wilson's half of 180 in 300
    assert found.ci95 == pytest.approx((0.6 - half, min(1.0, 0.6 + half)), abs=1e-6)


def test_runs_alike_by_luck_leave_open_what_the_requests_do() -> None:
    found = points(grid({8.0: [100, 100, 100]}))[0].goodput
    assert found.ci95 is not None
    assert found.ci95[1] == 1.0
    assert 0.9 < found.ci95[0] < 1.0


def test_one_run_has_no_interval() -> None:
    assert points(grid({8.0: [70]}))[0].goodput.ci95 is None


def test_a_run_that_cannot_be_used_is_told_and_not_counted() -> None:
    found = points([point_run(8.0, 90), spoilt(8.0, 1)])[0]
    assert (found.runs, found.left_out) == (1, 1)
    assert found.goodput.ratio == pytest.approx(0.9)
    assert len(samples_of([point_run(8.0, 90), spoilt(8.0, 1)])) == 1


def test_a_rate_with_no_usable_run_is_a_point_without_numbers() -> None:
    found = points([spoilt(8.0)])[0]
    assert found.goodput.ratio is None
    assert found.latency == {}
    assert as_json(swept([spoilt(8.0)]))["curve"][0]["goodput"]["ratio"] is None


def test_losses_are_shares_by_layer() -> None:
    runs = [
        point_run(8.0, 0, 0, all=part(60, shed={"engine_admission": 40})),
        point_run(8.0, 0, 1, all=part(80, shed={"engine_admission": 20})),
    ]
    found = points(runs)[0]
    assert found.shed["engine_admission"].count == 60
    assert found.shed["engine_admission"].share == pytest.approx(0.3)
    assert found.resources == {"queued_requests": 60}
    assert found.outcomes == {"ok": 140, "http_reject": 60}
    assert found.retries == 0


def test_a_layer_that_lost_none_in_one_run_counts_as_none_there() -> None:
    runs = [
        point_run(8.0, 0, 0, all=part(60, shed={"network": 40})),
        point_run(8.0, 100, 1),
    ]
    assert points(runs)[0].shed["network"].share == pytest.approx(0.2)


def test_quantiles_are_geometric_means_with_an_interval_on_logarithms() -> None:
    runs = [
        point_run(8.0, 0, at, all=part(90, latency={"ttft_s": quantiles(0.1, p95)}))
        for at, p95 in enumerate((0.5, 2.0))
    ]
    found = points(runs)[0].latency["ttft_s"].p95
    assert found.value == pytest.approx(1.0)
    assert found.ci95 is not None
    assert found.ci95[0] * found.ci95[1] == pytest.approx(1.0, rel=1e-3)
    assert found.runs == 2


def test_a_quantile_that_one_run_did_not_reach_has_a_bound_and_no_value() -> None:
    reached = quantiles(0.1, 0.5)
    cut = quantiles(0.1, None)
    cut = type(cut)(
        n=100,
        n_cut=10,
        p50=cut.p50,
        p90=cut.p90,
        p99=cut.p99,
        p95=type(cut.p95)(value=None, above_s=30.0),
    )
    runs = [
        point_run(8.0, 0, at, all=part(90, latency={"ttft_s": one}))
        for at, one in enumerate((reached, cut))
    ]
    found = points(runs)[0].latency["ttft_s"]
    assert found.p95.value is None
    assert found.p95.not_reached == 1
    assert found.p95.above_s == pytest.approx(0.5)
    assert found.n_cut == 10
    assert found.p50.value == pytest.approx(0.1)


def test_a_quantity_nobody_has_is_null() -> None:
    empty = {"ttft_s": quantiles(None, None)}
    found = points([point_run(8.0, 0, all=part(0, latency=empty))])[0]
    assert found.latency["ttft_s"].p95.value is None
    assert found.latency["ttft_s"].p95.not_reached == 0


def test_a_time_of_zero_has_no_logarithm_but_a_mean() -> None:
    zero = {"ttft_s": quantiles(0.0, 0.0)}
    runs = [point_run(8.0, 9, at, all=part(9, latency=zero)) for at in range(2)]
    assert points(runs)[0].latency["ttft_s"].p50.value == 0.0


def test_groups_are_points_of_their_own() -> None:
    runs = [
        point_run(8.0, 90, at, groups={"short": part(50, 50), "long": part(40, 50)})
        for at in range(2)
    ]
    found = points(runs)[0]
    assert found.groups["short"].goodput.ratio == pytest.approx(1.0)
    assert found.groups["long"].goodput.ratio == pytest.approx(0.8)
    assert [s.ratio for s in samples_of(runs, "long")] == [0.8, 0.8]


def test_a_mean_of_what_is_not_known_is_not_known() -> None:
    assert mean_of([None, None]).value is None
    assert mean_of([None, 2.0]).value == 2.0
    assert mean_of([None, 2.0]).n == 1


def test_a_judged_run_becomes_a_point_run() -> None:
    """Counts come from the judgement; sums are kept by group and by layer."""
    records = [
        answered(0, events_ms=[100, 110], group="short"),
        answered(1, events_ms=[4_000, 4_010], group="long"),
        refused(2, group="long"),
    ]
    summary = judged(records, slo="ttft=2s")
    found = run_of(summary, records, rate_rps=1.5)
    assert found.usable
    assert (found.all.offered, found.all.ok, found.all.good) == (3, 2, 1)
    assert found.all.shed == {"engine_admission": 1}
    assert found.groups["long"].shed == {"engine_admission": 1}
    assert found.groups["short"].shed == {}
    assert found.groups["short"].good == 1
    assert found.drain_s == pytest.approx(2.01)
    assert found.engine_restarted is None
    assert found.preemptions is None


def test_what_the_engine_told_of_itself_goes_along() -> None:
    records = [answered(0, events_ms=[100])]
    told = {
        "server": {
            "status": "ok",
            "restarts": 1,
            "prefix_hit_rate": 0.4,
            "series": {"preemptions": {"delta": 3.0}},
        }
    }
    found = run_of(judged(records, telemetry=told), records, rate_rps=1.0)
    assert found.preemptions == 3
    assert found.prefix_hit_rate == pytest.approx(0.4)
    assert found.engine_restarted
    assert not found.usable
    assert found.why_not == "the engine restarted during the run"
