"""The main job against vLLM: refusals counted as the engine itself counts them.

How many of them come as a 503 and how many inside a 200 depends on the machine's
load, so only sums and identities with the engine's own counters are asserted.
"""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.engines import servers
from tests.engines.burst import Run, Running, burst, bursting
from tests.engines.plain_http import counter
from tests.engines.servers import Server, running
from tests.engines.vllm_counts import (
    LONG_ANSWER,
    Counts,
    full,
    settled,
    wait_until_idle,
)

pytestmark = pytest.mark.engines

REQUESTS = 40
QUEUED_REQUESTS = ("engine_admission", "queued_requests")
QUEUED_TOKENS = ("engine_admission", "queued_tokens")
# 40 requests: the interval they come in, and the rate that makes it so.
SPREADS = {
    "1ms": "40000/s",
    "40ms": "1000/s",
    "100ms": "400/s",
    "200ms": "200/s",
    "500ms": "80/s",
    "1s": "40/s",
    "2s": "20/s",
}
AT_ONCE = ("--rate", SPREADS["1ms"], "--duration", "1ms")
# Long enough to keep slots busy while later requests come, on any machine.
ANSWER = ("--max-tokens", "64", "--extra-body", '{"ignore_eos": true}')
IDLE_LIMIT_NS = 5_000_000_000
FOUR_AT_ONCE = ("--rate", "4000/s", "--duration", "1ms")


def counted_burst(
    server: Server, out: Path, *flags: str, reason: str = "max_num_queued_reqs"
) -> tuple[Run, Counts]:
    before = settled(server, reason)
    run = burst(server.url, out, *flags)
    return run, settled(server, reason) - before


def check_against_engine(run: Run, engine: Counts, limit: tuple[str, str]) -> None:
    """What we counted is what the engine counted, and nothing is left over."""
    run.check_accounts(offered=REQUESTS)
    refused = len(run.where("http_reject")) + len(run.where("in_stream_reject"))
    assert run.blamed() == ({limit: refused} if refused else {})
    assert refused == engine.refused
    assert run.outcomes["ok"] == engine.succeeded
    assert refused + run.outcomes["ok"] == REQUESTS
    for record in run.where("in_stream_reject"):
        assert record["status"] == 200
        assert not record["token_ns"]
        assert record["error"]["code"] == 503
    for record in run.where("http_reject"):
        assert record["status"] == 503
    assert {row["accepted"] for row in run.summary["rejections"]} <= {"no"}


def test_seven_bursts_conserve_every_request(
    vllm: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inside_a_200 = 0
    status_only = 0.0
    refused = 0.0
    for duration, rate in SPREADS.items():
        run, engine = counted_burst(
            vllm,
            tmp_path / duration,
            *("--rate", rate, "--duration", duration, *ANSWER),
            *("--metrics-url", f"{vllm.url}/metrics"),
        )
        check_against_engine(run, engine, QUEUED_REQUESTS)
        assert run.summary["schema"] == "loadgen.summary/1"
        reconciled = run.summary["reconciliation"]
        assert reconciled["difference"] == 0
        assert reconciled["engine"]["admission_rejections"] == engine.refused
        assert reconciled["engine"]["success"] == engine.succeeded
        inside_a_200 += len(run.where("in_stream_reject"))
        status_only += REQUESTS - engine.http_ok
        refused += engine.refused
    assert inside_a_200 > 0
    assert refused - status_only == inside_a_200
    with capsys.disabled():
        print(  # noqa: T201
            f"\nvLLM, 7 bursts of {REQUESTS}: it refused {refused:.0f}, loadgen "
            f"counted {refused:.0f}; by status alone {status_only:.0f} "
            f"({inside_a_200} came inside a 200)"
        )


def test_whole_answers_are_refused_by_status(vllm: Server, tmp_path: Path) -> None:
    run, engine = counted_burst(
        vllm, tmp_path / "burst", *AT_ONCE, "--no-stream", "--max-tokens", "16"
    )
    check_against_engine(run, engine, QUEUED_REQUESTS)
    assert not run.where("in_stream_reject")


def test_lengths_of_refused_prompts_come_from_the_engine(
    vllm: Server, tmp_path: Path
) -> None:
    run = burst(vllm.url, tmp_path / "burst", *AT_ONCE, "--max-tokens", "16")
    sources = {
        outcome: {r["prompt_tokens_source"] for r in run.where(outcome)}
        for outcome in run.outcomes
    }
    assert sources.pop("ok") == {"usage"}
    assert set.union(*sources.values()) == {"tokenize"}
    assert all(r["prompt_tokens"] > 1 for r in run.records)


def test_headers_come_before_the_engine_has_accepted(
    vllm: Server, tmp_path: Path
) -> None:
    run = burst(
        vllm.url,
        tmp_path / "burst",
        *("--rate", "8000/s", "--duration", "1ms", "--max-tokens", "48"),
    )
    run.check_accounts(offered=8)
    served = run.where("ok")
    first_free_ns = min(r["last_token_ns"] for r in served)
    queued = [r for r in served if r["first_token_ns"] > first_free_ns]
    assert queued
    assert all(r["headers_ns"] < first_free_ns for r in queued)


def test_too_long_a_prompt_without_load(vllm: Server, tmp_path: Path) -> None:
    run = burst(
        vllm.url,
        tmp_path / "burst",
        *("--workload", "long-documents", "--rate", "2/s", "--duration", "1s"),
    )
    run.check_accounts(offered=2)
    assert run.outcomes == {"http_reject": 2}
    assert {r["status"] for r in run.records} == {400}
    assert run.blamed() == {("engine_admission", "context_length"): 2}


def test_too_long_a_prompt_under_overload(vllm: Server, tmp_path: Path) -> None:
    with full(vllm, tmp_path / "load"):
        run = burst(
            vllm.url,
            tmp_path / "burst",
            *("--workload", "long-documents", "--rate", "20/s"),
            *("--duration", "100ms"),
        )
    run.check_accounts(offered=2)
    assert {r["status"] for r in run.records} == {503}
    assert run.blamed() == {QUEUED_REQUESTS: 2}


def test_engine_core_killed(need_vllm: None, tmp_path: Path) -> None:
    with (
        running(servers.vllm(), tmp_path) as server,
        bursting(
            server.url, tmp_path / "burst", *FOUR_AT_ONCE, *LONG_ANSWER
        ) as under_way,
    ):
        wait_until_generating(server, under_way)
        server.kill_part("EngineCore")
        run = under_way.wait()
    run.check_accounts(offered=4)
    assert run.outcomes == {"in_stream_error": 4}
    assert run.blamed() == {("engine_failure", "other"): 4}
    assert {r["attribution"]["accepted"] for r in run.records} == {"yes"}
    assert {r["status"] for r in run.records} == {200}


def test_api_server_killed(need_vllm: None, tmp_path: Path) -> None:
    with (
        running(servers.vllm(), tmp_path) as server,
        bursting(
            server.url, tmp_path / "burst", *FOUR_AT_ONCE, *LONG_ANSWER
        ) as under_way,
    ):
        wait_until_generating(server, under_way)
        server.kill()
        run = under_way.wait()
    run.check_accounts(offered=4)
    assert set(run.outcomes) <= {"truncated", "reset"}
    assert {r["attribution"]["accepted"] for r in run.records} == {"yes"}
    layers = {r["attribution"]["layer"] for r in run.records}
    assert layers <= {"engine_failure", "network", "unknown"}


def test_a_hung_engine_is_left_at_the_idle_limit(vllm: Server, tmp_path: Path) -> None:
    limit = ("--idle-timeout", "5s")
    with bursting(
        vllm.url, tmp_path / "burst", *FOUR_AT_ONCE, *LONG_ANSWER, *limit
    ) as under_way:
        wait_until_generating(vllm, under_way)
        vllm.kill_part("EngineCore", signal.SIGSTOP)
        try:
            run = under_way.wait()
        finally:
            vllm.kill_part("EngineCore", signal.SIGCONT)
    wait_until_idle(vllm)
    run.check_accounts(offered=4)
    assert run.outcomes == {"stalled": 4}
    for record in run.records:
        assert record["end_ns"] - record["last_token_ns"] >= IDLE_LIMIT_NS
        assert record["attribution"]["accepted"] == "yes"


def test_a_terminated_engine_keeps_nobody_waiting(
    need_vllm: None, tmp_path: Path
) -> None:
    limit = ("--idle-timeout", "5s")
    with (
        running(servers.vllm(), tmp_path) as server,
        bursting(
            server.url, tmp_path / "burst", *FOUR_AT_ONCE, *LONG_ANSWER, *limit
        ) as under_way,
    ):
        wait_until_generating(server, under_way)
        server.kill(signal.SIGTERM)
        run = under_way.wait()
    run.check_accounts(offered=4)
    # It falls silent with open connections, or its API server is in time to say
    # that the engine died.
    assert set(run.outcomes) <= {"stalled", "in_stream_error"}
    for record in run.where("stalled"):
        assert record["end_ns"] - record["last_token_ns"] >= IDLE_LIMIT_NS
    for record in run.records:
        assert record["attribution"]["accepted"] == "yes"
        assert record["attribution"]["layer"] != "engine_admission"


def wait_until_generating(server: Server, under_way: Running) -> None:
    """Until all four slots run and tokens have come out of each of them."""
    deadline = time.monotonic() + 60
    before = None
    while before is None or tokens(server) < before + 40:
        assert under_way.under_way()
        assert time.monotonic() < deadline
        time.sleep(0.05)
        if before is None and counter(server.url, "vllm:num_requests_running") == 4:
            before = tokens(server)


def tokens(server: Server) -> float:
    return counter(server.url, "vllm:generation_tokens_total")
