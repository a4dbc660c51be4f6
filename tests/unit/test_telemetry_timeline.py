"""Samples laid beside requests: moments, silent queues, GPUs, the client."""

from __future__ import annotations

from typing import Any

import pytest

from loadgen.analysis.columns import RunData
from loadgen.analysis.reconcile import ClientCounts
from loadgen.analysis.timeline import client_counts
from loadgen.analysis.timeline_client import client_seen
from loadgen.analysis.timeline_gpu import MOVED_BYTES, gpu_seen, tokens_in_flight
from loadgen.model import Outcome, RequestRecord, TokenSource
from loadgen.telemetry.samples import (
    ClientSample,
    DeviceAbout,
    GpuAbout,
    GpuEnd,
    GpuEvent,
    GpuSample,
    Sample,
)
from loadgen.units import NS_PER_S
from tests.runs import QUEUE_FULL, answered, record, refused
from tests.scrapes import VOCABULARY, beside, scrape

GIB = 1 << 30


def levels(at_s: float, running: int, waiting: int, kv: float) -> Sample:
    return scrape(
        f"vllm:num_requests_running {running}\nvllm:num_requests_waiting {waiting}\n"
        f"vllm:kv_cache_usage_perc {kv}\n",
        at_s,
    )


def test_the_first_refusal_is_laid_beside_the_levels() -> None:
    samples = [levels(0.5, 4, 2, 0.1), levels(1, 4, 8, 0.3), levels(1.5, 4, 3, 0.9)]
    records = [answered(0, events_ms=[900]), refused(1, due_ms=790, at_ms=10)]
    telemetry = beside(samples, records).telemetry
    assert telemetry is not None
    assert telemetry["moments"] == {
        "first_refusal_ns": 800_000_000,
        "waiting_peak_ns": 1_000_000_000,
        "running_peak_ns": 500_000_000,
        "kv_usage_peak_ns": 1_500_000_000,
        "memory_peak_ns": None,
        "at_refusal": {"running": 4, "waiting": 2, "kv_usage": 0.1},
    }


def test_a_level_that_never_rose_has_no_peak_in_time() -> None:
    telemetry = beside([levels(0.5, 0, 0, 0)], [answered(events_ms=[1])]).telemetry
    assert telemetry is not None
    moments = telemetry["moments"]
    assert {moments[key] for key in ("waiting_peak_ns", "first_refusal_ns")} == {None}


def test_a_queue_that_grows_without_a_refusal_is_a_finding() -> None:
    records = [answered(seq, events_ms=[2000]) for seq in range(4)]
    samples = [levels(0.1 * n, 4, n, 0.5) for n in range(1, 20)]
    assert "silent_queue" in [one.code for one in beside(samples, records).findings]
    records.append(refused(4))
    assert "silent_queue" not in [one.code for one in beside(samples, records).findings]


def test_counting_by_columns_is_counting_by_records() -> None:
    records: list[RequestRecord] = [
        answered(0, events_ms=[1]),
        refused(1),
        refused(2),
        record(3, outcome=Outcome.TIMEOUT, attribution=QUEUE_FULL),
        record(4, outcome=Outcome.RESET),
        record(5, outcome=Outcome.UNSENT, sent_ns=None),
    ]
    expected = ClientCounts.of((one, one.attribution) for one in records)
    assert client_counts(RunData.collect(records, len(records))) == expected


def about(*devices: DeviceAbout, status: str = "ok") -> GpuAbout:
    return GpuAbout(at_ns=-1, status=status, devices=list(devices))


def gpu(index: int = 0, **fields: Any) -> DeviceAbout:
    return DeviceAbout(
        index=index, uuid=f"GPU-{index}", name="G", **{"memory_version": 2, **fields}
    )


def look(at_s: float, used_gib: float | None, device: int = 0, **more: Any) -> Sample:
    return GpuSample(
        at_ns=round(at_s * NS_PER_S),
        took_ns=1,
        device=device,
        used_bytes=None if used_gib is None else round(used_gib * GIB),
        total_bytes=80 * GIB,
        **more,
    )


NOBODY = RunData.collect([], 0)


def test_memory_is_told_over_its_idle_baseline() -> None:
    samples = [about(gpu()), look(-2, 10), look(-1, 12), look(-0.5, 11), look(1, 15)]
    memory = gpu_seen(samples, "on", NOBODY).devices[0].memory
    assert memory is not None
    assert memory.baseline == 11 * GIB
    assert (memory.peak, memory.at_ns) == (15 * GIB, NS_PER_S)
    assert memory.growth == 4 * GIB
    assert memory.per_in_flight_token is None
    assert "no known tokens" in memory.note


def in_flight() -> RunData:
    """100 tokens of prompt each; at 1 s one has put out 2 tokens, one none."""
    known: dict[str, Any] = {
        "prompt_tokens": 100,
        "prompt_tokens_source": TokenSource.USAGE,
    }
    records = [
        answered(0, events_ms=[200, 900, 1500], **known),
        answered(1, events_ms=[2000], **known),
        answered(2, events_ms=[500], **known),
        answered(3, events_ms=[5000], due_ms=3000, sent_ns=3 * NS_PER_S, **known),
    ]
    return RunData.collect(records, len(records))


def test_growth_is_told_for_each_token_in_flight() -> None:
    data = in_flight()
    assert tokens_in_flight(data, NS_PER_S) == 202
    samples = [about(gpu()), look(-1, 10), look(1, 12)]
    memory = gpu_seen(samples, "on", data).devices[0].memory
    assert memory is not None
    assert memory.per_in_flight_token == 2 * GIB / 202


def test_prompts_of_unknown_length_give_no_tokens_in_flight() -> None:
    data = RunData.collect([answered(events_ms=[2000])], 1)
    assert tokens_in_flight(data, NS_PER_S) is None


def test_a_small_move_is_flat() -> None:
    samples = [about(gpu()), look(-1, 10), look(1, 10 + MOVED_BYTES / 2 / GIB)]
    memory = gpu_seen(samples, "on", in_flight()).devices[0].memory
    assert memory is not None
    assert memory.per_in_flight_token is None
    assert memory.note.startswith("flat")


def test_without_a_look_before_t0_there_is_no_growth() -> None:
    memory = gpu_seen([about(gpu()), look(1, 10)], "on", NOBODY).devices[0].memory
    assert memory is not None
    assert memory.baseline is None
    assert memory.growth is None


def test_a_sum_is_made_of_whole_gpus_and_never_of_a_part() -> None:
    devices = about(gpu(0), gpu(1), gpu(0, slice_of="GPU-0"))
    samples = [devices, look(1, 10), look(1, 20, 1), look(1, 5, 2), look(2, 11)]
    total = gpu_seen(samples, "on", NOBODY).used_bytes
    assert total is not None
    assert (total.peak, total.end) == (31 * GIB, 31 * GIB)
    samples.append(look(3, None, 1, lost=True))
    total = gpu_seen(samples, "on", NOBODY).used_bytes
    assert total is not None
    assert total.end is None


def test_throttling_and_errors_are_findings_of_a_working_gpu() -> None:
    samples = [
        about(gpu()),
        look(1, 10, throttle=["power cap"], utilization_pct=90, ecc=3),
        look(2, 10, throttle=[], utilization_pct=90, ecc=5),
        GpuEvent(at_ns=2, xid=63),
        GpuEnd(at_ns=3, rounds=2, skipped=0, longest_ns=5, hung=True),
    ]
    seen = gpu_seen(samples, "on", NOBODY)
    assert seen.devices[0].throttled == {"power cap": 0.5}
    assert seen.devices[0].ecc == 2
    assert {one.code for one in seen.findings} == {
        *("gpu_throttled", "gpu_ecc", "gpu_xid", "nvml_hung")
    }


@pytest.mark.parametrize("status", ["off", "the server is on another machine"])
def test_why_nobody_looked_is_the_status(status: str) -> None:
    assert gpu_seen([], status, NOBODY).status == status


def test_a_driver_that_never_answered_is_said_to_have_not() -> None:
    assert gpu_seen([], "on", NOBODY).status == "no answer from NVML"


def client(at_s: float, **fields: Any) -> ClientSample:
    return ClientSample(
        at_ns=round(at_s * NS_PER_S),
        **{
            "processes": 1,
            "cpu_s": at_s / 2,
            "rss_bytes": 100,
            "fds": 10,
            "voluntary": 0,
            "involuntary": 5,
            "machine_s": 2 * at_s,
            "steal_s": 0.0,
            "sent": 0,
            "in_flight": 0,
            "ended": 0,
            "send_lag_last_ns": 0,
            "send_lag_sum_ns": 0,
            "send_lag_max_ns": 0,
            "loop_lag_max_ns": 0,
            **fields,
        },
    )


def test_the_client_is_told_over_time() -> None:
    told = client_seen(
        [
            client(0),
            client(1, sent=10, send_lag_sum_ns=10_000, in_flight=4, rss_bytes=300),
            client(2, sent=20, send_lag_sum_ns=1_010_000, involuntary=9, steal_s=0.2),
            client(
                3,
                processes=0,
                cpu_s=None,
                rss_bytes=None,
                sent=20,
                send_lag_sum_ns=1_010_000,
                steal_s=0.6,
            ),
        ]
    )
    assert told.cpu_share == 0.5
    assert (told.rss_peak_bytes, told.involuntary) == (300, 4)
    assert told.steal_share == pytest.approx(0.1)
    assert (told.in_flight_peak, told.in_flight_peak_ns) == (4, NS_PER_S)
    assert told.worst_send_lag is not None
    assert told.worst_send_lag.from_ns == NS_PER_S
    assert told.worst_send_lag.mean_s == pytest.approx(1e-4)


def test_a_client_nobody_looked_at_has_no_numbers() -> None:
    told = client_seen([])
    assert told.status == "not looked at"
    assert told.cpu_share is None


def test_every_term_of_the_report_is_in_the_vocabulary() -> None:
    assert {"running", "waiting", "kv_usage", "preemptions"} <= set(VOCABULARY.terms)
