"""The Markdown page."""

from __future__ import annotations

import platform
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from loadgen.units import NS_PER_MS
from tests.perf.bench import Bench
from tests.perf.compare import Figures, quantile_us
from tests.perf.product import Alone
from tests.perf.trial import Trial

__all__ = ["page"]


def page(
    found: Sequence[Figures], ours: Alone | None, bench: Bench, command: str
) -> str:
    """All of it, ending in a line end."""
    lines = [f"`{command}`", "", *_machine(bench), ""]
    lines += _row(("figure", *(one.client.name for one in found)))
    lines += _row(["---"] * (len(found) + 1))
    for name, figure in ROWS:
        lines += _row((name, *(figure(one) for one in found)))
    if ours is not None:
        lines += ["", *_row(("loadgen alone", "found")), *_row(("---", "---"))]
        for name, text in _alone(ours):
            lines += _row((name, text))
    return "\n".join(lines) + "\n"


def cell(values: Iterable[float | None], form: str = ".0f") -> str:
    """``median (lowest to highest)``; the value alone where there is one."""
    known = sorted(value for value in values if value is not None)
    if not known:
        return "-"
    middle = format(statistics.median(known), form)
    low, high = format(known[0], form), format(known[-1], form)
    return middle if low == high else f"{middle} ({low} to {high})"


def _row(cells: Iterable[str]) -> list[str]:
    return ["| " + " | ".join(cells) + " |"]


def _machine(bench: Bench) -> Iterator[str]:
    model = "?"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
    yield (
        f"{model}, {platform.platform()}, Python {platform.python_version()}; "
        f"client on core {bench.client_core}, server on core {bench.server_core}; "
        f"{'the given server' if bench.given else 'our own truth server'}; "
        f"loads of {bench.seconds:g} s, {bench.rounds} rounds. Cells are medians "
        "(lowest to highest) of the rounds; errors are against the server's own clock."
    )


def _highest(one: Figures) -> str:
    best = one.streams
    if best is None:
        return "-"
    refused = "" if best.refused_rps is None else f", refused at {best.refused_rps:.0f}"
    return f"{best.rate_rps:.0f}{refused}"


def _events(one: Figures) -> str:
    best = one.streams
    return (
        "-"
        if best is None
        else f"{best.rate_rps * best.trial.tokens / best.trial.asked:,.0f}"
    )


def _single(one: Figures) -> str:
    return "-" if one.single is None else f"{one.single.rate_rps:,.0f}"


def _per_request(one: Figures) -> str:
    return "-" if one.single is None else f"{one.single.trial.cpu_us_per_request:.0f}"


def _at(
    share: float, value: Callable[[Trial], float | None], form: str = ".0f"
) -> Callable[[Figures], str]:
    return lambda one: cell(map(value, one.at.get(share, ())), form)


def _p(which: str, share: float) -> Callable[[Trial], float | None]:
    return lambda trial: quantile_us(getattr(trial, which), share)


def _lag_ms(trial: Trial) -> float | None:
    return float(np.quantile(trial.lag, 0.99)) / NS_PER_MS if len(trial.lag) else None


def _coalesced(trial: Trial) -> float | None:
    return None if trial.coalesced_share is None else 100 * trial.coalesced_share


ROWS: tuple[tuple[str, Callable[[Figures], str]], ...] = (
    ("highest streams/s of 64 tokens", _highest),
    ("token events/s there", _events),
    ("CPU s per 1M tokens at 60 %", _at(0.6, lambda t: t.cpu_us_per_token, ".1f")),
    ("CPU s per 1M tokens at 85 %", _at(0.85, lambda t: t.cpu_us_per_token, ".1f")),
    ("highest 1-token requests/s", _single),
    ("CPU µs a 1-token request there", _per_request),
    ("TTFT error p50 at 60 %, µs", _at(0.6, _p("ttft_error", 0.5))),
    ("TTFT error p99 at 60 %, µs", _at(0.6, _p("ttft_error", 0.99))),
    ("ITL error p50 at 85 %, µs", _at(0.85, _p("itl_error", 0.5), ".1f")),
    ("ITL error p99 at 85 %, µs", _at(0.85, _p("itl_error", 0.99), ".1f")),
    ("tokens coalesced at 85 %, %", _at(0.85, _coalesced, ".2f")),
    ("server read p99 after due at 60 %, ms", _at(0.6, _lag_ms, ".2f")),
    ("server read p99 after due at 90 %, ms", _at(0.9, _lag_ms, ".2f")),
    ("MB per 1,000 in flight, no token yet", lambda one: cell(one.mb_per_1000, ".1f")),
    (
        "s from launch to first request",
        lambda one: cell((t.launch_s for t in one.at.get(0.6, ())), ".2f"),
    ),
)


def _alone(ours: Alone) -> Iterator[tuple[str, str]]:
    yield "MB per 1,000 streams near 256 tokens", cell(ours.mb_mid_stream, ".2f")
    yield "`loadgen replay` to first request, s", cell(ours.launch_s, ".2f")
    yield "`loadgen --help`, s", cell(ours.help_s, ".2f")
    if ours.no_tls is not None:
        yield "TLS", f"not measured: {ours.no_tls}"
        return
    itl = _p("itl_error", 0.99)
    yield "ITL error p99 plain, µs", cell(map(itl, ours.plain), ".1f")
    yield "ITL error p99 under TLS, µs", cell(map(itl, ours.tls), ".1f")
    pairs = zip(ours.tls, ours.plain, strict=True)
    ratios = [tls.cpu_us_per_token / plain.cpu_us_per_token for tls, plain in pairs]
    yield "CPU a token, TLS over plain", cell(ratios, ".2f")
    yield "KB more a connection under TLS", cell(ours.kb_per_tls, ".1f")
