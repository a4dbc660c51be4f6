"""What is measured of loadgen alone: TLS, memory, how soon it starts, large runs."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.certificate import make_certificate
from tests.e2e.issuer_rig import write_schedule
from tests.perf.bench import Bench, say
from tests.perf.clients import Ours
from tests.perf.trial import Load, Trial
from tests.perf.truth import TruthServer

__all__ = ["Alone", "alone"]

_TTFT_US = 3_000_000
_LONG_TOKENS = 256


@dataclass
class Alone:
    """Lists of one value a round.

    Attributes:
        plain: trials over plain HTTP beside the same over TLS.
        mb_mid_stream: memory of 1,000 more streams of 256 tokens near their ends.
        kb_per_tls: memory of one more connection under TLS than without.
        launch_s: ``loadgen replay FILE`` until the server read the first request.
        help_s: ``loadgen --help``.
    """

    plain: list[Trial] = field(default_factory=list)
    tls: list[Trial] = field(default_factory=list)
    no_tls: str | None = None
    mb_mid_stream: list[float] = field(default_factory=list)
    kb_per_tls: list[float] = field(default_factory=list)
    launch_s: list[float] = field(default_factory=list)
    help_s: list[float] = field(default_factory=list)


def alone(bench: Bench, rate_rps: float) -> Alone:
    """Measure it, round by round.

    Args:
        bench: where and how.
        rate_rps: of streams, for the comparison of TLS with plain HTTP.
    """
    found = Alone(no_tls=bench.no_tls)
    ours = Ours(bench.client_core)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with bench.serve() as server:
            for _ in range(bench.rounds):
                found.launch_s.append(_launch_s(server, folder))
                found.help_s.append(_seconds_of("--help"))
        _memory(found, bench, ours)
        if found.no_tls is None:
            _tls(found, bench, rate_rps, make_certificate(folder).path)
    return found


def _tls(found: Alone, bench: Bench, rate_rps: float, certificate: Path) -> None:
    load = Load(rate_rps, bench.seconds, 64)
    warm = Ours(bench.client_core, preconnect=int(rate_rps))
    with bench.serve() as plain, bench.serve(certificate=certificate) as tls:
        for number in range(bench.rounds):
            found.plain.append(warm.offer(plain, load))
            found.tls.append(warm.offer(tls, load))
            say(f"round {number + 1}: plain and TLS at {rate_rps:.0f}/s")
    cold = Ours(bench.client_core)
    with (
        bench.serve(ttft_us=_TTFT_US) as plain,
        bench.serve(ttft_us=_TTFT_US, certificate=certificate) as tls,
    ):
        for _ in range(min(3, bench.rounds)):
            rise = [_mb_per_1000(cold, server, (50, 350), 1) for server in (plain, tls)]
            found.kb_per_tls.append(rise[1] - rise[0])


def _memory(found: Alone, bench: Bench, ours: Ours) -> None:
    with bench.serve(ttft_us=1_000_000) as server:
        for _ in range(min(3, bench.rounds)):
            rise = _mb_per_1000(ours, server, (50, 250), _LONG_TOKENS)
            found.mb_mid_stream.append(rise)
            say(f"memory mid-stream: {rise:.1f} MB")


def _mb_per_1000(
    ours: Ours, server: TruthServer, rates: tuple[int, int], tokens: int
) -> float:
    few, many = (ours.offer(server, Load(rate, 3, tokens)) for rate in rates)
    assert few.rss_mb is not None
    assert many.rss_mb is not None
    return 1000 * (many.rss_mb - few.rss_mb) / max(1, many.peak - few.peak)


def _launch_s(server: TruthServer, folder: Path) -> float:
    """From the command to the server's first read of what the schedule says."""
    load = Load(20, 0.2, 1)
    path = folder / "launch.jsonl"
    write_schedule(path, load.at_ns(), lambda _: load.body())
    server.open_log()
    began_ns = time.monotonic_ns()
    _loadgen(
        *("replay", str(path), "--url", f"http://127.0.0.1:{server.port}"),
        *("--out", str(folder / "results"), "--quiet"),
    )
    return (min(one.read_ns for one in server.served()) - began_ns) / 1e9


def _seconds_of(*words: str) -> float:
    began = time.monotonic()
    _loadgen(*words)
    return time.monotonic() - began


def _loadgen(*words: str) -> None:
    environment = {k: v for k, v in os.environ.items() if "proxy" not in k.lower()}
    subprocess.run(
        [sys.executable, "-m", "loadgen.cli", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        check=False,
        timeout=120,
    )
