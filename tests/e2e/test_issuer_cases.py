"""The handed cases of a client's own faults: what each one became here.

A case is checked below, or its id is in ``ELSEWHERE`` with the place that does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from loadgen.model import Ending, Outcome
from loadgen.units import NS_PER_MS, NS_PER_S
from tests.cases import Case, cases
from tests.e2e.issuer_rig import (
    STREAM_HEAD,
    WAIT_S,
    Peer,
    Request,
    answer,
    offer,
    plain,
    serving,
    token,
)

ELSEWHERE = {
    "cli-04-ports-exhausted": "unit/test_issue_limits.py",
    "cli-06-32768-wall": "unit/test_issue_limits.py and wire/test_connection.py: "
    "a wall of ours is said before t0 and ends as client_error with its errno",
    "cli-08-localhost-v6": "the parent resolves and tries both before t0",
    "cli-16-tokenize-on-loop": "nothing is tokenized here: an import contract",
    "cli-18-gc-pause": "the collector is off: e2e/test_issuer_control.py; "
    "pauses that remain are loop lag, which the verdict looks at",
    "cli-21-silent-get-retry": "the load path has no GET; scrapes are the parent's",
}


def pool_limit(case: Case, folder: Path) -> None:
    """All requests are at the server at once, and sent within the bound."""
    wanted = case["expect"]["max_in_flight_at_server"]
    barrier = threading.Barrier(wanted)

    def together(peer: Peer, request: Request) -> None:
        barrier.wait(WAIT_S)
        answer(peer, request)

    with serving(together) as server:
        told = offer(
            folder, server.address, [0] * case["input"]["simultaneous_requests"]
        )
    assert told.stats.outcomes == {"ok": wanted}
    assert told.stats.connections.peak_in_flight == wanted


def long_reply(case: Case, folder: Path) -> None:
    """A reply longer than any limit that was not set; tenths stand for minutes."""
    tenths = case["input"]["reply_duration_s"] // 60

    def slow(peer: Peer, request: Request) -> None:
        peer.send(STREAM_HEAD)
        for _ in range(tenths):
            peer.send(token("a"))
            time.sleep(0.1)
        peer.send(token("b", "stop"), b"0\r\n\r\n")

    total_ns = case["input"]["configured_timeout_s"] * NS_PER_S
    with serving(slow) as server:
        (record,) = offer(folder, server.address, total_ns=total_ns).records
    assert record.outcome == case["expect"]["outcome"]


def ipv6_only(case: Case, folder: Path) -> None:
    """The server listens on ::1 alone."""
    (host,) = case["input"]["listen"]
    with serving(answer, host=host) as server:
        (record,) = offer(folder, server.address).records
    assert record.outcome == case["expect"]["outcome"]


def long_event(case: Case, folder: Path) -> None:
    """No line limit."""

    def talk(peer: Peer, request: Request) -> None:
        text = "a" * case["input"]["event_bytes"]
        peer.send(STREAM_HEAD, token(text, "stop"), b"0\r\n\r\n")

    with serving(talk) as server:
        (record,) = offer(folder, server.address).records
    assert record.outcome == case["expect"]["outcome"]
    assert record.bytes_received > case["input"]["event_bytes"]


def long_header(case: Case, folder: Path) -> None:
    """A gateway's header of 10 KB."""

    def talk(peer: Peer, request: Request) -> None:
        field = b"X-Long: " + b"a" * case["input"]["header_bytes"]
        peer.send(STREAM_HEAD[:-2] + field + b"\r\n\r\n")
        peer.send(token("a", "stop"), b"0\r\n\r\n")

    with serving(talk) as server:
        (record,) = offer(folder, server.address).records
    assert record.outcome is Outcome.OK


def redirect(case: Case, folder: Path) -> None:
    """Sent once, not followed, its status kept."""
    status, location = case["input"]["status"], case["input"]["location"]

    def talk(peer: Peer, request: Request) -> None:
        peer.send(plain(f"{status} Found", b"", f"Location: {location}"))

    with serving(talk) as server:
        (record,) = offer(folder, server.address).records
    assert (record.outcome, record.status) == (Outcome.HTTP_REJECT, status)
    assert len(server.requests) == case["expect"]["sends"]
    assert server.requests[0].head.startswith(b"POST ")


def half_open(case: Case, folder: Path) -> None:
    """Not a byte ever: the idle limit ends it; ms stand for s."""
    over = threading.Event()
    idle_ns = case["input"]["read_idle_timeout_s"] * NS_PER_MS

    def silent(peer: Peer, request: Request) -> None:
        over.wait(WAIT_S)

    with serving(silent) as server:
        (record,) = offer(folder, server.address, idle_ns=idle_ns).records
        over.set()
    assert (record.outcome, record.ending) == (Outcome.STALLED, Ending.IDLE)
    assert record.end_ns is not None
    assert record.sent_ns is not None
    assert record.end_ns - record.sent_ns >= idle_ns


def in_flight_at_end(case: Case, folder: Path) -> None:
    """The run waits for the drain limit, then the rest are cancelled."""
    count, finish = (
        case["input"]["in_flight_at_end"],
        case["input"]["finish_within_drain"],
    )
    over = threading.Event()

    def talk(peer: Peer, request: Request) -> None:
        peer.send(STREAM_HEAD, token("a"))
        if peer.number >= finish:
            over.wait(WAIT_S)
        time.sleep(0.1)
        peer.send(token("b", "stop"), b"0\r\n\r\n")

    drain_ns = case["input"]["drain_limit_s"] * 20 * NS_PER_MS
    with serving(talk) as server:
        told = offer(folder, server.address, [0] * count, drain_ns=drain_ns)
        over.set()
    assert told.stats.outcomes == {
        "cancelled": case["expect"]["n_incomplete"],
        "ok": case["expect"]["ok_more"],
    }
    assert len(told.records) == case["expect"]["offered_includes"]


def cut_in_an_event(case: Case, folder: Path) -> None:
    """Half an event is our cut and not the server's fault."""
    ((_, text),) = case["input"]["chunks"]
    over = threading.Event()

    def talk(peer: Peer, request: Request) -> None:
        peer.send(STREAM_HEAD, b"%x\r\n" % (len(text) + 9), text.encode())
        over.wait(WAIT_S)

    with serving(talk) as server:
        total_ns = case["input"]["cancel_ms"] * NS_PER_MS
        (record,) = offer(folder, server.address, total_ns=total_ns).records
        over.set()
    assert record.outcome is Outcome.TIMEOUT
    assert len(record.token_ns) == case["expect"]["partial_tokens"]
    assert record.bad_events == case["expect"]["bad_events"]


CHECKS: dict[str, Callable[[Case, Path], None]] = {
    "cli-01-pool-limit-100": pool_limit,
    "cli-03-total-timeout-300": long_reply,
    "cli-09-v6-only": ipv6_only,
    "cli-13-line-limit": long_event,
    "cli-14-long-header": long_header,
    "cli-19-redirect-turns-get": redirect,
    "cli-22-half-open": half_open,
    "cli-23-in-flight-at-end": in_flight_at_end,
    "cli-25-unraisable-cancel": cut_in_an_event,
}


def test_every_case_has_its_place() -> None:
    assert set(cases("client")) == set(CHECKS) | set(ELSEWHERE)
    assert not set(CHECKS) & set(ELSEWHERE)


@pytest.mark.parametrize("name", CHECKS)
def test_case(name: str, tmp_path: Path) -> None:
    CHECKS[name](cases("client")[name], tmp_path)
