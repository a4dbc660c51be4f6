"""Run the product as a person does: ``loadgen burst --json`` in its own process."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Run", "Running", "burst", "bursting"]

LOADGEN = Path(sys.executable).with_name("loadgen")
LIMIT_S = 240.0


class Run(NamedTuple):
    """A burst that has ended: its exit code, summary, records and messages."""

    code: int
    summary: dict[str, Any]
    records: list[dict[str, Any]]
    messages: str

    @property
    def outcomes(self) -> dict[str, int]:
        """Outcome to count; outcomes that did not occur are absent."""
        told: dict[str, int] = self.summary["outcomes"]
        return {name: count for name, count in told.items() if count}

    def where(self, outcome: str) -> list[dict[str, Any]]:
        return [r for r in self.records if r["outcome"] == outcome]

    def blamed(self) -> Counter[tuple[str, str]]:
        """``(layer, limiting_resource)`` of all that is not ok, from the summary."""
        counts: Counter[tuple[str, str]] = Counter()
        for row in self.summary["rejections"]:
            counts[row["layer"], row["limiting_resource"]] += row["count"]
        return counts

    def check_accounts(self, offered: int) -> None:
        """Every offered request became one record with one outcome."""
        assert self.summary["offered"]["requests"] == offered
        assert sum(self.summary["outcomes"].values()) == offered
        assert sorted(r["seq"] for r in self.records) == list(range(offered))
        assert len({r["request_id"] for r in self.records}) == offered
        assert Counter(r["outcome"] for r in self.records) == self.outcomes
        not_ok = offered - self.outcomes.get("ok", 0)
        assert sum(self.blamed().values()) == not_ok
        assert self.summary["client"]["retries"] == 0
        for record in self.records:
            assert (record["attribution"] is None) == (record["outcome"] == "ok")


class Running:
    """A burst under way, to be disturbed and then awaited."""

    def __init__(self, process: subprocess.Popen[bytes], out: Path, messages: Path):
        self._process = process
        self._out = out
        self._messages = messages

    def records_so_far(self) -> int:
        """Requests that have ended, by the lines already in the run's folder."""
        return sum(
            path.read_bytes().count(b"\n")
            for path in self._out.rglob("requests*.jsonl")
        )

    def under_way(self) -> bool:
        return self._process.poll() is None

    def wait(self) -> Run:
        """Await its end.

        Raises:
            subprocess.TimeoutExpired: it did not end within the limit.
            AssertionError: it printed no summary; says what it said instead.
        """
        printed, _ = self._process.communicate(timeout=LIMIT_S)
        said = self._messages.read_text(errors="replace")
        assert printed.strip(), f"exit {self._process.returncode}, no summary: {said}"
        [requests] = self._out.rglob("requests.jsonl")
        records = [json.loads(line) for line in requests.read_text().splitlines()]
        return Run(self._process.returncode, json.loads(printed), records, said)


@contextmanager
def bursting(url: str, out: Path, *flags: str) -> Iterator[Running]:
    """Start a burst and end it for certain on leaving.

    Args:
        url: the server's root.
        out: a folder of this burst's own.
        flags: more flags of ``loadgen burst``; of a repeated one the last counts.
    """
    out.mkdir(parents=True)
    messages = out / "messages.txt"
    argv = [str(LOADGEN), "burst", "--url", url, "--out", str(out / "runs"), "--json"]
    argv += ["--arrivals", "constant", "--workload", "short-questions"]
    argv += ["--idle-timeout", "60s", "--timeout", "180s", "--drain", "180s", *flags]
    with messages.open("wb") as said:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            start_new_session=True,
        )
    try:
        yield Running(process, out, messages)
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Interrupt it twice, so that it cuts what is open; then kill it."""
    for _ in range(2):
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.5)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.stdout:
        process.stdout.close()


def burst(url: str, out: Path, *flags: str) -> Run:
    """Run one burst to its end."""
    with bursting(url, out, *flags) as running:
        return running.wait()
