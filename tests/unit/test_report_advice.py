"""What is suggested follows from what happened, and can be pasted."""

from __future__ import annotations

from loadgen.report.advice import steps
from loadgen.report.facts import (
    Facts,
    Goodput,
    Latency,
    Made,
    Offered,
    Reason,
    Rejection,
    Spread,
    Verdict,
)

URL = "http://10.0.0.7:8000"
COMMAND = ["loadgen", "burst", "--url", URL, "--rate", "20/s", "--slo=ttft=1s"]
MADE = Made(command=COMMAND, target={"url": URL}, config={})
GOOD = Facts(
    basis="measured",
    outcomes={"ok": 40},
    offered=Offered(requests=40, duration_s=2.0, rate_rps=20.0),
    goodput=Goodput(slo={"ttft_s": 2.0}, good=40, offered=40),
)


def commands(facts: Facts, made: Made = MADE, folder: str | None = "r/x") -> list[str]:
    return [step.command for step in steps(facts, made, folder)]


def rejection(layer: str, resource: str, count: int = 3) -> Rejection:
    return Rejection(layer=layer, limiting_resource=resource, count=count)


def test_all_good_asks_for_more() -> None:
    assert commands(GOOD) == [
        f"loadgen burst --url {URL} --rate 40/s --slo=ttft=1s",
    ]


def test_a_refusal_leads_to_its_explanation() -> None:
    facts = Facts(
        basis="measured",
        outcomes={"http_reject": 9},
        rejections=[
            rejection("gateway", "other", 2),
            rejection("engine_admission", "queued_tokens", 6),
            rejection("client", "connections", 8),
            rejection("router", "no_capacity", 1),
        ],
    )
    assert commands(facts) == [
        "loadgen explain queued_tokens",
        "loadgen explain gateway",
    ]


def test_a_wait_without_refusals_leads_to_the_cap() -> None:
    facts = Facts(
        basis="measured",
        outcomes={"ok": 40},
        goodput=Goodput(slo={"ttft_s": 2.0}, good=5, offered=40),
        latency=Latency(ttft_s=Spread(n=40, p95=36.7)),
    )
    assert commands(facts) == ["loadgen explain queued_requests"]


def test_an_invalid_run_is_offered_again_with_what_a_replay_needs() -> None:
    facts = Facts(
        basis="measured",
        outcomes={"ok": 1},
        verdict=Verdict(status="invalid", reasons=[Reason(text="late")]),
    )
    made = Made(
        command=[*COMMAND, "--insecure", "--api-key-env", "KEY", "--name", "a b"],
        target={"url": URL},
    )
    assert commands(facts, made, "results/a b/") == [
        f"loadgen replay 'results/a b/schedule.jsonl' --url {URL} --slo=ttft=1s "
        "--insecure --api-key-env KEY"
    ]
    assert commands(facts, made, None) == []


def test_a_stand_in_leads_to_a_real_server() -> None:
    facts = Facts(basis="stand-in", outcomes={"ok": 3})
    made = Made(command=["/bin/loadgen", "burst"], target={"url": "http://127.0.0.1:1"})
    assert commands(facts, made) == ["loadgen burst --url http://HOST:PORT"]


def test_engine_counters_are_suggested_where_they_could_be_had() -> None:
    made = Made(command=COMMAND, target={"url": URL}, config={"metrics_url": None})
    late = Facts(basis="measured", outcomes={"ok": 3})
    assert commands(late, made) == [
        f"loadgen burst --url {URL} --rate 20/s --slo=ttft=1s "
        f"--metrics-url {URL}/metrics"
    ]
    assert commands(late) == []
    told = Facts(basis="measured", outcomes={"ok": 3}, reconciliation={"difference": 0})
    assert commands(told, made) == []


def test_no_connection_leads_to_a_look_at_the_server() -> None:
    facts = Facts(
        basis="measured",
        outcomes={"connect_error": 3},
        rejections=[rejection("network", "connections")],
    )
    assert commands(facts) == [
        f"curl -sS {URL}/v1/models",
        "loadgen explain connections",
    ]


def test_hostile_words_stay_words() -> None:
    facts = Facts(
        basis="measured",
        outcomes={"http_reject": 1},
        rejections=[rejection("gateway", "x; rm -rf ~\x1b[2J")],
    )
    assert commands(facts) == ["loadgen explain 'x; rm -rf ~\\x1b[2J'"]
