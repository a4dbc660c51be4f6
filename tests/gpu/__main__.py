"""Run the main job against a server on the GPU, with NVML watching.

With vLLM in this Python the server is vLLM, with tiny random weights; else it is
one that holds known memory for each token (``kv_server``). The summaries are
stored under OUT, by default ``results/gpu``. Takes some two minutes, with vLLM at
most seven.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.gpu.kv_server import BYTES_PER_TOKEN

NEEDED = (
    "aiohttp",
    "httptools",
    "msgspec",
    "numpy",
    "prometheus_client",
    "pynvml",
    "rich",
    "scipy",
    "typer",
)
VLLM_START_S = 240
LOAD = ("--rate", "20/s", "--duration", "10s", "--max-tokens", "64", "--seed", "7")
TOLERANCE = 0.25
WARMUP = 4


class SkippedError(Exception):
    """What this machine lacks."""


def main() -> int:
    """Skip with a reason, or run and check; 0 unless a check fails."""
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "results/gpu")
    try:
        check_machine()
        with gpu_server(out) as (kind, url):
            summary = burst(url, out)
    except SkippedError as error:
        say(f"test-gpu: skipped: {error}")
        return 0
    (out / "gpu-summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    wrong = list(faults(kind, summary))
    show(kind, summary)
    for words in wrong:
        say(f"test-gpu: FAILED: {words}")
    if not wrong:
        say(f"test-gpu: passed; {out / 'gpu-summary.json'}")
    return 1 if wrong else 0


def check_machine() -> None:
    lacking = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if lacking:
        raise SkippedError(f"this Python lacks {', '.join(lacking)}")
    import pynvml

    try:
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
    except pynvml.NVMLError as error:
        raise SkippedError(f"NVML: {error}") from None
    if not count:
        raise SkippedError("no GPU")


@contextmanager
def gpu_server(out: Path) -> Iterator[tuple[str, str]]:
    """vLLM where it is there, else the server of known memory."""
    out.mkdir(parents=True, exist_ok=True)
    if importlib.util.find_spec("vllm") is not None:
        with vllm(out) as url:
            yield "vllm", url
    else:
        with kv(out) as url:
            yield "kv", url


@contextmanager
def kv(out: Path) -> Iterator[str]:
    with (out / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.gpu.kv_server"],
            stdout=subprocess.PIPE,
            stderr=log,
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            words = (out / "server.log").read_text().strip().splitlines()
            raise SkippedError(words[-1] if words else "no CUDA")
        yield json.loads(line)["url"]
    finally:
        end(process)


@contextmanager
def vllm(out: Path) -> Iterator[str]:
    recipe = Path(__file__).parents[1] / "engines/recipes/vllm/make_tiny_model.py"
    model = out / "model"
    subprocess.run([sys.executable, str(recipe), str(model)], check=True, timeout=60)
    url = "http://127.0.0.1:18473"
    with (out / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "vllm.entrypoints.cli.main", "serve"),
                *(str(model), "--served-model-name", "tiny", "--load-format", "dummy"),
                *("--host", "127.0.0.1", "--port", url.rpartition(":")[2]),
                *("--max-num-seqs", "4", "--max-num-queued-reqs", "8"),
                *("--enforce-eager", "--gpu-memory-utilization", "0.2"),
            ],
            env={**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        await_health(process, url)
        yield url
    finally:
        end(process)


def await_health(process: subprocess.Popen[bytes], url: str) -> None:
    deadline = time.monotonic() + VLLM_START_S
    while True:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=2):
                return
        except OSError as error:
            if process.poll() is not None or time.monotonic() > deadline:
                raise SkippedError(f"vLLM did not start: {error}") from None
            time.sleep(1)


def end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def burst(url: str, out: Path) -> dict[str, Any]:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "loadgen.cli", "burst", "--url", url, *LOAD),
            *("--warmup", str(WARMUP), "--gpu", "on", "--json", "--quiet"),
            *("--out", str(out / "runs"), "--name", "gpu"),
        ],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    sys.stderr.write(done.stderr)
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


def faults(kind: str, summary: dict[str, Any]) -> Iterator[str]:
    """What is not as it must be on a GPU."""
    gpu = summary["telemetry"]["gpu"]
    if gpu["status"] != "ok":
        yield f"NVML is not ok: {gpu['status']}"
        return
    working = [one for one in gpu["devices"] if one["working"]]
    if not working:
        yield "no GPU was seen at work"
        return
    device = working[0]
    if device["memory"] is None:
        yield f"no memory is told: {device['refused']}"
        return
    if gpu["rounds"] < 50:
        yield f"only {gpu['rounds']} looks in more than 10 s"
    if summary["outcomes"]["ok"] == 0:
        yield f"no answer was whole: {summary['outcomes']}"
    if kind == "kv":
        per_token = device["memory"]["per_in_flight_token"]
        if per_token is None or abs(per_token / BYTES_PER_TOKEN - 1) > TOLERANCE:
            yield (
                f"{per_token} bytes a token in flight, the server takes "
                f"{BYTES_PER_TOKEN}: {device['memory']['note']}"
            )
    elif summary["reconciliation"]["difference"] != 0:
        yield f"the account is not exact: {summary['reconciliation']['finding']}"


def show(kind: str, summary: dict[str, Any]) -> None:
    gpu = summary["telemetry"]["gpu"]
    say(f"server: {kind}; NVML {gpu['library']}, driver {gpu['driver']}")
    say(
        f"looks {gpu['rounds']}, skipped {gpu['skipped']}, the longest took "
        f"{1e3 * (gpu['longest_look_s'] or 0):.1f} ms"
    )
    for device in gpu["devices"]:
        told = {
            k: device[k]
            for k in (
                "memory",
                "utilization_pct",
                "power_w",
                "sm_mhz",
                "refused",
                "processes_note",
            )
        }
        say(f"GPU {device['index']} {device['name']}: {json.dumps(told)}")
    say(
        f"outcomes {summary['outcomes']}, verdict {summary['verdict']['status']}, "
        f"send lag p99 {summary['client']['client_lag_s']['p99']}"
    )


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
