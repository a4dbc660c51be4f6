"""A fake libnvidia-ml.so.1, compiled, and a process in which pynvml loads it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from loadgen.telemetry.samples import Sample

__all__ = ["build", "compile_library", "environment", "watch"]

SOURCE = Path(__file__).with_name("fake_nvml.c")


def build(folder: Path, *, v2: bool = True) -> Path:
    """The fake library, compiled into a folder of its own."""
    return compile_library(
        SOURCE, folder / "libnvidia-ml.so.1", *([] if v2 else ["-DNO_V2"])
    )


def compile_library(source: Path, library: Path, *flags: str) -> Path:
    """Compile a shared library; skips where nothing compiles. Returns its folder."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    library.parent.mkdir(parents=True, exist_ok=True)
    command = [compiler, "-O1", "-Wall", "-Wextra", "-shared", "-fPIC", "-pthread"]
    subprocess.run(
        [*command, *flags, "-o", str(library), str(source)], check=True, timeout=60
    )
    return library.parent


def environment(library: Path, scenario: Path) -> dict[str, str]:
    """Lets a process find the fake library and the scenario it plays."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
    }
    return {
        **kept,
        "LD_LIBRARY_PATH": str(library),
        "LOADGEN_FAKE_NVML": str(scenario),
    }


def watch(
    library: Path, scenario: Path, *, looks: int = 3, **variables: str
) -> list[Sample]:
    """The samples of so many looks, taken by the real binding in its own process."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.nvml", str(looks)],
        env={**environment(library, scenario), **variables},
        cwd=SOURCE.parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    any_sample: Any = Sample
    decode = msgspec.json.Decoder(any_sample).decode
    return [decode(line) for line in done.stdout.splitlines()]
