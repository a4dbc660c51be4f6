"""The clients that say what they saw: ours, and the limit of what C can do."""

from __future__ import annotations

import asyncio
import os
import struct
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from loadgen.issue.config import Tls
from loadgen.issue.launch import start
from loadgen.issue.stats import IssueStats
from loadgen.units import NS_PER_MS, NS_PER_S
from tests.e2e.issuer_rig import configure, read_records, write_schedule
from tests.perf.trial import Load, Stamped, Trial, Watch, judge
from tests.perf.truth import TruthServer, favour

__all__ = ["LimitClient", "Ours"]


@dataclass
class Ours:
    """One issuing process on that core, as every run has it."""

    core: int
    preconnect: int = 0
    name: str = "loadgen"
    coalesces: bool = True
    first_rps: float = 300.0

    def offer(self, server: TruthServer, load: Load) -> Trial:
        with tempfile.TemporaryDirectory() as name:
            return self._offer(server, load, Path(name))

    def _offer(self, server: TruthServer, load: Load, folder: Path) -> Trial:
        write_schedule(folder / "schedule.jsonl", load.at_ns(), lambda _: load.body())
        config = configure(
            folder,
            ("127.0.0.1", server.port),
            headers=[("content-type", "application/json")],
            preconnect=self.preconnect,
            tls=Tls(ca_file=str(server.certificate)) if server.certificate else None,
            idle_ns=60 * NS_PER_S,
            total_ns=300 * NS_PER_S,
            drain_ns=60 * NS_PER_S,
        )
        server.open_log()
        began_ns = time.monotonic_ns()

        async def run() -> tuple[IssueStats, Watch]:
            issuing = await start(config)
            os.sched_setaffinity(issuing.pid, {self.core})
            try:
                with Watch(issuing.pid, every_s=0.05).on() as watch:
                    await issuing.ready()
                    await issuing.go(time.monotonic_ns() + 20 * NS_PER_MS)
                    return await issuing.wait(), watch
            finally:
                await issuing.end()

        stats, watch = asyncio.run(run())
        stamped = {
            record.request_id: Stamped(
                record.scheduled_ns + stats.t0_ns,
                record.sent_ns + stats.t0_ns,
                np.array(record.token_ns, np.int64) + stats.t0_ns,
                np.array(record.token_exact, bool),
            )
            for record in read_records(folder / "requests-0.jsonl")
            if record.sent_ns is not None
        }
        return judge(
            load,
            server.served(),
            stamped,
            cpu_s=stats.cpu_s,
            watch=watch,
            began_ns=began_ns,
        )


@dataclass
class LimitClient:
    """``PATH PORT CORE open RATE REQUESTS TOKENS OUT``: what C can do on that core.

    It prints one JSON object with ``cpu_s``; OUT holds a head of five
    64-bit and two 32-bit numbers a request (index, due, sent, first, done; tokens,
    status), then its tokens' instants. Its request ids are ``c00000000`` and on.
    """

    path: Path
    core: int
    name: str = "C limit client"
    coalesces: bool = False
    first_rps: float = 500.0

    def offer(self, server: TruthServer, load: Load) -> Trial:
        with tempfile.TemporaryDirectory() as name:
            out = Path(name) / "out"
            command = [self.path, server.port, self.core, "open", load.rate_rps]
            command += [load.requests, load.tokens, out]
            server.open_log()
            began_ns = time.monotonic_ns()
            process = subprocess.Popen(
                [str(word) for word in command],
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
            favour(process.pid)
            with Watch(process.pid, every_s=0.05).on() as watch:
                said, _ = process.communicate(timeout=300)
            gave_up = process.returncode != 0
            stamped = {} if gave_up else _told(out.read_bytes())
        used = 0.0 if gave_up else float(msgspec.json.decode(said)["cpu_s"])
        return judge(
            load,
            server.served(),
            stamped,
            cpu_s=used,
            watch=watch,
            began_ns=began_ns,
        )


def _told(data: bytes) -> dict[str, Stamped]:
    head, at, stamped = struct.Struct("=5Q2I"), 0, {}
    while at < len(data):
        index, due, sent, _, _, count, _ = head.unpack_from(data, at)
        at += head.size
        tokens = np.frombuffer(data, "<i8", count, at).astype(np.int64)
        at += 8 * count
        stamped[f"c{index:08d}"] = Stamped(due, sent, tokens)
    return stamped
