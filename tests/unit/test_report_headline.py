"""The run in words: every offered request is in the sentence once."""

from __future__ import annotations

import pytest

from loadgen.report.facts import (
    Facts,
    Goodput,
    Latency,
    Offered,
    Reason,
    Rejection,
    Spread,
    Verdict,
)
from loadgen.report.headline import headline

FORTY = Offered(requests=40, duration_s=2.0, rate_rps=20.0)
TTFT_2S = {"ttft_s": 2.0}


def lost(
    layer: str, outcomes: dict[str, int], resource: str = "queued_requests"
) -> Rejection:
    return Rejection(
        layer=layer,
        limiting_resource=resource,
        count=sum(outcomes.values()),
        by_outcome=outcomes,
    )


def test_refused_late_and_good() -> None:
    facts = Facts(
        basis="measured",
        outcomes={"ok": 11, "http_reject": 12, "in_stream_reject": 17},
        offered=FORTY,
        goodput=Goodput(slo=TTFT_2S, good=9, offered=40),
        rejections=[
            lost("engine_admission", {"http_reject": 10, "in_stream_reject": 17}),
            lost("engine_admission", {"http_reject": 2}, "queued_tokens"),
        ],
    )
    assert headline(facts) == (
        "40 requests offered in 2 s (20/s): 9 answered within target, 2 answered too "
        "late, 29 refused by the engine's admission (queued_requests, queued_tokens)."
    )


def test_what_no_server_gave_says_so_first() -> None:
    facts = Facts(basis="stand-in", outcomes={"ok": 1}, offered=Offered(requests=1))
    assert headline(facts) == (
        "A stand-in engine answered, no real server. 1 request offered: 1 answered."
    )


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (lost("gateway", {"http_reject": 40}, "other"), "40 refused by the gateway"),
        (
            lost("engine_failure", {"in_stream_error": 40}, "unknown"),
            "40 lost to an engine failure",
        ),
        (
            lost("network", {"connect_error": 40}, "connections"),
            "40 lost in the network (connections)",
        ),
        (lost("unknown", {"reset": 40}, "unknown"), "40 lost, where is unknown"),
        (lost("client", {"unsent": 40}, "other"), "40 never sent"),
        (lost("client", {"timeout": 40}, "timeout"), "40 over the time limit"),
        (
            lost("a newer layer", {"http_reject": 40}, "other"),
            "40 refused by a newer layer",
        ),
    ],
)
def test_each_layer_in_its_words(row: Rejection, said: str) -> None:
    facts = Facts(
        basis="measured", outcomes=row.by_outcome, offered=FORTY, rejections=[row]
    )
    assert headline(facts) == (
        f"40 requests offered in 2 s (20/s): 0 answered, {said}."
    )


def test_one_layer_can_refuse_some_and_lose_others() -> None:
    facts = Facts(
        basis="measured",
        outcomes={"ok": 0, "http_reject": 3, "reset": 37},
        offered=FORTY,
        goodput=Goodput(slo=TTFT_2S),
        rejections=[lost("gateway", {"http_reject": 3, "reset": 37}, "other")],
    )
    assert "none answered, 37 lost at the gateway, 3 refused by the gateway." in (
        headline(facts)
    )


def test_without_causes_the_outcomes_are_said() -> None:
    """An older summary names no layers, or an edited one not all of them."""
    facts = Facts(
        basis="measured", outcomes={"ok": 38, "http_reject": 1, "vanished": 1}
    )
    assert headline(facts) == (
        "40 requests offered: 38 answered, 1 refused by HTTP status, 1 vanished."
    )


def test_a_wait_without_refusals_is_said() -> None:
    facts = Facts(
        basis="measured",
        outcomes={"ok": 40},
        offered=FORTY,
        goodput=Goodput(slo=TTFT_2S, good=5, offered=40),
        latency=Latency(ttft_s=Spread(n=40, p95=36.73)),
    )
    assert headline(facts).endswith(
        "Nobody was refused, but the wait grew: 5% waited 36.7 s or more for the "
        "first token, the target is 2 s."
    )


@pytest.mark.parametrize(
    ("code", "begins"),
    [
        ("send_lag", "Invalid run, so do not use"),
        ("not_fully_issued", "Stopped before its end, so do not use"),
    ],
)
def test_an_invalid_run_says_so_before_any_number(code: str, begins: str) -> None:
    verdict = Verdict(status="invalid", reasons=[Reason(text="", code=code)])
    facts = Facts(basis="measured", outcomes={"ok": 1}, verdict=verdict)
    assert headline(facts).startswith(begins)
