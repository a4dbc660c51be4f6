"""Does sampling make requests late? ``python -m tests.perf.sampling [PAIRS]``.

Runs with GPUs looked at ten times a second, metrics asked for twice a second, and
runs with neither, in turn, against one stand-in engine. The GPUs are those of a
fake library, so it needs a C compiler and no driver. Prints the send lag of each
run, and how far the two kinds differ beside how far runs of one kind do.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.nvml import build, environment

LOAD = ("--rate", "200/s", "--duration", "3s", "--max-tokens", "4")
QUIET = ("--metrics-url", "none", "--gpu", "off")
GPUS = 8


def main(pairs: int) -> None:
    """Alternate, beginning with either kind in turn."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        env = {**os.environ, **with_gpus(folder)}
        server = subprocess.Popen(
            [sys.executable, "-m", "loadgen.standin", "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            assert server.stdout is not None
            url = json.loads(server.stdout.readline())["url"]
            lags: dict[bool, list[float]] = {True: [], False: []}
            for pair in range(pairs):
                for sampled in (True, False) if pair % 2 else (False, True):
                    summary = one_run(folder, url, env, sampled=sampled)
                    lag_s = summary["client"]["client_lag_s"]["p99"]
                    lags[sampled].append(lag_s * 1e3)
                    say(f"pair {pair + 1}: {told(summary)}: p99 {lag_s * 1e3:.3f} ms")
        finally:
            server.terminate()
            server.wait()
    report(lags[True], lags[False])


def report(with_it: list[float], without: list[float]) -> None:
    """Medians and ranges, and the difference pair by pair.

    The interval is between order statistics, so one stalled run does not widen it:
    of ten pairs the second and the ninth bound the median with 98 %.
    """
    for label, values in (("with", with_it), ("without", without)):
        say(
            f"{label} sampling: median {statistics.median(values):.3f} ms, "
            f"{min(values):.3f} to {max(values):.3f} ms"
        )
    differences = sorted(a - b for a, b in zip(with_it, without, strict=True))
    outer = max(0, len(differences) // 5 - 1)
    low, high = differences[outer], differences[-1 - outer]
    say(
        f"difference, pair by pair: median {statistics.median(differences):+.3f} ms, "
        f"noise {low:+.3f} to {high:+.3f} ms"
    )


def with_gpus(folder: Path) -> dict[str, str]:
    scenario = folder / "scenario"
    gpu = "total 80000000000\nused 70000000000\nutilization 90\npower_mw 500000\n"
    scenario.write_text("".join(f"gpu GPU-{n}\n{gpu}" for n in range(GPUS)))
    return environment(build(folder / "lib"), scenario)


def one_run(
    folder: Path, url: str, env: dict[str, str], *, sampled: bool
) -> dict[str, Any]:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "loadgen.cli", "burst", "--url", url, *LOAD),
            *(() if sampled else QUIET),
            *("--json", "--quiet", "--out", str(folder / "results")),
        ],
        env=env,
        capture_output=True,
        check=False,
        timeout=120,
    )
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


def told(summary: dict[str, Any]) -> str:
    """What was looked at, so that nobody compares a run with itself."""
    telemetry = summary["telemetry"]
    rounds, scrapes = telemetry["gpu"]["rounds"], telemetry["server"]["scrapes"]
    if rounds is None and scrapes is None:
        return "not sampled"
    return f"sampled ({GPUS} GPUs {rounds} times, metrics {scrapes['ok']} times)"


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
