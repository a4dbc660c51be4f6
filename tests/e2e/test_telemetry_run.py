"""Runs that are watched: against the stand-in, bad metrics and fake GPUs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests import nvml
from tests.metrics_server import MetricsServer, metrics_server
from tests.recording_server import Recording, recording_server

BURST = ("burst", "--rate", "20/s", "--duration", "1s")
FEW = (*BURST[:-1], "300ms", "--max-tokens", "4")


def loadgen(*arguments: str, cwd: Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "loadgen.cli", *arguments],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    # a run that a busy machine made late is invalid, and told all the same
    assert done.returncode in (0, 3), done.stderr
    return done.stdout


def summary_of(*arguments: str, cwd: Path, **more: Any) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(loadgen(*arguments, "--json", cwd=cwd, **more))
    return told


def folder_of(cwd: Path) -> Path:
    (folder,) = (cwd / "results").iterdir()
    return folder


def is_sound(summary: dict[str, Any]) -> bool:
    """Whether nothing is held against the run but what a busy machine does."""
    reasons = {reason["code"] for reason in summary["verdict"]["reasons"]}
    return reasons <= {"send_lag"}


def samples_of(cwd: Path, source: str) -> list[dict[str, Any]]:
    lines = (folder_of(cwd) / "telemetry.jsonl").read_text().splitlines()
    return [one for one in map(json.loads, lines) if one["source"] == source]


def test_the_engines_account_is_ours_and_its_queue_shows_the_burst(
    tmp_path: Path,
) -> None:
    summary = summary_of(*BURST, "--warmup", "2", cwd=tmp_path)
    outcomes, told = summary["outcomes"], summary["telemetry"]["server"]
    refused = sum(cause["count"] for cause in summary["rejections"])
    assert refused > 0
    assert (told["status"], told["engine"]) == ("ok", "vllm")
    series = told["series"]
    assert series["admission_rejections"]["delta"] == refused
    assert series["success"]["delta"] == outcomes["ok"]
    assert summary["warmup"]["requests"] == 2
    assert series["success"]["before"] >= 2  # the warm-up's are in the before
    assert series["running"]["peak"] == 4
    assert 1 <= series["waiting"]["peak"] <= 8
    assert series["waiting"]["after"] == 0
    assert 0 < series["kv_usage"]["peak"] <= 1
    assert series["preemptions"]["delta"] == 0
    assert series["ttft_s"]["count"] == outcomes["ok"]
    assert summary["reconciliation"]["difference"] == 0
    assert summary["reconciliation"]["status"] == "exact"
    moments = summary["telemetry"]["moments"]
    assert 0 < moments["first_refusal_ns"] < 2e9
    assert told["missing"] == []


def test_samples_are_on_the_requests_axis(tmp_path: Path) -> None:
    summary_of(*FEW, cwd=tmp_path)
    scrapes = samples_of(tmp_path, "server")
    assert [one["at_ns"] for one in scrapes] == sorted(s["at_ns"] for s in scrapes)
    by_phase = {one.get("phase", "run"): one for one in scrapes}
    assert by_phase["before"]["at_ns"] < 0 < by_phase["after"]["at_ns"]
    client = samples_of(tmp_path, "client")
    assert client[-1]["sent"] == 6
    assert client[-1]["cpu_s"] is not None


def test_a_later_judgement_tells_the_same(tmp_path: Path) -> None:
    summary = summary_of(*FEW, cwd=tmp_path)
    again = summary_of("report", str(folder_of(tmp_path)), cwd=tmp_path)
    for part in ("telemetry", "reconciliation", "findings", "verdict"):
        assert again[part] == summary[part]


def test_the_report_shows_the_inside_at_80_columns(tmp_path: Path) -> None:
    shown = loadgen(*BURST, cwd=tmp_path)
    assert "Inside the server, vLLM" in shown
    assert "requests waiting" in shown
    assert "the first refusal came at" in shown
    assert "counted in the run: preemptions 0" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_an_old_name_is_missing_and_its_new_one_told(tmp_path: Path) -> None:
    old = "vllm:gpu_cache_usage_perc"
    summary = summary_of(*FEW, "--series", old, cwd=tmp_path)
    server = summary["telemetry"]["server"]
    assert server["missing"] == [old]
    (renamed,) = server["renamed"]
    assert (renamed["old"], renamed["new"]) == (old, "vllm:kv_cache_usage_perc")
    assert renamed["gone"] == "0.12"
    assert old not in server["series"]


def test_nobody_is_asked_where_nothing_is_wanted(tmp_path: Path) -> None:
    summary = summary_of(*FEW, "--metrics-url", "none", "--gpu", "off", cwd=tmp_path)
    assert summary["telemetry"]["server"]["status"] == "off"
    assert summary["telemetry"]["gpu"]["status"] == "off"
    assert summary["reconciliation"] is None
    assert samples_of(tmp_path, "server") == []


def hang(server: MetricsServer, request: BaseHTTPRequestHandler) -> None:
    server.release.wait(60)


def one_gauge(_: MetricsServer, request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.end_headers()
    request.wfile.write(b"vllm:num_requests_running 1\n")


def test_metrics_that_hang_are_a_finding_and_delay_nothing(tmp_path: Path) -> None:
    began = time.monotonic()
    with metrics_server(hang) as server:
        summary = summary_of(*FEW, "--metrics-url", server.url, cwd=tmp_path)
        passed_s = time.monotonic() - began
        assert server.asked
    assert passed_s < 45  # far from 60, however busy the machine
    assert is_sound(summary), summary["verdict"]
    told = summary["telemetry"]["server"]
    assert told["status"] == "no answer within 2 s"
    assert told["series"] == {}
    assert summary["reconciliation"] is None
    assert "no_metrics" in {finding["code"] for finding in summary["findings"]}


def test_a_key_goes_to_the_target_and_to_nobody_else(tmp_path: Path) -> None:
    env = {"LOADGEN_TEST_KEY": "sk-very-secret"}
    keyed = (*FEW, "--api-key-env", "LOADGEN_TEST_KEY")
    with (
        recording_server(Recording()) as target,
        metrics_server(one_gauge) as other,
    ):
        target.gets["/metrics"] = (200, "text/plain", b"vllm:num_requests_running 1\n")
        urls = ("--metrics-url", f"{target.url}/metrics", "--metrics-url", other.url)
        summary = summary_of(*keyed, "--url", target.url, *urls, cwd=tmp_path, env=env)
    assert other.asked
    assert all("authorization" not in asked for asked in other.asked)
    telemetry = summary["telemetry"]
    assert {one["status"] for one in (telemetry["server"], *telemetry["others"])} == {
        "ok"
    }
    for path in folder_of(tmp_path).iterdir():
        assert b"sk-very-secret" not in path.read_bytes(), path


GPU = [
    "gpu GPU-0",
    "name Fake",
    "total 80000000000",
    "used 70000000000",
    "utilization 50",
]


def with_gpu(folder: Path, scenario: Sequence[str]) -> dict[str, str]:
    file = folder / "scenario"
    file.write_text("\n".join(scenario) + "\n")
    env = nvml.environment(nvml.build(folder / "lib"), file)
    return {k: env[k] for k in ("LD_LIBRARY_PATH", "LOADGEN_FAKE_NVML")}


def test_gpus_are_looked_at_ten_times_a_second(tmp_path: Path) -> None:
    summary = summary_of(*FEW, cwd=tmp_path, env=with_gpu(tmp_path, GPU))
    gpu = summary["telemetry"]["gpu"]
    (device,) = gpu["devices"]
    assert gpu["status"] == "ok"
    assert device["memory"]["baseline"] == device["memory"]["peak"] == 70_000_000_000
    assert device["utilization_pct"]["mean"] == 50
    looks = samples_of(tmp_path, "gpu")
    assert looks[0]["at_ns"] < 0
    assert len(looks) == gpu["rounds"]
    (end,) = samples_of(tmp_path, "gpu-end")
    assert not end["hung"]


def test_a_driver_that_hangs_keeps_nobody_waiting(tmp_path: Path) -> None:
    env = with_gpu(tmp_path, ["delay_ms 40000", *GPU])
    began = time.monotonic()
    summary = summary_of(*FEW, cwd=tmp_path, env=env)
    assert time.monotonic() - began < 35
    assert summary["telemetry"]["gpu"]["status"] == "no answer from NVML"
    assert is_sound(summary), summary["verdict"]


def test_a_lost_gpu_is_told_and_the_run_goes_on(tmp_path: Path) -> None:
    scenario = [*GPU[:3], "used 70000000000 70000000000 lost", "xid 79 2"]
    summary = summary_of(*FEW, cwd=tmp_path, env=with_gpu(tmp_path, scenario))
    (device,) = summary["telemetry"]["gpu"]["devices"]
    assert device["lost_ns"] is not None
    assert summary["telemetry"]["gpu"]["used_bytes"]["end"] is None
    assert {"gpu_lost", "gpu_xid"} <= {one["code"] for one in summary["findings"]}
    assert is_sound(summary), summary["verdict"]


@pytest.mark.parametrize(
    ("scenario", "status"),
    [
        (["init 9"], "no driver"),
        (["init 18"], "driver/library mismatch"),
        (["init 4"], "no permission"),
        (["driver 1"], "no devices"),
    ],
)
def test_why_there_is_no_gpu_is_recorded(
    tmp_path: Path, scenario: list[str], status: str
) -> None:
    samples = nvml.watch(nvml.build(tmp_path / "lib"), _file(tmp_path, scenario))
    assert [type(one).__name__ for one in samples][-1] == "GpuAbout"
    assert samples[0].status == status  # type: ignore[union-attr]


def _file(folder: Path, scenario: Sequence[str]) -> Path:
    file = folder / "scenario"
    file.write_text("\n".join(scenario) + "\n")
    return file


def test_a_torn_last_sample_is_left_out_and_told(tmp_path: Path) -> None:
    """As a killed run leaves it: judged with what there is, from a copy unsealed."""
    loadgen(*FEW, "--json", cwd=tmp_path)
    folder = folder_of(tmp_path)
    path = folder / "telemetry.jsonl"
    path.write_bytes(path.read_bytes()[:-30])
    (folder / "summary.json").unlink()
    again = summary_of("report", str(folder), cwd=tmp_path)
    texts = [one["text"] for one in again["findings"] if one["code"] == "flaw"]
    assert any("telemetry.jsonl" in text and "torn" in text for text in texts)
    assert again["reconciliation"] is None
    assert is_sound(again), again["verdict"]
