"""Both ways of waiting tell the same, over real sockets."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from loadgen.issue.ready import (
    WRITABLE,
    EpollReadiness,
    PollReadiness,
    Readiness,
    readiness,
)
from loadgen.units import NS_PER_MS, NS_PER_S


@pytest.fixture(params=[EpollReadiness, PollReadiness])
def ready(request: pytest.FixtureRequest) -> Iterator[Readiness]:
    found: Readiness = request.param(time.monotonic_ns)
    yield found
    found.close()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair()
    with left, right:
        yield left, right


def soon() -> int:
    return time.monotonic_ns() + 5 * NS_PER_S


def mask_of(ready: Readiness, fd: int, until_ns: int) -> int:
    """What is said of ``fd``; other descriptors may be named and mean nothing."""
    return dict(ready.wait(until_ns)).get(fd, 0)


def test_nothing_ready_returns_at_the_instant_and_not_before(
    ready: Readiness, pair: tuple[socket.socket, socket.socket]
) -> None:
    ready.watch(pair[0].fileno(), write=False)
    for _ in range(3):
        until_ns = time.monotonic_ns() + 2 * NS_PER_MS
        while time.monotonic_ns() < until_ns:
            assert mask_of(ready, pair[0].fileno(), until_ns) == 0
        assert time.monotonic_ns() >= until_ns


def test_an_instant_already_past_is_a_look(
    ready: Readiness, pair: tuple[socket.socket, socket.socket]
) -> None:
    left, right = pair
    ready.watch(left.fileno(), write=False)
    assert mask_of(ready, left.fileno(), 0) == 0
    right.send(b"x")
    assert mask_of(ready, left.fileno(), 0)


def test_what_can_be_read_or_written_is_told(
    ready: Readiness, pair: tuple[socket.socket, socket.socket]
) -> None:
    left, right = pair
    fd = left.fileno()
    ready.watch(fd, write=True)
    assert mask_of(ready, fd, soon()) == WRITABLE
    ready.change(fd, write=False)
    assert mask_of(ready, fd, 0) == 0
    right.send(b"x")
    mask = mask_of(ready, fd, soon())
    assert mask
    assert not mask & WRITABLE
    ready.forget(fd)
    assert mask_of(ready, fd, 0) == 0


def test_the_other_side_s_end_is_told(
    ready: Readiness, pair: tuple[socket.socket, socket.socket]
) -> None:
    left, right = pair
    ready.watch(left.fileno(), write=False)
    right.close()
    assert mask_of(ready, left.fileno(), soon()) & ~WRITABLE


def test_a_later_instant_replaces_an_earlier_one(ready: Readiness) -> None:
    ready.wait(time.monotonic_ns() + NS_PER_MS)
    until_ns = time.monotonic_ns() + 3 * NS_PER_MS
    while time.monotonic_ns() < until_ns:
        ready.wait(until_ns)
    assert time.monotonic_ns() < until_ns + NS_PER_S


def test_this_platform_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_timer(_: object) -> None:
        raise OSError("no timerfd")

    readiness(time.monotonic_ns).close()
    monkeypatch.setattr("loadgen.issue.ready._Timer.__init__", no_timer)
    assert isinstance(readiness(time.monotonic_ns), PollReadiness)
