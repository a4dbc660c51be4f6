"""vllm-router's refusals told from the engine's, and its retries found out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines import servers
from tests.engines.burst import burst
from tests.engines.plain_http import counter
from tests.engines.servers import Server, running
from tests.engines.vllm_counts import full

pytestmark = pytest.mark.engines

REQUESTS = 40
IN_200_MS = ("--rate", "200/s", "--duration", "200ms")
ENGINE_REFUSED = ("engine_admission", "queued_requests")
TEN_IN_500_MS = ("--rate", "20/s", "--duration", "500ms", "--max-tokens", "16")
CIRCUIT_OPENS_AFTER = 2
TRIES = 5  # what the router makes of one request by default


@pytest.fixture
def no_breaker(need_proxies: None, vllm: Server, logs: Path) -> Iterator[Server]:
    """One try a request, and the engine's refusals open no circuit."""
    flags = ("--disable-retries", "--disable-circuit-breaker")
    with running(servers.router(vllm.url, *flags), logs) as router:
        yield router


def engine_refusals(vllm: Server) -> float:
    return counter(vllm.url, "vllm:admission_rejections_total")


def test_the_engines_503_is_known_though_relabelled(
    no_breaker: Server, vllm: Server, tmp_path: Path
) -> None:
    before = engine_refusals(vllm)
    run = burst(no_breaker.url, tmp_path / "burst", *IN_200_MS, "--max-tokens", "48")
    run.check_accounts(offered=REQUESTS)
    refused = REQUESTS - run.outcomes["ok"]
    assert run.blamed() == {ENGINE_REFUSED: refused}
    assert refused == engine_refusals(vllm) - before
    relabelled = run.where("http_reject")
    assert relabelled
    for record in relabelled:
        assert record["headers"]["content-type"] == "text/event-stream"
        assert record["attribution"]["accepted"] == "no"


def test_a_refusal_that_the_router_tried_five_times_is_one_to_us(
    need_proxies: None, vllm: Server, logs: Path, tmp_path: Path
) -> None:
    launch = servers.router(vllm.url, "--disable-circuit-breaker")
    with running(launch, logs) as router, full(vllm, tmp_path / "load"):
        before = engine_refusals(vllm)
        run = burst(router.url, tmp_path / "burst", *TEN_IN_500_MS)
        counted = engine_refusals(vllm) - before
    run.check_accounts(offered=10)
    assert run.blamed() == {ENGINE_REFUSED: 10}
    assert counted == 10 * TRIES


def test_reconciliation_finds_the_retries(
    need_proxies: None, vllm: Server, logs: Path, tmp_path: Path
) -> None:
    launch = servers.router(vllm.url, "--disable-circuit-breaker")
    with running(launch, logs) as router, full(vllm, tmp_path / "load"):
        counters = f"{vllm.url}/metrics"
        run = burst(
            router.url, tmp_path / "burst", *TEN_IN_500_MS, "--metrics-url", counters
        )
    told = run.summary["reconciliation"]
    assert told["engine"]["admission_rejections"] == 10 * TRIES
    assert told["client"]["admission_rejections"] == 10
    assert told["amplification"] == TRIES
    assert "something upstream retries" in told["finding"]


def test_open_circuit(
    need_proxies: None, vllm: Server, logs: Path, tmp_path: Path
) -> None:
    flags = ("--disable-retries", "--cb-failure-threshold", str(CIRCUIT_OPENS_AFTER))
    launch = servers.router(vllm.url, *flags, "--cb-timeout-duration-secs", "60")
    with running(launch, logs) as router, full(vllm, tmp_path / "load"):
        before = engine_refusals(vllm)
        run = burst(router.url, tmp_path / "burst", *TEN_IN_500_MS)
        counted = engine_refusals(vllm) - before
    run.check_accounts(offered=10)
    assert run.outcomes == {"http_reject": 10}
    blamed = run.blamed()
    assert set(blamed) == {ENGINE_REFUSED, ("router", "no_capacity")}
    assert blamed[ENGINE_REFUSED] == counted >= CIRCUIT_OPENS_AFTER


def test_own_queue_times_out_as_408(
    need_proxies: None, llamacpp: Server, logs: Path, tmp_path: Path
) -> None:
    flags = ("--disable-retries", "--disable-circuit-breaker", "--queue-size", "100")
    limits = ("--max-concurrent-requests", "2", "--queue-timeout-secs", "1")
    with running(servers.router(llamacpp.url, *flags, *limits), logs) as router:
        run = burst(
            router.url,
            tmp_path / "burst",
            *("--rate", "12000/s", "--duration", "1ms", "--max-tokens", "60"),
            *("--extra-body", '{"ignore_eos": true}'),
        )
    run.check_accounts(offered=12)
    refused = run.where("http_reject")
    assert refused
    assert {r["status"] for r in refused} == {408}
    assert run.blamed() == {("router", "timeout"): len(refused)}
    assert {r["attribution"]["accepted"] for r in refused} == {"no"}
    assert run.outcomes.get("ok", 0) == 12 - len(refused)
