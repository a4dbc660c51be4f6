"""``python -m tests.perf.large [REQUESTS [TOKENS]]``: how long a large run is judged.

Makes the folder of a run as large as that out of one small burst against the
stand-in, then judges it with ``loadgen report``. Prints seconds and memory.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from loadgen.model import Ending, Outcome, RequestRecord
from loadgen.store import RunDir
from loadgen.units import NS_PER_MS, NS_PER_S

RATE_RPS = 10_000


def main(requests: int, tokens: int) -> None:
    """Make it, judge it, say what that took."""
    with tempfile.TemporaryDirectory() as name:
        folder = make_run(Path(name), requests, tokens)
        size_mb = (folder / "requests.jsonl").stat().st_size / 1e6
        command = [sys.executable, "-m", "loadgen.cli", "report", str(folder), "--json"]
        began = time.monotonic()
        done = subprocess.run(command, capture_output=True, check=False)
        took_s = time.monotonic() - began
        peak_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3
        summary = msgspec.json.decode(done.stdout or b"{}")
        sys.stdout.write(
            f"{requests:,} requests of {tokens} tokens, {size_mb:,.0f} MB: judged in "
            f"{took_s:.1f} s with {peak_mb:,.0f} MB at most; exit {done.returncode}, "
            f"outcomes {summary.get('outcomes')}\n"
        )


def make_run(out: Path, requests: int, tokens: int) -> Path:
    """A small burst's folder, with so many records in place of its own."""
    environment = {k: v for k, v in os.environ.items() if "proxy" not in k.lower()}
    subprocess.run(
        [
            *(sys.executable, "-m", "loadgen.cli", "burst", "--rate", "10/s"),
            *("--duration", "1s", "--out", str(out), "--quiet"),
        ],
        check=True,
        env=environment,
        capture_output=True,
    )
    (folder,) = out.iterdir()
    run = RunDir.open(folder)
    manifest = run.read_manifest()
    duration_ns = requests * NS_PER_S // RATE_RPS
    run.write_manifest(
        msgspec.structs.replace(
            manifest, offered_requests=requests, duration_ns=duration_ns
        )
    )
    model = next(r for r in run.records(offered=10) if r.outcome is Outcome.OK)
    encode = msgspec.json.Encoder().encode
    with run.requests_path.open("wb") as file:
        for seq in range(requests):
            file.write(encode(one_like(model, seq, tokens)) + b"\n")
    return folder


def one_like(model: RequestRecord, seq: int, tokens: int) -> RequestRecord:
    """A record at its place in the schedule, its tokens a few ms apart."""
    due_ns = seq * NS_PER_S // RATE_RPS
    first_ns = due_ns + 40 * NS_PER_MS + seq * 7919 % (5 * NS_PER_MS)
    gap_ns = 20 * NS_PER_MS + seq * 104_729 % NS_PER_MS
    at_ns = [first_ns + i * gap_ns for i in range(tokens)]
    return msgspec.structs.replace(
        model,
        seq=seq,
        request_id=f"large-{seq}",
        scheduled_ns=due_ns,
        started_ns=due_ns + 20_000,
        sent_ns=due_ns + 60_000,
        connected_ns=None,
        headers_ns=due_ns + NS_PER_MS,
        first_byte_ns=due_ns + NS_PER_MS,
        first_event_ns=first_ns,
        first_token_ns=first_ns,
        first_answer_ns=first_ns,
        last_token_ns=at_ns[-1],
        end_ns=at_ns[-1],
        token_ns=at_ns,
        token_exact=[True] * tokens,
        output_tokens=tokens,
        ending=Ending.COMPLETE,
    )


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:3]]
    main(*given, *(1_000_000, 20)[len(given) :])
