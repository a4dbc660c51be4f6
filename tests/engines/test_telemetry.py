"""What real engines' metrics tell of a burst, beside our own records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.engines.burst import Run, burst
from tests.engines.servers import Server
from tests.engines.vllm_counts import settled

pytestmark = pytest.mark.engines

OLD_NAME = "vllm:gpu_cache_usage_perc"
ANSWER = ("--max-tokens", "64", "--extra-body", '{"ignore_eos": true}')


def inside(run: Run) -> dict[str, Any]:
    server: dict[str, Any] = run.summary["telemetry"]["server"]
    assert server["status"] == "ok", server
    return server


def test_vllm_shows_the_burst_and_counts_what_we_count(
    vllm: Server, tmp_path: Path
) -> None:
    settled(vllm)
    run = burst(
        vllm.url,
        tmp_path / "burst",
        *("--rate", "20/s", "--duration", "2s", *ANSWER),
        *("--series", OLD_NAME),
    )
    server = inside(run)
    series = server["series"]
    refused = len(run.where("http_reject")) + len(run.where("in_stream_reject"))
    assert (server["engine"], server["version"]) == ("vllm", "0.33.0")
    assert refused > 0
    assert series["admission_rejections"]["delta"] == refused
    assert series["success"]["delta"] == run.outcomes["ok"]
    assert 1 <= series["running"]["peak"] <= 4
    assert 1 <= series["waiting"]["peak"] <= 8
    assert series["waiting"]["after"] == series["running"]["after"] == 0
    assert 0 < series["kv_usage"]["peak"] <= 1
    assert series["ttft_s"]["count"] == run.outcomes["ok"]
    assert server["missing"] == [OLD_NAME]
    (renamed,) = server["renamed"]
    assert (renamed["new"], renamed["gone"]) == ("vllm:kv_cache_usage_perc", "0.12")


def test_llamacpp_shows_its_queue_and_keeps_no_account(
    llamacpp: Server, tmp_path: Path
) -> None:
    run = burst(
        llamacpp.url,
        tmp_path / "burst",
        *("--rate", "12000/s", "--duration", "1ms", "--max-tokens", "48"),
        *("--extra-body", '{"ignore_eos": true}'),
    )
    server = inside(run)
    series = server["series"]
    assert server["engine"] == "llamacpp"
    assert series["running"]["peak"] == 4
    assert 1 <= series["waiting"]["peak"] <= 8
    assert series["generation_tokens"]["delta"] >= 12
    assert not {"success", "admission_rejections", "kv_usage"} & set(series)
    assert server["missing"] == []
    assert run.summary["reconciliation"]["status"] == "unknown"
    codes = {finding["code"] for finding in run.summary["findings"]}
    assert "silent_queue" in codes
