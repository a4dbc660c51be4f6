"""The script for a machine with a GPU, on one whose GPU and driver are fake."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests import nvml
from tests.gpu.kv_server import BYTES_PER_TOKEN

ROOT = Path(__file__).parents[2]


def script(out: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.gpu", str(out)],
        cwd=ROOT,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def test_without_a_driver_it_skips_with_a_reason(tmp_path: Path) -> None:
    """Also where there is a GPU: an empty library hides it."""
    library = nvml.build(tmp_path / "lib")
    missing = tmp_path / "no-scenario"
    done = script(tmp_path / "out", nvml.environment(library, missing))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("test-gpu: skipped: NVML: ")


def test_memory_that_is_known_is_found_for_each_token(tmp_path: Path) -> None:
    library = nvml.build(tmp_path / "lib")
    source = ROOT / "tests/gpu/fake_cuda.c"
    nvml.compile_library(source, library / "libcuda.so.1")
    taken = tmp_path / "taken"
    taken.write_bytes(bytes(8))
    scenario = tmp_path / "scenario"
    scenario.write_text(
        f"used_file {taken}\ngpu GPU-0\nname Fake\ntotal 80000000000\n"
        "used 5000000000\nutilization 40\n"
    )
    env = nvml.environment(library, scenario) | {"LOADGEN_FAKE_CUDA": str(taken)}
    done = script(tmp_path / "out", env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "test-gpu: passed" in done.stdout
    summary = json.loads((tmp_path / "out/gpu-summary.json").read_text())
    (device,) = summary["telemetry"]["gpu"]["devices"]
    memory = device["memory"]
    assert memory["baseline"] == 5_000_000_000
    assert 0.75 < memory["per_in_flight_token"] / BYTES_PER_TOKEN < 1.25
    assert int.from_bytes(taken.read_bytes(), sys.byteorder) == 0  # all given back
