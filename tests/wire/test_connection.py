"""Connections over real sockets on loopback, plain and TLS."""

from __future__ import annotations

import errno
import select
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest

from loadgen.errors import UsageError
from loadgen.model import Ending
from loadgen.wire.connection import Connection, Endpoint, TlsError, ending_of
from loadgen.wire.tls import TlsSession, tls_context
from tests.certificate import Certificate, make_certificate

WAIT_S = 5.0


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        sock.settimeout(WAIT_S)
        yield sock


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("tls"))


def endpoint(listener: socket.socket, *, stamped: bool = True) -> Endpoint:
    return Endpoint(listener.getsockname(), socket.AF_INET, stamped)


def until(connection: Connection, go_on: Callable[[], object], *, write: bool) -> None:
    """Go on whenever the socket is ready, until told that it is done."""
    poll = select.poll()
    poll.register(connection.fd, select.POLLOUT if write else select.POLLIN)
    while not go_on():
        assert poll.poll(WAIT_S * 1000), "nothing happens"


@contextmanager
def connected(
    listener: socket.socket, *, stamped: bool = True
) -> Iterator[tuple[Connection, socket.socket]]:
    with closing(Connection(endpoint(listener, stamped=stamped))) as connection:
        until(connection, connection.establish, write=True)
        peer, _ = listener.accept()
        with peer:
            peer.settimeout(WAIT_S)
            yield connection, peer


def received(connection: Connection) -> bytes:
    """The next bytes; empty at the end."""
    found: list[bytes] = []

    def look() -> bool:
        if (got := connection.receive()) is not None:
            found.append(got[0])
        return bool(found)

    until(connection, look, write=False)
    return found[0]


def reset(peer: socket.socket) -> None:
    """Close with RST."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


def test_bytes_go_and_come(listener: socket.socket) -> None:
    with connected(listener) as (connection, peer):
        assert connection.local_port == peer.getpeername()[1]
        assert connection.send(b"ping")
        assert not connection.wants_write
        assert peer.recv(100) == b"ping"
        peer.sendall(b"pong")
        assert received(connection) == b"pong"
        assert connection.receive() is None


def test_a_large_request_goes_in_parts_and_arrives_whole(
    listener: socket.socket,
) -> None:
    data = bytes(range(256)) * 40_000
    with connected(listener) as (connection, peer):
        assert not connection.send(data)
        assert connection.wants_write
        got = bytearray()
        while len(got) < len(data):
            got += peer.recv(1 << 20)
            connection.flush()
        assert got == data
        assert not connection.wants_write


def test_the_end_is_empty_bytes(listener: socket.socket) -> None:
    with connected(listener) as (connection, peer):
        peer.sendall(b"last")
        peer.close()
        assert received(connection) == b"last"
        assert received(connection) == b""


def test_a_reset_is_an_error_and_a_reset_ending(listener: socket.socket) -> None:
    with connected(listener) as (connection, peer):
        reset(peer)
        with pytest.raises(ConnectionResetError) as caught:
            received(connection)
        ending, detail = ending_of(caught.value, established=True)
        assert ending is Ending.RESET
        assert detail.startswith("ECONNRESET: ")


def test_nobody_listening_is_a_connect_ending(listener: socket.socket) -> None:
    address = endpoint(listener)
    listener.close()
    with (
        closing(Connection(address)) as connection,
        pytest.raises(ConnectionRefusedError) as caught,
    ):
        until(connection, connection.establish, write=True)
    assert ending_of(caught.value, established=False)[0] is Ending.CONNECT


def test_tls_that_breaks_in_an_answer_is_no_matter_of_ours() -> None:
    error = TlsError("BAD_RECORD_MAC")
    assert ending_of(error, established=True) == (Ending.TLS, "TLS: BAD_RECORD_MAC")
    assert ending_of(error, established=True, answered=True)[0] is Ending.PROTOCOL


@pytest.mark.parametrize(
    ("code", "established", "ending"),
    [
        (errno.EMFILE, False, Ending.CLIENT),
        (errno.EADDRNOTAVAIL, False, Ending.CLIENT),
        (errno.ENOBUFS, True, Ending.CLIENT),
        (errno.EHOSTUNREACH, False, Ending.CONNECT),
        (errno.ETIMEDOUT, False, Ending.CONNECT),
        (errno.ECONNRESET, False, Ending.CONNECT),
        (errno.EPIPE, True, Ending.RESET),
        (errno.ETIMEDOUT, True, Ending.RESET),
    ],
)
def test_what_an_error_says_of_the_request(
    code: int, established: bool, ending: Ending
) -> None:
    found, detail = ending_of(OSError(code, "words"), established=established)
    assert found is ending
    assert detail == f"{errno.errorcode[code]}: words"


def test_too_few_descriptors_leave_none_behind(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(family: int, kind: int) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("loadgen.wire.connection.socket.socket", none_left)
    with pytest.raises(OSError, match="Too many open files"):
        Connection(endpoint(listener))


def test_an_idle_connection_is_quiet_until_something_happens(
    listener: socket.socket,
) -> None:
    poll = select.poll()
    for happen in (
        lambda peer: peer.sendall(b"x"),
        lambda peer: peer.close(),
        reset,
    ):
        with connected(listener) as (connection, peer):
            assert connection.is_quiet()
            happen(peer)
            poll.register(connection.fd, select.POLLIN)
            assert poll.poll(WAIT_S * 1000)
            assert not connection.is_quiet()
            poll.unregister(connection.fd)


# TLS: the peer is Python's own blocking TLS socket, in a thread.


def secured(
    listener: socket.socket,
    certificate: Certificate,
    talk: Callable[[ssl.SSLSocket], None],
    *,
    verify: bool = True,
    ca_file: Path | None = None,
    name: str = "127.0.0.1",
) -> Connection:
    """A connection whose handshake has been carried through or raised."""
    context = tls_context(
        verify=verify, ca_file=str(ca_file or certificate.path) if verify else None
    )
    address = endpoint(listener)._replace(cipher=partial(TlsSession, context, name))
    connection = Connection(address)
    serve(listener, certificate, talk)
    try:
        until(connection, connection.establish, write=False)
    except BaseException:
        connection.close()
        raise
    return connection


def serve(
    listener: socket.socket,
    certificate: Certificate,
    talk: Callable[[ssl.SSLSocket], None],
) -> None:
    import threading

    def run() -> None:
        peer, _ = listener.accept()
        with peer:
            peer.settimeout(WAIT_S)
            try:
                with certificate.server_context().wrap_socket(
                    peer, server_side=True
                ) as secure:
                    talk(secure)
            except (OSError, ssl.SSLError):
                pass  # what the client did is what the test looks at

    threading.Thread(target=run, daemon=True).start()


def echo(secure: ssl.SSLSocket) -> None:
    while data := secure.recv(1 << 16):
        secure.sendall(data)


def test_tls_carries_bytes_both_ways_with_stamps(
    listener: socket.socket, certificate: Certificate
) -> None:
    with closing(secured(listener, certificate, echo)) as connection:
        data = bytes(range(256)) * 800
        connection.send(data)
        got = b""
        while len(got) < len(data):
            connection.flush()
            got += received(connection)
        assert got == data


def test_a_tls_connection_stays_quiet_after_its_session_tickets(
    listener: socket.socket, certificate: Certificate
) -> None:
    def answer_once(secure: ssl.SSLSocket) -> None:
        secure.recv(1)
        echo(secure)

    with closing(secured(listener, certificate, answer_once)) as connection:
        poll = select.poll()
        poll.register(connection.fd, select.POLLIN)
        assert poll.poll(WAIT_S * 1000), "tickets come unasked"
        assert connection.is_quiet()


def test_the_peer_s_closing_alert_ends_the_connection(
    listener: socket.socket, certificate: Certificate
) -> None:
    def say_and_close(secure: ssl.SSLSocket) -> None:
        secure.sendall(b"bye")
        secure.unwrap()

    with closing(secured(listener, certificate, say_and_close)) as connection:
        got = received(connection)
        while not connection.ended:
            got += received(connection)
        assert got == b"bye"


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])
def test_a_trusted_certificate_is_accepted_by_its_names(
    listener: socket.socket, certificate: Certificate, name: str
) -> None:
    secured(listener, certificate, echo, name=name).close()


@pytest.mark.parametrize("name", ["elsewhere.example", "127.0.0.2"])
def test_a_certificate_of_another_name_is_refused(
    listener: socket.socket, certificate: Certificate, name: str
) -> None:
    with pytest.raises(TlsError, match="certificate not accepted"):
        secured(listener, certificate, echo, name=name)


def test_an_unknown_authority_is_refused_unless_told_not_to_look(
    listener: socket.socket,
    certificate: Certificate,
    tmp_path: Path,
) -> None:
    stranger = make_certificate(tmp_path)
    with pytest.raises(TlsError, match="certificate not accepted") as caught:
        secured(listener, certificate, echo, ca_file=stranger.path)
    assert ending_of(caught.value, established=False)[0] is Ending.TLS
    secured(listener, certificate, echo, verify=False).close()


def test_tls_asked_of_a_plain_server_is_a_tls_ending(listener: socket.socket) -> None:
    address = endpoint(listener)._replace(
        cipher=partial(TlsSession, tls_context(verify=False, ca_file=None), "x")
    )
    with closing(Connection(address)) as connection:
        until(connection, lambda: connection.establish() or True, write=True)
        peer, _ = listener.accept()
        with peer:
            peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            with pytest.raises(TlsError):
                until(connection, connection.establish, write=False)


def test_a_close_in_the_handshake_is_a_connect_ending(listener: socket.socket) -> None:
    address = endpoint(listener)._replace(
        cipher=partial(TlsSession, tls_context(verify=False, ca_file=None), "x")
    )
    with closing(Connection(address)) as connection:
        until(connection, lambda: connection.establish() or True, write=True)
        peer, _ = listener.accept()
        peer.recv(1 << 16)
        peer.close()
        with pytest.raises(OSError, match="during the TLS handshake") as caught:
            until(connection, connection.establish, write=False)
    assert ending_of(caught.value, established=False)[0] is Ending.CONNECT


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_ca_file_that_is_none_is_said_so(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UsageError, match=r"ca\.pem"):
        tls_context(verify=True, ca_file=str(path))
