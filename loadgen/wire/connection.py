"""One connection to the server: a non-blocking socket, plain or under TLS.

Nothing here waits. ``establish``, ``send``, ``flush`` and ``receive`` do what can
be done now; the caller comes back when the socket is ready again. Sockets raise
``OSError``; ``ending_of`` is the one place that says what such an error means.
"""

from __future__ import annotations

import errno
import os
import select
import socket
from collections.abc import Callable
from typing import NamedTuple, Protocol

from loadgen.model import Ending
from loadgen.wire.stamps import ANCILLARY_BYTES, ask_for_stamps, read_ancillary

__all__ = ["Cipher", "Connection", "Endpoint", "Received", "TlsError", "ending_of"]

READ_BYTES = 65_536

Received = tuple[bytes, int | None, bool]
"""Bytes of one read, their CLOCK_REALTIME stamp (None: unstamped), and whether the
read left nothing behind it, so that the stamp can be that of the bytes' last one."""

_OURS = frozenset(
    {
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ENOBUFS,
        errno.EADDRNOTAVAIL,
        errno.EADDRINUSE,
        errno.EACCES,
        errno.EPERM,
        errno.EAFNOSUPPORT,
    }
)


class TlsError(Exception):
    """The TLS layer refused: a handshake, a certificate, a broken record."""


class Cipher(Protocol):
    """TLS without a socket: bytes in, bytes out.

    Attributes:
        whole: nothing of a further record is held back.
        ended: the peer said that it will send no more.
    """

    whole: bool
    ended: bool

    def handshake(self, received: bytes) -> bool: ...
    def encrypt(self, data: bytes) -> bytes: ...
    def decrypt(self, received: bytes) -> bytes: ...
    def outgoing(self) -> bytes: ...


class Endpoint(NamedTuple):
    """Where to connect and how.

    Attributes:
        address: host and port, resolved.
        family: ``socket.AF_INET`` or ``AF_INET6``.
        stamped: whether to ask the kernel for receive stamps.
        cipher: makes the TLS side of one connection; None for plain HTTP.
    """

    address: tuple[str, int]
    family: int
    stamped: bool
    cipher: Callable[[], Cipher] | None = None


class Connection:
    """A connection being opened, in use or idle.

    Attributes:
        fd: its file descriptor.
        local_port: None until connected.
        ended: the peer has said, inside TLS, that no more will come.
        uses: requests it has carried.
        idle_since_ns: when its last answer ended; None while it never idled.
        expires_ns: when it must not be used any more; None: no word from the server.

    Raises:
        OSError: no descriptor, no port, or refused at once.
    """

    __slots__ = (
        "_cipher",
        "_connecting",
        "_secured",
        "_sock",
        "_stamped",
        "_unsent",
        "ended",
        "expires_ns",
        "fd",
        "idle_since_ns",
        "local_port",
        "uses",
    )

    def __init__(self, endpoint: Endpoint) -> None:
        self._sock = socket.socket(endpoint.family, socket.SOCK_STREAM)
        try:
            self._sock.setblocking(False)
            self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._stamped = endpoint.stamped and ask_for_stamps(self._sock)
            code = self._sock.connect_ex(endpoint.address)
            if code not in (0, errno.EINPROGRESS):
                raise OSError(code, os.strerror(code))
            self._cipher = endpoint.cipher() if endpoint.cipher else None
        except BaseException:
            self._sock.close()
            raise
        self.fd = self._sock.fileno()
        self._connecting = True
        self._secured = self._cipher is None
        self._unsent: bytes | memoryview = b""
        self.local_port: int | None = None
        self.ended = False
        self.uses = 0
        self.idle_since_ns: int | None = None
        self.expires_ns: int | None = None

    @property
    def wants_write(self) -> bool:
        """Whether progress waits for the socket to become writable."""
        return self._connecting or bool(self._unsent)

    @property
    def stamped(self) -> bool:
        """Whether the kernel stamps what this connection receives."""
        return self._stamped

    def establish(self) -> bool:
        """Go on connecting; True once a request may be sent.

        Raises:
            OSError: refused, unreachable, or closed during the handshake.
            TlsError: the handshake failed.
        """
        if self._connecting:
            if not self._poll():
                return False
            code = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                raise OSError(code, os.strerror(code))
            self._connecting = False
            self.local_port = self._sock.getsockname()[1]
        return self._secured or self._shake_hands()

    def _shake_hands(self) -> bool:
        assert self._cipher is not None
        received = b""
        try:
            received = self._sock.recv(READ_BYTES)
            if not received:
                raise OSError(errno.ECONNRESET, "closed during the TLS handshake")
        except BlockingIOError:
            pass
        try:
            self._secured = self._cipher.handshake(received)
        finally:  # an alert that says why must still go out
            self._push(self._cipher.outgoing())
        return self._secured

    def send(self, data: bytes) -> bool:
        """Hand ``data`` to the kernel; True when all of it went.

        Raises:
            OSError: the peer is gone.
        """
        if self._cipher is not None:
            data = self._cipher.encrypt(data)
        return self._push(data)

    def _push(self, data: bytes) -> bool:
        if self._unsent:
            self._unsent = memoryview(bytes(self._unsent) + data)
            return self.flush()
        try:
            sent = self._sock.send(data)
        except BlockingIOError:
            sent = 0
        if sent == len(data):
            return True
        self._unsent = memoryview(data)[sent:]
        return False

    def flush(self) -> bool:
        """Go on with what ``send`` could not hand over; True when all of it went."""
        if self._unsent:
            try:
                self._unsent = self._unsent[self._sock.send(self._unsent) :]
            except BlockingIOError:
                return False
        return not self._unsent

    def receive(self) -> Received | None:
        """Read once. None: nothing to read now; empty bytes: the peer has closed.

        Raises:
            OSError: reset, or lost.
            TlsError: a record that does not decrypt.
        """
        try:
            data, ancillary, _, _ = self._sock.recvmsg(READ_BYTES, ANCILLARY_BYTES)
        except BlockingIOError:
            return None
        if self._stamped:
            stamp_ns, alone = read_ancillary(ancillary)
        else:
            stamp_ns, alone = None, len(data) < READ_BYTES
        if self._cipher is None or not data:
            return data, stamp_ns, alone
        return self._decrypted(data, stamp_ns, alone)

    def _decrypted(
        self, data: bytes, stamp_ns: int | None, alone: bool
    ) -> Received | None:
        cipher = self._cipher
        assert cipher is not None
        plain = cipher.decrypt(data)
        if answer := cipher.outgoing():
            self._push(answer)
        self.ended = cipher.ended
        if plain or cipher.ended:
            return plain, stamp_ns, alone and cipher.whole
        return None

    def is_quiet(self) -> bool:
        """Whether the connection is alive with nothing to read, fit for a request."""
        if self._poll() == select.POLLOUT:
            return True
        if self._cipher is None:
            return False
        try:  # TLS may have had something to say for itself
            return self.receive() is None
        except (OSError, TlsError):
            return False

    def _poll(self) -> int:
        """For what it is ready now; 0: for nothing."""
        poll = select.poll()
        poll.register(self.fd, select.POLLIN | select.POLLOUT)
        ready = poll.poll(0)
        return ready[0][1] if ready else 0

    def close(self) -> None:
        """Let go of it; what is unread is lost."""
        self._sock.close()


def ending_of(
    error: OSError | TlsError, *, established: bool, answered: bool = False
) -> tuple[Ending, str]:
    """What an error of a connection says about the request it carried.

    Args:
        error: as raised by a ``Connection``.
        established: whether the connection was ready for requests before.
        answered: whether a part of an answer had come: then the two ends agreed on
            TLS, and what breaks it is nothing that could be set differently.

    Returns:
        The ending, and one line that names the error.
    """
    if isinstance(error, TlsError):
        return (Ending.PROTOCOL if answered else Ending.TLS), f"TLS: {error}"
    name = errno.errorcode.get(error.errno or 0, "error")
    detail = f"{name}: {error.strerror or error}"
    if error.errno in _OURS:
        return Ending.CLIENT, detail
    return (Ending.RESET if established else Ending.CONNECT), detail
