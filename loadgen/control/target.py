"""Where requests go: the address a person typed, checked and taken apart."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

from loadgen.errors import UsageError

__all__ = ["Target", "parse_target"]

DEFAULT_PORT = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A server's root.

    Attributes:
        scheme: ``http`` or ``https``.
        host: name or address, without the brackets of an IPv6 address.
        port: explicit or the scheme's own.
    """

    scheme: str
    host: str
    port: int

    @property
    def tls(self) -> bool:
        return self.scheme == "https"

    @property
    def authority(self) -> str:
        """The ``Host`` header: brackets for IPv6, no default port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORT[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}"

    @property
    def is_loopback(self) -> bool:
        """Whether the host is this machine by its name or address alone."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def parse_target(url: str, *, flag: str = "--url") -> Target:
    """Take a server's root URL apart.

    Raises:
        UsageError: no scheme, another scheme than http(s), no host, a bad port,
            credentials, or a path or query already in it.
    """
    text = url.strip()
    if "@" in text:
        raise UsageError(
            f"{flag} must not hold a user or password",
            "give the key by --api-key-env or --api-key-file",
        )
    if "://" not in text:
        raise UsageError(
            f"{flag} {url!r} has no scheme", f"write http://{text or 'HOST:PORT'}"
        )
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"{flag} {url!r} is not a URL: {error}") from None
    if parts.scheme not in DEFAULT_PORT:
        raise UsageError(f"{flag} {url!r}: scheme must be http or https")
    if not parts.hostname or any(c.isspace() or not c.isprintable() for c in text):
        raise UsageError(f"{flag} {url!r} has no usable host")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        root = f"{parts.scheme}://{parts.netloc}"
        raise UsageError(
            f"{flag} {url!r} already has a path",
            f"give the root ({root}); --endpoint sets another path",
        )
    if port == 0:
        raise UsageError(f"{flag} {url!r}: port 0 cannot be reached")
    return Target(
        scheme=parts.scheme,
        host=parts.hostname,
        port=port if port is not None else DEFAULT_PORT[parts.scheme],
    )
