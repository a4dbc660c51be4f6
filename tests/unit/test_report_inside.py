"""The report's table of what went on inside the server."""

from __future__ import annotations

from typing import Any

import pytest

from loadgen.errors import RunDirError
from loadgen.report.facts import Facts
from loadgen.report.inside import inside_table

GIB = 1 << 30


def gauge(before: float, peak: float, at_s: float) -> dict[str, Any]:
    return {"before": before, "peak": peak, "at_ns": round(at_s * 1e9), "n": 12}


def facts(**telemetry: Any) -> Facts:
    return Facts(basis="measured", outcomes={}, telemetry=telemetry)


SERVER = {
    "status": "ok",
    "title": "vLLM",
    "version": "0.33.0",
    "series": {
        "running": gauge(0, 4, 0.3),
        "waiting": gauge(0, 8, 1.8),
        "kv_usage": gauge(0.01, 0.4, 3.8),
        "preemptions": {"delta": 3},
        "admission_rejections": {"delta": 24},
        "rate_limited": {"delta": 0},
    },
}
MOMENTS = {
    "first_refusal_ns": 900_000_000,
    "waiting_peak_ns": 1_800_000_000,
    "at_refusal": {"running": 4, "kv_usage": 0.1},
}


def test_levels_stand_beside_the_first_refusal() -> None:
    table = inside_table(facts(server=SERVER, moments=MOMENTS))
    assert table is not None
    assert table.title == "Inside the server, vLLM 0.33.0"
    assert [(row.label, row.cells) for row in table.rows] == [
        ("requests running", ("0", "4", "300 ms", "4")),
        ("requests waiting", ("0", "8", "1.8 s", "-")),
        ("KV cache in use", ("1%", "40%", "3.8 s", "10%")),
    ]
    assert table.notes == (
        "the first refusal came at 900 ms, 900 ms before the longest queue was seen",
        "counted in the run: preemptions 3, admission rejections 24",
        "12 looks: between two, a level may have been higher",
    )


def test_a_refusal_after_the_longest_queue_is_said_to_be() -> None:
    late = {"first_refusal_ns": 2_000_000_000, "waiting_peak_ns": 1_500_000_000}
    table = inside_table(facts(server=SERVER, moments=late))
    assert table is not None
    assert "500 ms after the longest queue" in table.notes[0]


def test_working_gpus_are_shown_and_idle_ones_counted() -> None:
    memory = {
        "baseline": 60 * GIB,
        "peak": 62 * GIB,
        "at_ns": 2_000_000_000,
        "per_in_flight_token": 131072.4,
    }
    working = {
        "index": 1,
        "name": "H200",
        "working": True,
        "memory": memory,
        "utilization_pct": {"mean": 71.4},
        "power_w": {"mean": 512.0},
    }
    gpu = {"status": "ok", "devices": [{"index": 0}, working]}
    table = inside_table(facts(gpu=gpu))
    assert table is not None
    assert table.title == "Inside the server"
    ((row),) = table.rows
    assert (row.label, row.cells) == (
        "GPU 1 memory",
        ("60.00 GiB", "62.00 GiB", "2 s", ""),
    )
    assert table.notes == (
        "GPU 1 (H200): in use 71% in the mean, power 512 W in the mean, "
        "131,072 bytes a token in flight",
        "1 GPU more, idle",
    )


def test_why_no_gpu_was_seen_is_said_beside_the_server() -> None:
    table = inside_table(facts(server=SERVER, gpu={"status": "no library"}))
    assert table is not None
    assert "GPUs: no library" in table.notes


@pytest.mark.parametrize(
    "telemetry",
    [{}, {"server": {"status": "off"}, "gpu": {"status": "off"}}, {"other": 1}],
)
def test_where_nobody_looked_there_is_no_table(telemetry: dict[str, Any]) -> None:
    assert inside_table(facts(**telemetry)) is None


def test_a_summary_that_was_edited_is_refused() -> None:
    with pytest.raises(RunDirError, match=r"summary\.json"):
        inside_table(facts(server={"series": 3}))
