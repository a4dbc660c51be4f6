"""The overload cases handed to us, one test each."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loadgen.analysis.attribution import Attributor, is_refusal
from loadgen.analysis.overload import silent_queue
from loadgen.analysis.reconcile import ClientCounts, EngineDeltas, reconcile
from loadgen.analysis.signatures import load_signatures
from loadgen.model import Attribution, Ending, Outcome, RequestRecord
from loadgen.report.numbers import percent, share
from loadgen.wire.headers import retry_after
from tests.cases import Case, cases
from tests.signature_rows import answer, changed, replayed

CASES = cases("overload")
ATTRIBUTE = Attributor(load_signatures())
# The cases' words for a layer, in ours. What a gateway words about the server
# behind it, they call the gateway's: we say so in the evidence.
LAYERS = {
    "server_admission": {"engine_admission"},
    "server": {"engine_failure"},
    "gateway": {"gateway"},
    "client": {"client"},
    "network_or_server": {"network", "engine_failure"},
    "server_down": {"network"},
}
# Judged where runs are compared.
ELSEWHERE = {"ovl-24-guard-effect"}


def reply(it: dict[str, Any]) -> RequestRecord:
    headers = {name.replace("-", "_"): v for name, v in it["headers"].items()}
    content_type = headers.pop("Content_Type", "")
    return replayed(answer(it["body"], it["status"], content_type, **headers))


def attributed(record: RequestRecord) -> Attribution:
    found = ATTRIBUTE(record)
    assert found is not None
    return found


def check(found: Attribution, layer: str, is_rejection: bool | None) -> None:
    by_gateway = any("worded by the gateway" in line for line in found.evidence)
    assert found.layer in LAYERS[layer] or (layer == "gateway" and by_gateway)
    if is_rejection is not None:
        assert is_refusal(found) is is_rejection


def case(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    it: Case = CASES[name]
    return it["input"], it["expect"]


def test_every_case_has_its_test() -> None:
    tested = {name for name in globals() if name.startswith("test_ovl_")}
    short = {f"test_{name[:6].replace('-', '_')}" for name in CASES if name}
    here = {name[:11] for name in tested}
    assert short - here == {f"test_{n[:6].replace('-', '_')}" for n in ELSEWHERE}


def test_ovl_03_retry_after_odd() -> None:
    given, _ = case("ovl-03-retry-after-odd")
    seconds = [retry_after({"retry-after": raw})[0] for raw in given["values"]]
    raw = [retry_after({"retry-after": raw})[1] for raw in given["values"]]
    assert seconds == [0.493, None, None, None, 0, None]
    assert raw == given["values"]


def test_ovl_04_529() -> None:
    given, expect = case("ovl-04-529")
    record = reply(given)
    found = attributed(record)
    assert record.status == expect["status"]
    assert found.limiting_resource == "no_capacity"
    assert is_refusal(found) is expect["is_rejection"]


def test_ovl_05_vllm_queue_limit() -> None:
    given, expect = case("ovl-05-vllm-queue-limit")
    for it, layer, rejected in zip(
        given["replies"], expect["layer"], expect["is_rejection"], strict=True
    ):
        check(attributed(reply(it)), layer, rejected)


def test_ovl_09_nginx_html_503() -> None:
    given, expect = case("ovl-09-nginx-html-503")
    check(attributed(reply(given)), expect["layer"], expect["is_rejection"])


def test_ovl_10_nginx_504() -> None:
    given, expect = case("ovl-10-nginx-504")
    found = attributed(reply(given))
    check(found, expect["layer"], expect["is_rejection"])
    assert found.limiting_resource == "timeout"


def test_ovl_11_envoy_overflow() -> None:
    given, expect = case("ovl-11-envoy-overflow")
    for it, layer, rejected in zip(
        given["replies"], expect["layer"], expect["is_rejection"], strict=True
    ):
        check(attributed(reply(it)), layer, rejected)


def test_ovl_12_tiny_error_rate() -> None:
    given, _ = case("ovl-12-tiny-error-rate")
    part, whole = given["status_503"], given["total"]
    assert percent(part / whole) not in ("0%", "0.0%", "0.00%")
    assert "0.0%" not in share(part, whole)


def test_ovl_13_silent_queue() -> None:
    given, expect = case("ovl-13-silent-queue")
    mean_ns, most = given["mean_latency_s"] * 1e9, given["waiting_gauge_max"]
    ttft_ns = [2 * mean_ns * (i + 1) / given["ok"] for i in range(given["ok"])]
    waiting = [*range(0, most, 8), most]
    found = silent_queue(refused=expect["rejections"], ttft_ns=ttft_ns, waiting=waiting)
    assert (found is not None) is expect["overload_detected"]
    assert found is not None
    assert "waited" in found.evidence[0]
    assert f"up to {most} at once" in found.evidence[0]
    assert "TTFT grew" in found.evidence[1]


@pytest.mark.parametrize(
    ("refused", "ttft_ns", "waiting"),
    [
        (1, [float(i) for i in range(40)], [5.0] * 40),  # a limit spoke
        (0, [1e8] * 40, [0.0] * 39 + [3.0]),  # steady, hardly any wait
        (0, [1.0, 9.0], None),  # too few to say
        (0, [float("nan")] * 40, []),
    ],
)
def test_no_silent_queue(
    refused: int, ttft_ns: list[float], waiting: list[float] | None
) -> None:
    assert silent_queue(refused=refused, ttft_ns=ttft_ns, waiting=waiting) is None


def test_ovl_15_attempt_header() -> None:
    given, expect = case("ovl-15-attempt-header")
    done = {"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"}
    body = f"data: {json.dumps({'choices': [done]})}\n\ndata: [DONE]\n\n"
    headers = {k.replace("-", "_"): v for k, v in given["headers"].items()}
    record = replayed(answer(body, given["status"], "text/event-stream", **headers))
    assert record.outcome == expect["outcome"]
    assert expect["flag"] in record.findings


def test_ovl_17_client_timeout_499() -> None:
    given, expect = case("ovl-17-client-timeout-499")
    waiting = ended(Outcome.TIMEOUT, Ending.TOTAL, end_s=given["client_timeout_s"])
    check(attributed(waiting), expect["layer"], expect["is_rejection"])
    seen_by_gateway = replayed(answer("", given["gateway_log_status"]))
    check(attributed(seen_by_gateway), expect["layer"], expect["is_rejection"])


def test_ovl_18_refused_during_restart() -> None:
    given, expect = case("ovl-18-refused-during-restart")
    cut = ended(Outcome.RESET, Ending.RESET, status=200, first_token_ns=1)
    check(attributed(cut), expect["layer_at_30"], expect["is_rejection"])
    refused = ended(
        Outcome.CONNECT_ERROR, Ending.CONNECT, sent_ns=None, detail="ECONNREFUSED: x"
    )
    check(attributed(refused), expect["layer_at_31"], expect["is_rejection"])
    started = given["process_start_time_seconds"]
    resets = int(started["after"] > started["before"])
    account = reconcile(
        ClientCounts(sent=2, ok=1, admission=0, aborted=1),
        EngineDeltas(engine="vllm", success=1, admission_rejections=0, resets=resets),
    )
    assert ("restarted" in account.finding) is expect["restart_detected"]


def test_ovl_20_sglang_200_one_token() -> None:
    given, _ = case("ovl-20-sglang-200-one-token")
    choice = {
        "index": 0,
        "delta": {"content": "a"},
        "finish_reason": given["finish_reason"],
    }
    body = f"data: {json.dumps({'choices': [choice]})}\n\ndata: [DONE]\n\n"
    record = replayed(answer(body, given["status"], "text/event-stream"))
    assert record.outcome == "in_stream_error"
    assert attributed(record).layer == "engine_failure"


@pytest.mark.parametrize(
    "message",
    [
        "Request waiting timeout reached.",
        "The request is aborted by a higher priority request.",
    ],
)
def test_ovl_22_queue_timeout_evict(message: str) -> None:
    given, expect = case("ovl-22-queue-timeout-evict")
    error = {"object": "error", "message": message, "code": 503}
    body = f"data: {json.dumps({'error': error})}\n\ndata: [DONE]\n\n"
    record = changed(
        replayed(answer(body, 200, "text/event-stream")),
        headers_ns=given["accepted_200_at_ms"] * 1_000_000,
        end_ns=given["evicted_at_ms"] * 1_000_000,
    )
    check(attributed(record), expect["layer"], expect["is_rejection"])
    assert record.end_ns == expect["time_to_reject_ms"] * 1_000_000


def test_ovl_23_500_too_many_files() -> None:
    given, expect = case("ovl-23-500-too-many-files")
    check(attributed(reply(given)), expect["layer"], expect["is_rejection"])


def test_ovl_25_200_empty_choices_error_finish() -> None:
    given, expect = case("ovl-25-200-empty-choices-error-finish")
    events = "".join(f"data: {json.dumps(event)}\n\n" for event in given["events"])
    record = replayed(answer(events, given["status"], "text/event-stream"))
    assert record.outcome != "ok"
    assert record.finish_reason == expect["finish_reason"]
    assert record.first_token_ns is expect["ttft_ms"]
    assert attributed(record).layer in ("engine_failure", "unknown")


def ended(
    outcome: Outcome, ending: Ending, end_s: float = 1.0, **fields: Any
) -> RequestRecord:
    plain = {"sent_ns": 0} | fields
    return RequestRecord(
        seq=0,
        request_id="r",
        group="g",
        scheduled_ns=0,
        outcome=outcome,
        ending=ending,
        end_ns=int(end_s * 1e9),
        **plain,
    )
