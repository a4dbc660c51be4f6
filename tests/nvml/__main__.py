"""Take so many looks at the GPUs and print the samples, one a line."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from loadgen.clock import MonotonicClock
from loadgen.telemetry.gpu import GpuSampler
from loadgen.telemetry.nvml import import_pynvml
from loadgen.telemetry.samples import SampleLog


def main() -> None:
    """Look without waiting in between."""
    left = int(sys.argv[1])

    def wait(_: float) -> bool:
        nonlocal left
        left -= 1
        return left <= 0

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "telemetry.jsonl"
        log = SampleLog(path)
        log.begin(0)
        clock = MonotonicClock()
        GpuSampler(import_pynvml, os.environ, log, clock, wait).run()
        log.close()
        sys.stdout.write(path.read_text("utf-8"))


if __name__ == "__main__":
    main()
