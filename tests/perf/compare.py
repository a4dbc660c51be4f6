"""What is measured of every client, the same way."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tests.perf.bench import Bench, say
from tests.perf.search import Best, highest
from tests.perf.trial import Client, Errors, Load, Trial

__all__ = ["SHARES", "TOKENS", "Figures", "figures_of", "quantile_us"]

TOKENS = 64
SHARES = (0.6, 0.85, 0.9)
_MEMORY_TTFT_US = 3_000_000


@dataclass
class Figures:
    """One client's.

    Attributes:
        streams: its highest rate of streams; None: it keeps not even a small one.
        single: of one-token requests.
        at: its trials at each share of its own highest rate of streams, by round.
        mb_per_1000: memory of 1,000 more requests in flight before a token came.
    """

    client: Client
    streams: Best | None = None
    single: Best | None = None
    at: dict[float, list[Trial]] = field(default_factory=dict)
    mb_per_1000: list[float] = field(default_factory=list)


def figures_of(clients: list[Client], bench: Bench) -> list[Figures]:
    """Highest rates one client after another, then the rounds, in turn.

    Args:
        clients: who is compared.
        bench: where and how.
    """
    found = [Figures(client) for client in clients]
    with bench.serve() as server:
        for one in found:
            start = Load(one.client.first_rps, bench.seconds, TOKENS)
            one.streams = highest(one.client, server, start, say)
            single = start._replace(rate_rps=4 * start.rate_rps, tokens=1)
            one.single = highest(one.client, server, single, say)
        for number in range(bench.rounds):
            for share in SHARES:
                for one in found:
                    if one.streams is None:
                        continue
                    rate_rps = share * one.streams.rate_rps
                    trial = one.client.offer(
                        server, Load(rate_rps, bench.seconds, TOKENS)
                    )
                    one.at.setdefault(share, []).append(trial)
                    say(f"round {number + 1}: {one.client.name} at {rate_rps:.0f}/s")
    with bench.serve(ttft_us=_MEMORY_TTFT_US) as server:
        for _ in range(min(3, bench.rounds)):
            for one in found:
                if one.streams is not None:
                    few, many = (
                        one.client.offer(
                            server, Load(share * one.streams.rate_rps, 3, 1)
                        )
                        for share in (0.1, 0.8)
                    )
                    one.mb_per_1000.append(_slope(few, many))
    return found


def _slope(few: Trial, many: Trial) -> float:
    assert few.rss_mb is not None
    assert many.rss_mb is not None
    return 1000 * (many.rss_mb - few.rss_mb) / max(1, many.peak - few.peak)


def quantile_us(errors: Errors, share: float) -> float | None:
    """In µs; None where there are none."""
    return float(np.quantile(errors, share)) / 1e3 if len(errors) else None
