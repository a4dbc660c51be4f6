"""Connections between requests: which may carry another, and for how long."""

from __future__ import annotations

from loadgen.issue.ready import Readiness
from loadgen.units import NS_PER_S
from loadgen.wire.connection import Connection, Endpoint
from loadgen.wire.http import Response

__all__ = ["Pool", "expiry_ns"]


def expiry_ns(
    now_ns: int, reuse_idle_ns: int, keep_alive_s: int | None, more: int | None
) -> int:
    """Until when a connection that falls idle now is surely alive.

    Args:
        now_ns: when its last answer ended.
        reuse_idle_ns: our own bound; engines close after 5 s.
        keep_alive_s: the server's Keep-Alive timeout; None: not said.
        more: how many more requests the server says it takes; None: not said.
    """
    if more is not None and more < 1:
        return now_ns
    kept_ns = reuse_idle_ns
    if keep_alive_s is not None:
        promised_ns = keep_alive_s * NS_PER_S
        kept_ns = min(kept_ns, promised_ns - min(NS_PER_S, promised_ns // 2))
    return now_ns + kept_ns


class Pool:
    """The idle connections of one process, the last used taken first.

    Args:
        endpoint: where to connect.
        ready: idle connections stay watched, so that a closing is seen early.
        reuse_idle_ns: for how long an idle one counts as alive.
        fresh: never use one twice.

    Attributes:
        opened: connections opened so far, failures to connect included.
        reused: requests that took an idle one.
        dropped: idle ones found dead, or too old to trust.
    """

    def __init__(
        self, endpoint: Endpoint, ready: Readiness, *, reuse_idle_ns: int, fresh: bool
    ) -> None:
        self._endpoint = endpoint
        self._ready = ready
        self._reuse_idle_ns = reuse_idle_ns
        self._fresh = fresh
        self._idle: dict[int, Connection] = {}
        self.opened = 0
        self.reused = 0
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._idle)

    def take(self, now_ns: int) -> Connection | None:
        """An idle connection that is surely alive; None when a new one is needed."""
        while self._idle:
            _, connection = self._idle.popitem()
            expires_ns = connection.expires_ns
            if (expires_ns is None or now_ns < expires_ns) and connection.is_quiet():
                self.reused += connection.uses > 0
                return connection
            self._drop(connection)
        return None

    def open(self) -> Connection:
        """A new connection under way, not watched yet.

        Raises:
            OSError: no descriptor, no port, refused at once.
        """
        self.opened += 1
        return Connection(self._endpoint)

    def give(self, connection: Connection, response: Response, now_ns: int) -> bool:
        """Take back a watched connection after an answer; False: not to be kept."""
        if self._fresh or not response.reusable or connection.wants_write:
            return False
        connection.expires_ns = expiry_ns(
            now_ns, self._reuse_idle_ns, response.keep_alive_s, response.keep_alive_max
        )
        if connection.expires_ns <= now_ns:
            return False
        connection.idle_since_ns = now_ns
        self._idle[connection.fd] = connection
        return True

    def keep(self, connection: Connection, now_ns: int) -> None:
        """Take in a watched connection opened ahead of its request."""
        connection.expires_ns = now_ns + self._reuse_idle_ns
        connection.idle_since_ns = now_ns
        self._idle[connection.fd] = connection

    def stirred(self, fd: int) -> None:
        """Something happened on ``fd``: if it is an idle one, it may be at its end."""
        connection = self._idle.get(fd)
        if connection is not None and not connection.is_quiet():
            del self._idle[fd]
            self._drop(connection)

    def prune(self, now_ns: int) -> None:
        """Close idle connections too old to trust, oldest first, a few at a time."""
        for fd in list(self._idle)[:64]:
            expires_ns = self._idle[fd].expires_ns
            if expires_ns is None or now_ns < expires_ns:
                break
            self._drop(self._idle.pop(fd))

    def close(self) -> None:
        """Close all that are idle."""
        while self._idle:
            self._close(self._idle.popitem()[1])

    def _drop(self, connection: Connection) -> None:
        self.dropped += 1
        self._close(connection)

    def _close(self, connection: Connection) -> None:
        self._ready.forget(connection.fd)
        connection.close()
