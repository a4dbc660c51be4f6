"""Whether the client itself was fit to measure."""

from __future__ import annotations

from collections.abc import Iterator

from loadgen.report.escape import safe
from loadgen.report.facts import Client, Facts
from loadgen.report.numbers import NOTHING, count, percent, seconds
from loadgen.report.table import Column, Row, Table

__all__ = ["client_table"]

_CLOCKS = {
    "kernel": "stamped when the bytes arrived",
    "user": "stamped when the client read them",
    "mixed": "some by the kernel, some by the client",
}


def client_table(facts: Facts) -> Table:
    """Lateness, retries, clock and connections of the issuing processes."""
    return Table(
        "Was the client fit to measure?",
        (Column(""), Column("", numeric=False, spare=True)),
        tuple(Row(label, (value, note)) for label, value, note in _lines(facts.client)),
    )


def _lines(client: Client) -> Iterator[tuple[str, str, str]]:
    lag, own, loop = client.send_lag_s, client.client_lag_s, client.loop_lag_s
    yield "sent late (send lag), p99", seconds(lag.p99), f"max {seconds(lag.max)}"
    if own.n:
        yield (
            "of it the client's doing",
            seconds(own.p99),
            f"max {seconds(own.max)}, the rest was connecting",
        )
    yield "event loop late, p99", seconds(loop.p99), f"max {seconds(loop.max)}"
    yield "retries", count(client.retries), "each request is sent once"
    clock = client.receive_clock
    yield (
        "receive clock",
        safe(clock or NOTHING, 12),
        _CLOCKS.get(clock or "", "nothing was received"),
    )
    if client.coalesced_share is not None:
        yield "inexact token times", percent(client.coalesced_share), "of all tokens"
    if client.connections:
        opened, reused, peak = (
            count(client.connections.get(name))
            for name in ("opened", "reused", "peak_in_flight")
        )
        yield "connections", opened, f"{reused} reused, at most {peak} in flight"
    if client.stopped:
        yield "stopped early", "", safe(client.stopped, 40)
