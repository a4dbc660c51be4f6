"""Envoy's refusals told from the engine's own; its access log is the referee."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.burst import Run, burst
from tests.engines.envoy import (
    BREAKER_REQUESTS,
    RATE_LIMIT_REQUESTS,
    Envoy,
    envoy,
)
from tests.engines.plain_http import counter
from tests.engines.servers import Server, free_port

pytestmark = pytest.mark.engines

TWELVE_AT_ONCE = ("--rate", "12000/s", "--duration", "1ms", "--max-tokens", "12")
FLAG = {
    ("gateway", "concurrency"): "UO",
    ("gateway", "rate_limit_requests"): "RL",
    ("network", "connections"): "UF",
    ("network", "timeout"): "UT",
}


@pytest.fixture(scope="module")
def before_llamacpp(
    need_proxies: None, llamacpp: Server, logs: Path
) -> Iterator[Envoy]:
    with envoy(llamacpp.port, logs) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def before_vllm(need_proxies: None, vllm: Server, logs: Path) -> Iterator[Envoy]:
    with envoy(vllm.port, logs) as gateway:
        yield gateway


def check_against_log(run: Run, gateway: Envoy) -> None:
    """Each refusal has the flag that Envoy itself logged for that request."""
    lines = gateway.lines(r["request_id"] for r in run.records)
    assert len(lines) == len(run.records)
    for record in run.records:
        flags = lines[record["request_id"]].flags
        if record["outcome"] == "ok":
            assert flags == "-"
        else:
            blamed = record["attribution"]
            key = blamed["layer"], blamed["limiting_resource"]
            assert FLAG.get(key, "-") in flags.split(",")


def test_overflow_of_the_circuit_breaker(
    before_llamacpp: Envoy, tmp_path: Path
) -> None:
    run = burst(before_llamacpp.breaker_url, tmp_path / "burst", *TWELVE_AT_ONCE)
    run.check_accounts(offered=12)
    refused = 12 - BREAKER_REQUESTS
    assert run.outcomes == {"ok": BREAKER_REQUESTS, "http_reject": refused}
    assert run.blamed() == {("gateway", "concurrency"): refused}
    assert {r["status"] for r in run.where("http_reject")} == {503}
    check_against_log(run, before_llamacpp)


def test_local_rate_limit(before_llamacpp: Envoy, tmp_path: Path) -> None:
    run = burst(before_llamacpp.rate_limit_url, tmp_path / "burst", *TWELVE_AT_ONCE)
    run.check_accounts(offered=12)
    refused = 12 - RATE_LIMIT_REQUESTS
    assert run.outcomes == {"ok": RATE_LIMIT_REQUESTS, "http_reject": refused}
    assert run.blamed() == {("gateway", "rate_limit_requests"): refused}
    assert {r["status"] for r in run.where("http_reject")} == {429}
    assert {r["attribution"]["accepted"] for r in run.where("http_reject")} == {"no"}
    check_against_log(run, before_llamacpp)


def test_route_timeout_cuts_streams_and_answers_504_to_the_waiting(
    before_llamacpp: Envoy, tmp_path: Path
) -> None:
    run = burst(
        before_llamacpp.timeout_url,
        tmp_path / "burst",
        *TWELVE_AT_ONCE,
        *("--max-tokens", "400", "--extra-body", '{"ignore_eos": true}'),
    )
    run.check_accounts(offered=12)
    cut = [r for r in run.records if r["status"] == 200]
    waiting = run.where("http_reject")
    assert 1 <= len(cut) <= 4  # as many as had a slot, and a token in time
    assert len(cut) + len(waiting) == 12
    assert {r["status"] for r in waiting} == {504}
    assert {r["outcome"] for r in cut} <= {"truncated", "reset"}
    for record in waiting:
        assert record["attribution"]["layer"] in ("network", "gateway")
        assert record["attribution"]["limiting_resource"] == "timeout"
    for record in cut:
        assert record["attribution"]["accepted"] == "yes"
        assert record["attribution"]["layer"] != "engine_admission"
    lines = before_llamacpp.lines(r["request_id"] for r in run.records)
    assert Counter(line.flags for line in lines.values()) == {"UT": 12}


def test_nothing_behind_the_gateway(need_proxies: None, tmp_path: Path) -> None:
    with envoy(free_port(), tmp_path) as gateway:
        run = burst(
            gateway.plain_url,
            tmp_path / "burst",
            *("--no-preflight", "--model", "any", "--rate", "20/s"),
            *("--duration", "250ms"),
        )
        run.check_accounts(offered=5)
        assert run.outcomes == {"http_reject": 5}
        assert run.blamed() == {("network", "connections"): 5}
        assert {r["status"] for r in run.records} == {503}
        check_against_log(run, gateway)


def test_the_engines_own_503_passes_through(
    before_vllm: Envoy, vllm: Server, tmp_path: Path
) -> None:
    before = counter(vllm.url, "vllm:admission_rejections_total")
    run = burst(
        before_vllm.plain_url,
        tmp_path / "burst",
        *("--rate", "200/s", "--duration", "200ms", "--max-tokens", "64"),
    )
    run.check_accounts(offered=40)
    refused = 40 - run.outcomes["ok"]
    assert refused > 0
    assert run.blamed() == {("engine_admission", "queued_requests"): refused}
    counted = counter(vllm.url, "vllm:admission_rejections_total") - before
    assert counted == refused
    check_against_log(run, before_vllm)
