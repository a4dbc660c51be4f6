"""vllm-router's refusals told from the engine's, and its retries found out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines import servers
from tests.engines.burst import Run, burst
from tests.engines.plain_http import counter
from tests.engines.servers import Server, running

pytestmark = pytest.mark.engines

REQUESTS = 40
IN_200_MS = ("--rate", "200/s", "--duration", "200ms")
ENGINE_REFUSED = ("engine_admission", "queued_requests")
TRIES = 5  # what the router makes of one request by default


@pytest.fixture
def no_breaker(need_proxies: None, vllm: Server, logs: Path) -> Iterator[Server]:
    """One try a request, and the engine's refusals open no circuit."""
    flags = ("--disable-retries", "--disable-circuit-breaker")
    with running(servers.router(vllm.url, *flags), logs) as router:
        yield router


def engine_refusals(vllm: Server) -> float:
    return counter(vllm.url, "vllm:admission_rejections_total")


def status_refusals(run: Run) -> int:
    return len(run.where("http_reject"))


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


def test_retries_are_found_by_reconciliation(
    need_proxies: None, vllm: Server, logs: Path, tmp_path: Path
) -> None:
    flags = ("--disable-circuit-breaker",)
    with running(servers.router(vllm.url, *flags), logs) as router:
        before = engine_refusals(vllm)
        run = burst(
            router.url,
            tmp_path / "burst",
            *("--rate", "200/s", "--duration", "200ms", "--max-tokens", "400"),
            *("--extra-body", '{"ignore_eos": true}'),
            *("--metrics-url", f"{vllm.url}/metrics"),
        )
        counted = engine_refusals(vllm) - before
    run.check_accounts(offered=REQUESTS)
    seen = REQUESTS - run.outcomes["ok"]
    in_stream = len(run.where("in_stream_reject"))
    # Each refusal by status was tried five times; one inside a 200 ended there.
    # A try that got in after some refusals adds those.
    assert counted >= TRIES * status_refusals(run) + in_stream
    assert counted > seen
    reconciled = run.summary["reconciliation"]
    assert reconciled["engine"]["admission_rejections"] == counted
    assert reconciled["difference"] == counted - seen
    assert "retr" in reconciled["finding"]


def test_own_queue_times_out_as_408(
    need_proxies: None, vllm: Server, logs: Path, tmp_path: Path
) -> None:
    flags = ("--disable-retries", "--disable-circuit-breaker")
    limits = ("--max-concurrent-requests", "2", "--queue-size", "100")
    launch = servers.router(vllm.url, *flags, *limits, "--queue-timeout-secs", "1")
    before = engine_refusals(vllm)
    with running(launch, logs) as router:
        run = burst(
            router.url,
            tmp_path / "burst",
            *("--rate", "12000/s", "--duration", "1ms", "--max-tokens", "600"),
            *("--extra-body", '{"ignore_eos": true}'),
        )
    run.check_accounts(offered=12)
    refused = run.where("http_reject")
    assert {r["status"] for r in refused} == {408}
    assert {r["attribution"]["layer"] for r in refused} == {"router"}
    assert {r["attribution"]["accepted"] for r in refused} == {"no"}
    assert run.outcomes.get("ok", 0) == 12 - len(refused)
    assert engine_refusals(vllm) == before


def test_open_circuit(
    need_proxies: None, vllm: Server, logs: Path, tmp_path: Path
) -> None:
    flags = ("--disable-retries", "--cb-failure-threshold", "2")
    launch = servers.router(vllm.url, *flags, "--cb-timeout-duration-secs", "60")
    before = engine_refusals(vllm)
    with running(launch, logs) as router:
        run = burst(router.url, tmp_path / "burst", *IN_200_MS, "--max-tokens", "48")
    run.check_accounts(offered=REQUESTS)
    blamed = run.blamed()
    assert set(blamed) == {ENGINE_REFUSED, ("router", "no_capacity")}
    assert blamed[ENGINE_REFUSED] == engine_refusals(vllm) - before
    never_reached = blamed["router", "no_capacity"]
    assert never_reached > 0
    assert run.outcomes["ok"] + sum(blamed.values()) == REQUESTS
