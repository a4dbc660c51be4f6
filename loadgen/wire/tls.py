"""TLS over memory, so that the bytes still come from our own, stamped socket.

Apart from ``connection`` because importing ``ssl`` costs a plain-HTTP run 10 ms.
"""

from __future__ import annotations

import ssl

from loadgen.errors import UsageError
from loadgen.wire.connection import TlsError

__all__ = ["TlsSession", "tls_context"]

_READ_BYTES = 65_536


def tls_context(*, verify: bool, ca_file: str | None) -> ssl.SSLContext:
    """What every connection of a run shares.

    Args:
        verify: check the certificate and its name; False trusts anyone.
        ca_file: PEM of the authorities to trust in place of the system's.

    Raises:
        UsageError: the file cannot be read or holds no certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif ca_file is None:
        context.load_default_certs()
    else:
        try:
            context.load_verify_locations(cafile=ca_file)
        except (OSError, ssl.SSLError) as error:
            raise UsageError(f"cannot use the CA file {ca_file}: {error}") from error
    return context


class TlsSession:
    """The TLS side of one connection.

    Args:
        context: see ``tls_context``.
        server_name: the name to ask for and to check the certificate against.

    Attributes:
        whole: nothing of a further record is held back.
        ended: the peer said that it will send no more.
    """

    __slots__ = ("_incoming", "_outgoing", "_ssl", "ended", "whole")

    def __init__(self, context: ssl.SSLContext, server_name: str | None) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._ssl = context.wrap_bio(
            self._incoming, self._outgoing, server_hostname=server_name
        )
        self.whole = True
        self.ended = False

    def handshake(self, received: bytes) -> bool:
        """Take the peer's bytes, go on; True when done."""
        self._incoming.write(received)
        try:
            self._ssl.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError as error:
            raise TlsError(_reason(error)) from error
        return True

    def encrypt(self, data: bytes) -> bytes:
        """The records that carry ``data``."""
        try:
            self._ssl.write(data)
        except ssl.SSLError as error:
            raise TlsError(_reason(error)) from error
        return self._outgoing.read()

    def decrypt(self, received: bytes) -> bytes:
        """What the peer's bytes say as far as whole records go."""
        self._incoming.write(received)
        parts = []
        self.whole = True
        try:
            while part := self._ssl.read(_READ_BYTES):
                parts.append(part)
                # Looking first is cheaper than reading into WantRead.
                if not self._incoming.pending and not self._ssl.pending():
                    break
            else:
                self.ended = True
        except ssl.SSLWantReadError:
            self.whole = False
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            self.ended = True
        except ssl.SSLError as error:
            raise TlsError(_reason(error)) from error
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def outgoing(self) -> bytes:
        """What TLS itself wants to tell the peer."""
        return self._outgoing.read() if self._outgoing.pending else b""


def _reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate not accepted: {error.verify_message}"
    return error.reason or str(error)
