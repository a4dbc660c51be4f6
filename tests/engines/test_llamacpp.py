"""The main job against llama.cpp with a real model: real tokens, real waiting."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.engines import servers
from tests.engines.burst import Running, burst, bursting
from tests.engines.plain_http import counter, get
from tests.engines.servers import Server, await_ready, running, started

pytestmark = pytest.mark.engines

SLOTS = 4
# All of a schedule within 1 ms.
TWELVE_AT_ONCE = ("--rate", "12000/s", "--duration", "1ms")
LONG_ANSWER = ("--max-tokens", "400", "--extra-body", '{"ignore_eos": true}')
# Loads for about 8 s on an idle machine (and takes 4 GB for it).
SLOW_TO_LOAD_TOKENS = 200_000


def wait_until_idle(server: Server) -> None:
    deadline = time.monotonic() + 30
    while (
        counter(server.url, "llamacpp:requests_processing")
        or counter(server.url, "llamacpp:requests_deferred")
    ) and time.monotonic() < deadline:
        time.sleep(0.05)


def tokens_out(server: Server) -> list[int]:
    """For each slot, how many tokens of its present answer it has made."""
    told = json.loads(get(server.url + "/slots").body)
    steps = [slot.get("next_token") or [{}] for slot in told]
    return [step[0].get("n_decoded", 0) for step in steps]


def wait_until_busy(server: Server, under_way: Running) -> None:
    """Until every slot of the server has sent some tokens."""
    deadline = time.monotonic() + 60
    while min(tokens_out(server)) < 3:
        assert under_way.under_way()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_real_tokens(llamacpp: Server, tmp_path: Path) -> None:
    run = burst(
        llamacpp.url,
        tmp_path / "burst",
        *("--rate", "4/s", "--duration", "1500ms", "--max-tokens", "16"),
        *("--keep-text", "--slo", "ttft=20s"),
    )
    run.check_accounts(offered=6)
    assert run.code == 0
    assert run.outcomes == {"ok": 6}
    assert run.summary["basis"] == "measured"
    assert run.summary["latency"]["ttft_s"]["n"] == 6
    assert run.summary["goodput"]["good"] == 6
    for record in run.records:
        assert record["finish_reason"] in ("stop", "length")
        assert record["output_tokens_source"] == "usage"
        assert 1 <= record["output_tokens"] <= 16
        assert record["prompt_tokens_source"] == "usage"
        assert record["prompt_tokens"] > 1
        assert 1 <= len(record["token_ns"]) <= record["output_tokens"]
        assert record["token_ns"] == sorted(record["token_ns"])
        assert record["text"]
        assert record["model"] == "gemma3-270m"


def test_whole_answers(llamacpp: Server, tmp_path: Path) -> None:
    run = burst(
        llamacpp.url,
        tmp_path / "burst",
        *("--rate", "4/s", "--duration", "500ms", "--max-tokens", "8"),
        *("--no-stream", "--slo", "e2e=20s"),
    )
    run.check_accounts(offered=2)
    assert run.outcomes == {"ok": 2}
    assert {r["output_tokens_source"] for r in run.records} == {"usage"}
    for record in run.records:
        assert record["first_token_ns"] in (None, record["end_ns"])


def test_headers_are_held_back_until_a_slot_is_free(
    llamacpp: Server, tmp_path: Path
) -> None:
    run = burst(llamacpp.url, tmp_path / "burst", *TWELVE_AT_ONCE, "--max-tokens", "16")
    run.check_accounts(offered=12)
    assert run.outcomes == {"ok": 12}
    first_free_ns = min(r["last_token_ns"] for r in run.records)
    before = [r for r in run.records if r["headers_ns"] <= first_free_ns]
    assert 1 <= len(before) <= SLOTS
    for record in run.records:
        assert record["sent_ns"] < record["headers_ns"] <= record["first_token_ns"]


def test_without_a_slot_a_timeout_has_no_status(
    llamacpp: Server, tmp_path: Path
) -> None:
    run = burst(
        llamacpp.url,
        tmp_path / "burst",
        *TWELVE_AT_ONCE,
        *LONG_ANSWER,
        *("--timeout", "2s"),
    )
    wait_until_idle(llamacpp)
    run.check_accounts(offered=12)
    assert run.outcomes == {"timeout": 12}
    unanswered = [r for r in run.records if r["status"] is None]
    # On a slow machine a slot too may have nothing to say within the limit.
    assert len(unanswered) >= 12 - SLOTS
    assert all(r["headers_ns"] is None and not r["token_ns"] for r in unanswered)
    for record in run.records:
        accepted = record["attribution"]["accepted"]
        assert accepted == ("yes" if record["token_ns"] else "unknown")
        assert record["attribution"]["limiting_resource"] == "timeout"


def test_too_long_a_prompt(need_llamacpp: None, tmp_path: Path) -> None:
    with running(servers.llamacpp(context_tokens=1024), tmp_path) as server:
        run = burst(
            server.url,
            tmp_path / "burst",
            *("--workload", "long-documents", "--rate", "4/s", "--duration", "1s"),
        )
    run.check_accounts(offered=4)
    assert run.outcomes == {"http_reject": 4}
    assert run.blamed() == {("engine_admission", "context_length"): 4}
    assert {r["status"] for r in run.records} == {400}


def test_while_the_model_loads(need_llamacpp: None, tmp_path: Path) -> None:
    launch = servers.llamacpp(context_tokens=SLOW_TO_LOAD_TOKENS)
    with started(launch, tmp_path) as server:
        deadline = time.monotonic() + 30
        while get(server.url + "/health").status != 503:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        run = burst(
            server.url,
            tmp_path / "burst",
            *("--no-preflight", "--model", "gemma3-270m", "--max-tokens", "4"),
            *("--rate", "20/s", "--duration", "500ms"),
        )
        await_ready(server, launch)
    run.check_accounts(offered=10)
    refused = run.where("http_reject")
    assert refused, "the model had loaded before the burst began"
    assert run.outcomes.get("ok", 0) == 10 - len(refused)
    assert run.blamed() == {("engine_admission", "no_capacity"): len(refused)}
    for record in refused:
        assert record["status"] == 503
        assert record["error"]["message"] == "Loading model"


def test_killed_in_mid_stream(need_llamacpp: None, tmp_path: Path) -> None:
    with (
        running(servers.llamacpp(), tmp_path) as server,
        bursting(
            server.url, tmp_path / "burst", *TWELVE_AT_ONCE, *LONG_ANSWER
        ) as under_way,
    ):
        wait_until_busy(server, under_way)
        server.kill()
        run = under_way.wait()
    run.check_accounts(offered=12)
    cut = [r for r in run.records if r["token_ns"]]
    waiting = [r for r in run.records if r["status"] is None]
    assert len(cut) == SLOTS
    assert len(waiting) == 12 - SLOTS
    assert {r["outcome"] for r in cut} <= {"truncated", "reset"}
    assert {r["outcome"] for r in waiting} <= {"truncated", "reset"}
    assert {r["attribution"]["accepted"] for r in cut} == {"yes"}
    assert {r["attribution"]["accepted"] for r in waiting} == {"unknown"}
    layers = {r["attribution"]["layer"] for r in run.records}
    assert layers <= {"engine_failure", "network", "unknown"}
