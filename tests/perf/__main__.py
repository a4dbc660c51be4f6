"""``python -m tests.perf --server PATH``: one Markdown table of the client's errors.

Numbers of a shared machine: alternate what you compare and look at medians.
"""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.perf.measure import Load, Measured, measure
from tests.perf.truth import truth_server

COLUMNS = (
    "stamps",
    "rate/s",
    "ok",
    "TTFT error p50/p99 µs",
    "ITL error p50/p99 µs, exact",
    "ITL error p50/p99 µs, all",
    "write to stamp p50/p99 µs",
    "coalesced %",
    "read lag p50/p99 µs",
    "late >10 ms %",
    "CPU-s per 1M events",
    "ready s",
)


def main() -> int:
    """Measure and print."""
    asked = _arguments()
    print(f"{platform.platform()}, Python {platform.python_version()}\n")  # noqa: T201
    for line in _table(asked):
        print(line, flush=True)  # noqa: T201
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.perf", description=__doc__)
    parser.add_argument("--server", type=Path, required=True, help="truth server")
    parser.add_argument("--rate", type=float, nargs="+", default=[200.0])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--stamps", nargs="+", default=["auto", "user"])
    parser.add_argument("--preconnect", type=int, default=0)
    parser.add_argument("--client-core", type=int, default=0)
    parser.add_argument("--server-core", type=int, default=1)
    parser.add_argument("--ttft-us", type=int, default=20_000)
    parser.add_argument("--itl-us", type=int, default=10_000)
    return parser.parse_args()


def _table(asked: argparse.Namespace) -> Iterator[str]:
    yield "| " + " | ".join(COLUMNS) + " |"
    yield "|---" * len(COLUMNS) + "|"
    with (
        tempfile.TemporaryDirectory() as name,
        truth_server(
            asked.server,
            Path(name),
            core=asked.server_core,
            ttft_us=asked.ttft_us,
            itl_us=asked.itl_us,
        ) as server,
    ):
        for _ in range(asked.rounds):
            for rate in asked.rate:
                for stamps in asked.stamps:
                    load = Load(
                        rate_rps=rate,
                        seconds=asked.seconds,
                        tokens=asked.tokens,
                        stamps=stamps,
                    )
                    found = measure(
                        server,
                        Path(name),
                        load,
                        core=asked.client_core,
                        preconnect=asked.preconnect,
                    )
                    yield _row(load, found)


def _row(load: Load, found: Measured) -> str:
    cells = (
        found.stats.receive_clock,
        f"{load.rate_rps:g}",
        f"{found.ok}/{found.stats.scheduled}",
        _pair(found.ttft_error),
        _pair(found.itl_error),
        _pair(found.itl_error_all),
        _pair(found.write_to_stamp),
        f"{100 * found.coalesced_share:.2f}",
        _pair(found.read_lag),
        f"{100 * found.late_share:.2f}",
        f"{found.cpu_s_per_million_events:.1f}",
        f"{found.ready_s:.2f}",
    )
    return "| " + " | ".join(cells) + " |"


def _pair(values_ns: NDArray[np.float64]) -> str:
    if not len(values_ns):
        return "-"
    p50, p99 = np.percentile(values_ns, [50, 99]) / 1e3
    return f"{p50:.1f}/{p99:.1f}"


if __name__ == "__main__":
    sys.exit(main())
