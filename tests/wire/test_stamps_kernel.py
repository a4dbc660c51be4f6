"""The kernel's receive stamps on loopback: there, ordered, between write and read."""

from __future__ import annotations

import select
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from loadgen.wire.connection import Connection, Endpoint
from loadgen.wire.stamps import (
    KernelClock,
    ask_for_stamps,
    read_ancillary,
    stamping_warm,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux's own stamps")


@pytest.fixture
def pair() -> Iterator[tuple[Connection, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        endpoint = Endpoint(listener.getsockname(), socket.AF_INET, stamped=True)
        with closing(Connection(endpoint)) as connection:
            while not connection.establish():
                pass
            peer, _ = listener.accept()
            with peer:
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                yield connection, peer


def wait(connection: Connection) -> None:
    poll = select.poll()
    poll.register(connection.fd, select.POLLIN)
    assert poll.poll(5000)


def test_a_stamp_lies_between_the_write_and_the_read(
    pair: tuple[Connection, socket.socket],
) -> None:
    connection, peer = pair
    keeper = stamping_warm()
    assert keeper is not None
    clock = KernelClock(time.monotonic_ns, time.time_ns)
    slack_ns = 20_000  # the offset's own error, with room
    stamped = 0
    for _ in range(50):
        before_ns = time.monotonic_ns()
        peer.sendall(b"event")
        wait(connection)
        got = connection.receive()
        after_ns = time.monotonic_ns()
        assert got is not None
        data, stamp_ns, alone = got
        assert data == b"event"
        assert alone
        if stamp_ns is not None:
            stamped += 1
            at_ns = stamp_ns - clock.offset_ns
            assert before_ns - slack_ns <= at_ns <= after_ns + slack_ns
    assert stamped >= 45  # the kernel may begin a moment late, then it keeps on
    keeper.close()


def test_what_is_left_in_the_queue_is_told(
    pair: tuple[Connection, socket.socket],
) -> None:
    connection, peer = pair
    peer.sendall(b"x" * 200_000)
    total, alone = 0, False
    while total < 200_000:
        wait(connection)
        got = connection.receive()
        assert got is not None
        total += len(got[0])
        alone = got[2]
        if total < 200_000 and len(got[0]) == 65_536:
            assert not alone
    assert alone


def test_a_socket_that_was_not_asked_has_no_stamp() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        endpoint = Endpoint(listener.getsockname(), socket.AF_INET, stamped=False)
        with closing(Connection(endpoint)) as connection:
            while not connection.establish():
                pass
            peer, _ = listener.accept()
            with peer:
                peer.sendall(b"event")
                wait(connection)
                assert connection.receive() == (b"event", None, True)


def test_a_kernel_that_takes_the_request_and_forgets_it_has_no_stamps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("loadgen.wire.stamps.ask_for_stamps", lambda _: True)
    monkeypatch.setattr("loadgen.wire.stamps._TRIAL_S", 0.01)
    assert stamping_warm() is None


def test_what_cannot_be_stamped_says_so() -> None:
    left, right = socket.socketpair()
    with left, right:
        assert not ask_for_stamps(left)


def test_nothing_beside_the_bytes_is_nothing_known() -> None:
    assert read_ancillary([]) == (None, False)
