"""The handed cases of Prometheus pages, played through reading and folding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from loadgen.report.numbers import percent
from loadgen.telemetry.counting import Buckets, histogram_increase
from loadgen.telemetry.exposition import NotMetricsError, read_page
from loadgen.telemetry.prometheus import status_words
from loadgen.telemetry.series import CounterSeen, GaugeSeen
from tests.cases import Case, cases
from tests.runs import answered
from tests.scrapes import beside, both, failed, scrape, seen

Observed = dict[str, Any]

NOT_OURS = {"why", "not", "run_continues", "prometheus_returns"}
"""Described; that a run goes on is shown by the end-to-end tests."""

OUR_WORD = {
    "not_metrics": "an HTML page",
    "metrics_disabled": "metrics disabled (501)",
    "lower bound": True,
}
"""The cases' words, where ours are others."""


def gauge(told: Any) -> GaugeSeen:
    assert isinstance(told, GaugeSeen)
    return told


def counter(told: Any) -> CounterSeen:
    assert isinstance(told, CounterSeen)
    return told


def codes(told: Any) -> list[str]:
    return [finding.code for finding in told.findings]


def fraction(given: Case) -> Observed:
    usage = gauge(seen([scrape(given["text"])]).series["kv_usage"]).peak
    shown = percent(usage)
    return {"fraction": usage, "percent": float(shown.rstrip("%"))}


def restarted(given: Case) -> Observed:
    told = seen(both(given["start"], given["end"]))
    tokens = counter(told.series["prompt_tokens"])
    assert tokens.resets == 1
    return {
        "delta": tokens.delta,
        "reset": told.restarts == 1,
        "delta_is": tokens.resets > 0,
        "flag": next(code for code in codes(told) if code == "server_restarted"),
    }


def no_end(given: Case) -> Observed:
    end = failed(10, given["end_error"], "after")
    told = seen([scrape(given["start"], -1, "before"), end])
    return {
        "delta": counter(told.series["generation_tokens"]).delta,
        "reason": next(code for code in codes(told) if code == "end_scrape_failed"),
    }


def appeared(given: Case) -> Observed:
    name = "vllm:request_success_total"
    told = seen(both(given["start"], given["end"], [name]), asked=[name])
    found = counter(told.series[name])
    assert found.before is None
    return {
        "delta": found.delta,
        "start_assumed": found.after - (found.delta or 0)
        if found.after is not None
        else None,
    }


def total_and_created(given: Case) -> Observed:
    want = given["want"]
    told = seen(both(given["text"], given["text"], [want]), asked=[want])
    return {"value": counter(told.series[want]).after}


def stripped(given: Case) -> Observed:
    page = read_page(given["text"].encode(), "", frozenset({"vllm:request_success"}))
    (point,) = page.points
    (family,) = page.names
    return {
        "family_in_prometheus_client": family,
        "sample_name": point.name,
        "value": point.value,
    }


def without_total(given: Case) -> Observed:
    told = seen(both(given["text"], given["text"], given["want"]), asked=given["want"])
    values = {counter(told.series[name]).after for name in given["want"]}
    (value,) = values | {counter(told.series["preemptions"]).after}
    return {"value": value}


def finished(count: float) -> str:
    return f'vllm:request_success_total{{finished_reason="stop"}} {count}\n'


def others_too(given: Case) -> Observed:
    records = [answered(seq, events_ms=[1]) for seq in range(given["client_sent"])]
    samples = both(finished(0), finished(given["server_finished_delta"]))
    account = beside(samples, records)
    server = (account.telemetry or {})["server"]
    flags = {finding["code"] for finding in server["findings"]}
    (flag,) = flags & {"not_exclusive_or_gateway_retries"}
    return {
        "foreign_requests": server["foreign_requests"],
        "flag": flag,
        "run_valid_for_capacity": server["foreign_requests"] == 0,
    }


def of_the_run(given: Case) -> Observed:
    flat = [
        {
            **given[end]["buckets"],
            "sum": given[end]["sum"],
            "count": given[end]["count"],
        }
        for end in ("start", "end")
    ]
    grew, reset = histogram_increase(flat[0], flat[1])
    assert not reset
    p50, p90 = grew.quantile(0.5), grew.quantile(0.9)
    assert p50 is not None
    assert p90 is not None
    return {
        "delta_buckets": dict(zip(given["end"]["buckets"], grew.counts, strict=True)),
        "delta_sum": grew.total,
        "delta_count": grew.n,
        "mean_s": grew.mean,
        "p50_s": p50.value,
        "p90_s": pytest.approx(p90.value),
    }


def above_all_bounds(given: Case) -> Observed:
    buckets = given["delta_buckets"]
    grew = Buckets(
        tuple(map(float, buckets)), tuple(buckets.values()), None, buckets["+Inf"]
    )
    found = grew.quantile(given["q"])
    assert found is not None
    return {"value_s": found.value, "text": f">{found.above}"}


def escapes(given: Case) -> Observed:
    (point,) = read_page(given["text"].encode(), "", frozenset({"m"})).points
    return {"labels": point.labels, "value": point.value}


def open_metrics(given: Case) -> Observed:
    body = given["text"].encode()
    page = read_page(body, given["content_type"], frozenset({"r"}))
    values = {(p.name, p.labels.get("le")): p.value for p in page.points}
    return {
        "r_count": values["r_count", None],
        "r_sum": values["r_sum", None],
        "bucket_1": values["r_bucket", "1.0"],
    }


def html(given: Case) -> Observed:
    with pytest.raises(NotMetricsError) as refusal:
        read_page(given["text"].encode(), given["content_type"], frozenset())
    return {"values": None, "reason": str(refusal.value)}


def disabled(given: Case) -> Observed:
    return {"values": None, "reason": status_words(given["status"])}


def other_names(given: Case) -> Observed:
    told = seen([scrape(given["text"])])
    return {term: gauge(told.series[term]).peak for term in ("running", "waiting")}


def one_engine_only(given: Case) -> Observed:
    records = [answered(seq, events_ms=[1]) for seq in range(given["client_ok"])]
    before = given["text"].replace("300.0", "0.0")
    server = (beside(both(before, given["text"]), records).telemetry or {})["server"]
    flags = {finding["code"] for finding in server["findings"]}
    (flag,) = flags & {"server_count_below_client"}
    return {"server_total": server["series"]["success"]["delta"], "flag": flag}


def levels(samples: list[list[float | None]]) -> list[Any]:
    page = "vllm:num_requests_running 0\nvllm:num_requests_waiting {}\n"
    return [
        failed(at_s or 0, "no answer within 2 s")
        if value is None
        else scrape(page.format(value), at_s or 0)
        for at_s, value in samples
    ]


def lagging(given: Case) -> Observed:
    told = seen(
        levels(given["samples"]), sent_s=[1.0] * given["client_in_flight_at_5s"]
    )
    (flag,) = set(codes(told)) & {"gauge_lag"}
    return {"max": gauge(told.series["waiting"]).peak, "flag": flag}


def gaps(given: Case) -> Observed:
    told = seen(levels(given["samples"]))
    assert told.scrapes is not None
    assert "scrape_gaps" in codes(told)
    return {
        "n_ok": told.scrapes.ok,
        "n_failed": told.scrapes.failed,
        "mean_of_ok": gauge(told.series["waiting"]).mean,
    }


def hit_rate(given: Case) -> Observed:
    start, end = (
        f"vllm:prefix_cache_queries_total {given[at]['queries']}\n"
        f"vllm:prefix_cache_hits_total {given[at]['hits']}\n"
        for at in ("start", "end")
    )
    return {"hit_rate_run": seen(both(start, end)).prefix_hit_rate}


PLAYS: dict[str, Callable[[Case], Observed]] = {
    "prm-03-unit-is-fraction": fraction,
    "prm-05-counter-reset": restarted,
    "prm-06-end-scrape-failed": no_end,
    "prm-07-new-series-in-run": appeared,
    "prm-08-total-and-created": total_and_created,
    "prm-09-family-name-stripped": stripped,
    "prm-10-counter-without-total": without_total,
    "prm-15-other-traffic": others_too,
    "prm-17-histogram-delta": of_the_run,
    "prm-18-quantile-in-inf": above_all_bounds,
    "prm-22-label-escapes": escapes,
    "prm-23-openmetrics": open_metrics,
    "prm-24-html-metrics": html,
    "prm-25-llamacpp-501": disabled,
    "prm-26-llamacpp-names": other_names,
    "prm-28-last-engine-only": one_engine_only,
    "prm-29-gauge-sampling": lagging,
    "prm-30-scrape-gap": gaps,
    "prm-31-prefix-hit-rate": hit_rate,
}
CASES = cases("prometheus")


def test_every_case_is_played() -> None:
    assert set(PLAYS) == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_prometheus_case(name: str) -> None:
    case = CASES[name]
    observed = PLAYS[name](case["input"])
    for key, value in case["expect"].items():
        if key not in NOT_OURS:
            wanted = OUR_WORD.get(value, value) if isinstance(value, str) else value
            assert observed[key] == wanted, key
