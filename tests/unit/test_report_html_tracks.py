"""Levels of engine and GPU: drawn where they were seen, named where they were not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loadgen.analysis.timeline import Timeline
from loadgen.report.tracks import MOST_POINTS, Track, Tracks, tracks_of
from loadgen.telemetry.samples import GpuAbout, GpuSample, Sample, Watched
from loadgen.units import NS_PER_S
from tests.scrapes import URL, VOCABULARY, failed, scrape


def seen(samples: Sequence[Sample], **watched: Any) -> Tracks:
    return tracks_of(
        Timeline(
            samples=samples,
            watched=Watched(metrics=[URL], metrics_note="", **watched),
            vocabulary=VOCABULARY,
            version="0.33.0",
        )
    )


def levels(at_s: float, running: int, kv: float) -> Sample:
    return scrape(
        f"vllm:num_requests_running {running}\nvllm:num_requests_waiting 0\n"
        f"vllm:kv_cache_usage_perc {kv}\n",
        at_s,
    )


def of(tracks: Tracks, term: str) -> Track:
    (track,) = (one for one in tracks.tracks if one.term == term)
    return track


def test_levels_are_drawn_in_order_of_time() -> None:
    found = seen([levels(1, 4, 0.5), levels(0, 2, 0.1)])
    assert of(found, "running").points == ((0.0, 2.0), (1.0, 4.0))
    assert of(found, "kv_usage").peak == 0.5
    assert of(found, "waiting").points == ((0.0, 0.0), (1.0, 0.0)), "seen to be 0"


def test_a_look_that_failed_is_a_gap_and_no_zero() -> None:
    found = seen([levels(0, 2, 0.1), failed(1, "timed out"), levels(2, 3, 0.1)])
    assert of(found, "running").points == ((0.0, 2.0), (1.0, None), (2.0, 3.0))


def test_what_was_not_looked_at_is_named_with_the_reason() -> None:
    nothing = tracks_of(None)
    assert nothing.tracks == ()
    assert nothing.not_measured == ("engine and GPU: nothing was watched",)
    off = tracks_of(
        Timeline(
            samples=[GpuAbout(at_ns=0, status="no library")],
            watched=Watched(metrics_note="404 at /metrics", gpu="on"),
            vocabulary=VOCABULARY,
        )
    )
    assert off.not_measured == (
        "running requests, waiting requests, the KV cache (404 at /metrics)",
        "GPU memory (no library)",
    )


def test_a_series_that_the_page_has_not_is_missing_and_not_zero() -> None:
    found = seen([scrape("vllm:num_requests_running 1\n", 0)])
    assert {track.term for track in found.tracks} == {"running"}
    assert "waiting requests, the KV cache" in found.not_measured


def test_memory_is_drawn_a_device() -> None:
    samples = [
        GpuSample(at_ns=at * NS_PER_S, took_ns=1, device=device, used_bytes=used)
        for at, device, used in ((0, 0, 2**30), (1, 0, 2**31), (0, 1, None))
    ]
    found = seen([levels(0, 1, 0.1), *samples])
    memory = of(found, "memory")
    assert memory.label == "GPU 0"
    assert memory.points == ((0.0, 1.0), (1.0, 2.0))


def test_of_very_many_looks_the_highest_of_each_stretch_is_kept() -> None:
    looks = [levels(at, 99 if at == 1234 else 1, 0.1) for at in range(3000)]
    running = of(seen(looks), "running")
    assert len(running.points) <= MOST_POINTS
    assert running.peak == 99
