"""The handed metric cases: each input is made a run, and judged as a run is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from loadgen.analysis.columns import RunData
from loadgen.analysis.goodput import good_rows, meets, parse_slo
from loadgen.analysis.latency import gaps_of, times_of
from loadgen.analysis.stats import spread
from loadgen.analysis.summary import Summary
from loadgen.model import Outcome, RequestRecord, TokenSource
from tests.cases import Case, cases
from tests.runs import answered, judged, ns, record, refused

Observed = dict[str, Any]

OUR_WORD = {
    "server_usage": TokenSource.USAGE,
    "ok": Outcome.OK,
    "error": Outcome.TRUNCATED,
}
"""The cases' words, where ours are others."""

NOT_OURS = {"why", "not", "nearest_rank"}
"""Keys of an expectation that describe other tools."""


def streamed(given: Case) -> Observed:
    """One answer with a stamp a token."""
    one = answered(
        events_ms=given["event_times_ms"],
        output_tokens=given["output_tokens"],
        end_ms=given.get("done_ms"),
    )
    data = RunData.collect([one], 1)
    times, gaps = times_of(data), gaps_of(data)
    return {
        "ttft_ms": times.ttft[0] / 1e6,
        "itl_ms": [gap / 1e6 for gap in gaps.ns[gaps.exact]],
        "tpot_ms": times.tpot[0] / 1e6,
        "e2e_ms": times.e2e[0] / 1e6,
        "e2e_last_token_ms": (data.last_token_ns - data.scheduled_ns)[0] / 1e6,
        "stream_end_ms": times.e2e[0] / 1e6,
    }


def with_ttft(seq: int, ttft_ms: float | None) -> RequestRecord:
    events = [] if ttft_ms is None else [ttft_ms]
    outcome = Outcome.TRUNCATED if ttft_ms is None else Outcome.OK
    return answered(seq, events_ms=events, outcome=outcome)


def ttfts(values_ms: list[float | None]) -> Observed:
    summary = judged([with_ttft(seq, value) for seq, value in enumerate(values_ms)])
    found = summary.latency.ttft_s

    def ms(value: float | None) -> float | None:
        return None if value is None else value * 1e3

    return {
        "n": found.n,
        "n_ttft": found.n,
        "n_missing": found.n_missing,
        "mean": ms(found.mean),
        "p50": ms(found.p50),
        "median_ttft_ms": ms(found.p50),
        "p90": ms(found.p90),
        "p99": ms(found.p99),
        "flag": found.flag,
        "failed": sum(summary.outcomes.values()) - summary.outcomes["ok"],
        "success_rate": summary.goodput.ratio,
    }


def ttft_list(given: Case) -> Observed:
    return ttfts(given["ttft_ms"] or [None] * given["offered"])


def ttft_requests(given: Case) -> Observed:
    return ttfts([request["ttft_ms"] for request in given["requests"]])


def quantiles(given: Case) -> Observed:
    found = spread(np.array(given["values"], dtype=np.float64))
    return {"linear": {str(q): getattr(found, f"p{q}") for q in given["q"]}}


def codes(summary: Summary) -> set[str]:
    return {finding.code for finding in summary.findings}


def last_before_first(given: Case) -> Observed:
    one = answered(
        events_ms=[given["ttft_ms"]],
        output_tokens=given["output_tokens"],
        last_token_ns=ns(given["last_token_ms"]),
    )
    summary = judged([one])
    assert summary.latency.ttft_s.n == 1
    return {
        "tpot_ms": summary.latency.tpot_s.p50,
        "anomaly": (codes(summary) & {"last_token_before_first"}).pop(),
    }


def two_clocks(given: Case) -> Observed:
    summary = judged([answered(events_ms=[given["ttft_ms"]], end_ms=given["e2e_ms"])])
    return {
        "valid": summary.latency.ttft_s.n == 1 or summary.latency.e2e_s.n == 1,
        "anomaly": (codes(summary) & {"ttft_gt_e2e"}).pop(),
    }


def mostly_rejected(given: Case) -> Observed:
    good = given["completed_meeting_slo"]
    records = [
        answered(seq, events_ms=[100]) if seq < good else refused(seq)
        for seq in range(given["offered"])
    ]
    summary = judged(records, slo="ttft=200ms")
    return {
        "goodput_fraction": summary.goodput.ratio,
        "rejected_fraction": summary.outcomes["http_reject"] / len(records),
    }


def paced(seq: int, ttft_ms: float, tpot_ms: float | None) -> RequestRecord:
    events = [ttft_ms] if tpot_ms is None else [ttft_ms, ttft_ms + tpot_ms]
    return answered(seq, events_ms=events)


def slo_of(given: Case) -> str:
    return ",".join(f"{k.removesuffix('_ms')}={v}ms" for k, v in given["slo"].items())


def two_limits(given: Case) -> Observed:
    counts = given["requests_summary"]
    kinds = {
        "meet_both": (100, 10),
        "meet_ttft_only": (100, 50),
        "meet_tpot_only": (300, 10),
        "meet_none": (300, 50),
    }
    records: list[RequestRecord] = [refused(seq) for seq in range(counts["failed"])]
    for kind, (ttft_ms, tpot_ms) in kinds.items():
        start = len(records)
        records += [paced(start + i, ttft_ms, tpot_ms) for i in range(counts[kind])]
    found = judged(records, slo=slo_of(given), duration_s=given["duration_s"]).goodput
    assert found.offered == counts["offered"]
    return {
        "goodput_rps": found.rate_rps,
        "goodput_fraction": found.ratio,
        "attain_ttft": found.attainment["ttft_s"],
        "attain_tpot": found.attainment["tpot_s"],
    }


def met(records: list[RequestRecord], slo: str) -> Observed:
    data = RunData.collect(records, len(records))
    kept = meets(parse_slo(slo), data, times_of(data), stream=True)
    return {
        "meets": good_rows(kept, data.ok).tolist(),
        "goodput_fraction": judged(records, slo=slo).goodput.ratio,
    }


def at_the_limit(given: Case) -> Observed:
    records = [with_ttft(seq, ms) for seq, ms in enumerate(given["ttft_ms"])]
    return met(records, slo_of(given))


def each_by_its_own(given: Case) -> Observed:
    records = [
        paced(seq, request["ttft_ms"], request["tpot_ms"])
        for seq, request in enumerate(given["requests"])
    ]
    return met(records, slo_of(given))


def two_denominators(given: Case) -> Observed:
    n, last_ms = given["completed"], given["last_response_s"] * 1e3
    tokens = given["output_tokens"] // n
    records = [
        answered(seq, events_ms=[last_ms], output_tokens=tokens) for seq in range(n)
    ]
    found = judged(records, duration_s=given["schedule_end_s"]).throughput
    return {
        "rps_over_schedule": found.ok_rps_over_schedule,
        "rps_over_wall": found.ok_rps_over_wall,
        "tok_s_over_schedule": found.output_tokens_per_s_over_schedule["usage"],
        "tok_s_over_wall": found.output_tokens_per_s_over_wall["usage"],
    }


def counted_by_server(given: Case) -> Observed:
    tokens = given["server_completion_tokens"]
    summary = judged([answered(events_ms=[10, 20], output_tokens=tokens)])
    ((source, found),) = summary.output_tokens.by_source.items()
    return {"output_tokens": found.total, "source": source}


def longer_than_planned(given: Case) -> Observed:
    planned, actual = given["planned_prompt_tokens"], given["usage_prompt_tokens"]
    one = answered(
        events_ms=[10],
        planned_prompt_tokens=planned,
        prompt_tokens=actual,
        prompt_tokens_source=TokenSource.USAGE,
    )
    summary = judged([one])
    finding = next(f for f in summary.findings if f.code == "prompt_length_mismatch")
    assert "+83" in finding.text
    return {
        "planned": one.planned_prompt_tokens,
        "actual": summary.prompt_tokens.by_source["usage"].total,
        "delta": actual - planned,
        "outcome": next(name for name, n in summary.outcomes.items() if n),
        "flag": finding.code,
    }


def two_counters(given: Case) -> Observed:
    totals = {
        TokenSource.USAGE: given["server_total"],
        TokenSource.LOCAL_TOKENIZER: given["retokenized_total"],
    }
    records = [
        answered(seq, events_ms=[10], output_tokens=n, output_tokens_source=source)
        for seq, (source, n) in enumerate(totals.items())
    ]
    found = judged(records, duration_s=given["duration_s"]).throughput
    rates = found.output_tokens_per_s_over_schedule
    return {
        "tok_s_server": rates["usage"],
        "tok_s_retokenized": rates["local_tokenizer"],
        "source_named": len(rates) == 2,
    }


def nothing_received(given: Case) -> Observed:
    one = record(
        end_ns=ns(given["e2e_s"]),
        outcome=Outcome.TRUNCATED,
        output_tokens=given["output_tokens"],
    )
    summary = judged([one])
    rates = summary.throughput.output_tokens_per_s_over_wall
    return {
        "output_tok_s": rates.get("usage"),
        "outcome": next(name for name, n in summary.outcomes.items() if n),
    }


def whitespace_first(given: Case) -> Observed:
    data = RunData.collect([answered(events_ms=[at for at, _ in given["events"]])], 1)
    return {
        "ttft_ms": times_of(data).ttft[0] / 1e6,
        "output_events": data.token_count[0],
    }


def several_tokens_an_event(given: Case) -> Observed:
    events = [float(at) for at in range(1, given["events"] + 1)]
    one = answered(events_ms=events, output_tokens=given["output_tokens"])
    summary = judged([one])
    return {
        "tokens_per_event": summary.tokens_per_event,
        "flag": (codes(summary) & {"events_ne_tokens"}).pop(),
    }


PLAYS: dict[str, Callable[[Case], Observed]] = {
    "met-02-two-tokens": streamed,
    "met-04-zero-tokens-excluded-from-ttft": ttft_requests,
    "met-05-percentile-empty": ttft_list,
    "met-06-percentile-one": ttft_list,
    "met-07-percentile-method": quantiles,
    "met-08-null-in-list": ttft_list,
    "met-09-negative-or-zero-tpot": last_before_first,
    "met-10-goodput-over-all-offered": mostly_rejected,
    "met-11-goodput-two-slos": two_limits,
    "met-12-slo-boundary": at_the_limit,
    "met-14-throughput-denominator": two_denominators,
    "met-17-bos-plus-one": counted_by_server,
    "met-18-chat-template-overhead": longer_than_planned,
    "met-19-usage-vs-retokenized": two_counters,
    "met-22-latency-end-point": streamed,
    "met-28-llmperf-zero-latency": nothing_received,
    "met-29-whitespace-token": whitespace_first,
    "met-30-ttft-larger-than-e2e": two_clocks,
    "met-32-tokens-per-event-field": several_tokens_an_event,
    "met-33-goodput-misaligned-lists": each_by_its_own,
}
CASES = cases("metric")


def in_our_words(value: Any) -> Any:
    return OUR_WORD.get(value, value) if isinstance(value, str) else value


def test_every_case_is_played() -> None:
    assert set(PLAYS) == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_metric_case(name: str) -> None:
    case = CASES[name]
    observed = PLAYS[name](case["input"])
    expected = {k: v for k, v in case["expect"].items() if k not in NOT_OURS}
    for key, value in expected.items():
        wanted = in_our_words(value)
        if isinstance(wanted, float | list | dict):
            wanted = pytest.approx(wanted, rel=1e-4)
        assert observed[key] == wanted, key
    for key, value in case["expect"].get("not", {}).items():
        assert key not in observed or observed[key] != value, key
