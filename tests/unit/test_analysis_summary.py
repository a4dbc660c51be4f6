"""The summary's own promises: the contract's keys, conservation, apartness."""

from __future__ import annotations

import msgspec

from loadgen.analysis.summary import Summary, encode
from loadgen.model import Outcome, TokenSource
from tests.runs import answered, judged, refused


def test_the_keys_other_programs_rely_on() -> None:
    summary = judged(
        [answered(0, events_ms=[1, 2]), refused(1, group="long-document")],
        slo="ttft=2s",
        reconciliation={"engine": {"success": 1}, "difference": 0},
        telemetry={"gpu": {"status": "no library", "devices": []}},
    )
    said = msgspec.json.decode(encode(summary))
    assert said["schema"] == "loadgen.summary/1"
    assert said["basis"] == "measured"
    assert said["verdict"]["status"] == "valid"
    assert said["verdict"]["reasons"] == []
    assert said["offered"]["requests"] == 2
    assert said["offered"]["duration_s"] == 2.0
    assert said["offered"]["rate_rps"] == 1.0
    assert said["offered"]["schedule_digest"] == "sha256:00"
    assert said["outcomes"] == {"ok": 1, "http_reject": 1}
    assert {
        "layer",
        "limiting_resource",
        "unit",
        "count",
        "by_outcome",
        "statuses",
        "accepted",
        "evidence",
        "confidence",
    } <= set(said["rejections"][0])
    for block in (said["latency"], said["groups"]["short-question"]["latency"]):
        assert {"ttft_s", "itl_s", "tpot_s", "e2e_s", "time_to_reject_s"} <= set(block)
    spread = {"n", "mean", "p50", "p90", "p95", "p99", "max"}
    assert spread <= set(said["latency"]["ttft_s"])
    group = {"offered", "outcomes", "latency", "goodput", "prompt_tokens"}
    assert group <= set(said["groups"]["long-document"])
    goodput = said["goodput"]
    assert goodput["slo"] == {"ttft_s": 2.0}
    assert (goodput["good"], goodput["offered"], goodput["ratio"]) == (1, 2, 0.5)
    assert goodput["scope"] == "this schedule"
    assert len(goodput["ci95"]) == 2
    assert goodput["rate_rps"] == 0.5
    client = said["client"]
    assert client["retries"] == 0
    assert client["receive_clock"] == "kernel"
    assert {"send_lag_s", "loop_lag_s", "connections"} <= set(client)
    assert said["reconciliation"]["difference"] == 0
    assert said["telemetry"]["gpu"]["devices"] == []


def test_a_summary_survives_its_file() -> None:
    summary = judged([answered(0, events_ms=[1, 2]), refused(1)], slo="ttft=2s")
    again = msgspec.json.decode(encode(summary), type=Summary)
    assert encode(again) == encode(summary)


def test_that_none_was_ok_is_said() -> None:
    summary = judged([refused(0)])
    assert summary.outcomes == {"ok": 0, "http_reject": 1}
    assert summary.groups["short-question"].outcomes == {"ok": 0, "http_reject": 1}


def test_groups_are_judged_alone_and_sum_to_the_whole() -> None:
    records = [
        answered(0, events_ms=[100, 110]),
        answered(1, events_ms=[3000, 3050], group="long-document"),
        refused(2, group="long-document"),
    ]
    summary = judged(records, slo="ttft=2s")
    short, long = (
        summary.groups["short-question"],
        summary.groups["long-document"],
    )
    assert (short.goodput.ratio, long.goodput.ratio) == (1.0, 0.0)
    assert short.goodput.good + long.goodput.good == summary.goodput.good
    assert short.offered + long.offered == summary.offered.requests
    assert (short.latency.itl_s.p50, long.latency.itl_s.p50) == (0.01, 0.05)
    assert long.latency.ttft_s.n_missing == 1


def test_warm_up_is_told_and_in_no_other_number() -> None:
    warm = [answered(0, events_ms=[9000]), refused(1)]
    with_it = judged([answered(0, events_ms=[1])], warmup=warm)
    without = judged([answered(0, events_ms=[1])])
    assert with_it.warmup.requests == 2
    assert with_it.warmup.outcomes == {"ok": 1, "http_reject": 1}
    assert msgspec.structs.replace(with_it, warmup=without.warmup) == without


def test_lengths_are_kept_apart_by_who_counted() -> None:
    records = [
        answered(
            0, events_ms=[1], prompt_tokens=10, prompt_tokens_source=TokenSource.USAGE
        ),
        refused(1, prompt_tokens=30, prompt_tokens_source=TokenSource.ESTIMATE),
        refused(2, outcome=Outcome.RESET),
    ]
    found = judged(records).prompt_tokens
    assert {name: each.total for name, each in found.by_source.items()} == {
        "usage": 10,
        "estimate": 30,
    }
    assert found.n_missing == 1
