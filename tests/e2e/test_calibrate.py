"""Measuring this machine, and what the verbs do with the result."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from loadgen.cli.__main__ import main
from loadgen.control.capacity import (
    Calibration,
    Level,
    Most,
    calibration_path,
    this_machine,
    write_calibration,
)
from loadgen.control.null_rig import Load, measure
from tests.recording_server import Recording, recording_server

CLOCK_ERROR_NS = 50_000
"""By how much a bracket of the two clocks may at worst be off."""

LEVEL = Level(
    share=0.25,
    rate_rps=25.0,
    tokens_per_s=1600.0,
    send_lag_p50_ns=50_000,
    send_lag_p99_ns=400_000,
    stamp_error_p50_ns=3_000,
    stamp_error_p99_ns=9_000,
    coalesced_share=0.0,
    processor_share=0.03,
    waited_share=0.0,
    server_late_share=0.0,
)


def calibration(rate_rps: float) -> Calibration:
    return Calibration(
        machine=this_machine(),
        measured_utc="2026-01-01T00:00:00+00:00",
        took_s=50.0,
        others_busy=0.0,
        processes=1,
        requests=Most(rate_rps=rate_rps, limited_by="client"),
        streams=Most(rate_rps=100.0, limited_by="client"),
        stream_tokens=64,
        levels=[LEVEL],
    )


@pytest.mark.parametrize("processes", [1, 2])
def test_both_sides_of_a_paced_load_agree(processes: int) -> None:
    """Every token is accounted for by the server's own log, stamped after it wrote."""
    load = Load(rate_rps=20, seconds=0.5, tokens=8)
    seen = asyncio.run(measure(load, processes))
    assert seen.not_ok == 0
    assert len(seen.send_lag_ns) == seen.server.requests == 10 * processes
    assert seen.tokens == seen.server.tokens == 80 * processes
    assert len(seen.stamp_error_ns) == seen.tokens - seen.coalesced
    assert (seen.stamp_error_ns > -CLOCK_ERROR_NS).all()
    assert 0 < seen.processor_share < 1


def test_answers_of_one_token_come_at_once() -> None:
    seen = asyncio.run(measure(Load(rate_rps=100, seconds=0.3, tokens=1), 1))
    assert seen.not_ok == 0
    assert seen.tokens == seen.server.tokens == 30


def test_the_verb_shows_and_keeps_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    async def measured(processes: int, say: Callable[[str], None]) -> Calibration:
        asked.append(processes)
        say("measuring")
        return calibration(1234.0)

    monkeypatch.setattr("loadgen.control.calibrate.calibrate", measured)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert main(["calibrate", "--processes", "2"]) == 0
    out, err = capsys.readouterr()
    assert asked == [2]
    assert err == "measuring\n"
    assert "1,234 requests/s" in out
    assert "6,400 tokens/s" in out
    assert "400 µs" in out
    (kept,) = (tmp_path / "loadgen").iterdir()
    assert str(kept) in out
    assert main(["calibrate", "--json", "--quiet"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert json.loads(out) == json.loads(kept.read_bytes())


def burst(
    *flags: str, cwd: Path, url: str, cache: Path
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(sys.executable, "-m", "loadgen.cli", "burst", "--url", url),
            *("--rate", "50/s", "--duration", "200ms", "--max-tokens", "4"),
            *("--workload", "short-questions", "--arrivals", "constant"),
            *("--metrics-url", "none", "--json", *flags),
        ],
        cwd=cwd,
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def keep(cache: Path, rate_rps: float) -> None:
    found = calibration(rate_rps)
    environment = {"XDG_CACHE_HOME": str(cache)}
    write_calibration(calibration_path(environment, found.machine), found)


def test_without_a_calibration_only_the_strict_are_stopped(
    tmp_path: Path, cache: Path
) -> None:
    with recording_server(Recording()) as server:
        done = burst(cwd=tmp_path, url=server.url, cache=cache)
        assert "calibrate" not in done.stderr
        assert json.loads(done.stdout)["outcomes"] == {"ok": 10}
        server.bodies.clear()
        done = burst("--strict", cwd=tmp_path, url=server.url, cache=cache)
    assert done.returncode == 2
    assert "run loadgen calibrate first" in done.stderr
    assert server.bodies == []


def test_a_demand_beyond_the_machine_warns_and_is_refused_when_strict(
    tmp_path: Path, cache: Path
) -> None:
    keep(cache, 5.0)
    with recording_server(Recording()) as server:
        done = burst(cwd=tmp_path, url=server.url, cache=cache)
        assert done.returncode in (0, 3)
        assert "10 requests come due within a second" in done.stderr
        assert "--processes N" in done.stderr
        assert len(server.bodies) == 10
        before = set((tmp_path / "results").iterdir())
        for flags in (("--strict",), ("--strict", "--dry-run")):
            done = burst(*flags, cwd=tmp_path, url=server.url, cache=cache)
            assert done.returncode == 2
            assert "manage 5 requests" in done.stderr
    assert len(server.bodies) == 10
    assert set((tmp_path / "results").iterdir()) == before, "nothing is left behind"


def test_a_demand_within_the_machine_is_let_pass(tmp_path: Path, cache: Path) -> None:
    keep(cache, 5000.0)
    with recording_server(Recording()) as server:
        done = burst("--strict", cwd=tmp_path, url=server.url, cache=cache)
    assert done.returncode in (0, 3), done.stderr
    assert "warning" not in done.stderr
    assert len(server.bodies) == 10
