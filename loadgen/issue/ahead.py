"""Connections opened before t0, so that the first requests need not wait for them."""

from __future__ import annotations

from collections.abc import Callable

from loadgen.issue.pool import Pool
from loadgen.issue.ready import Readiness
from loadgen.wire.connection import Connection, TlsError

__all__ = ["open_ahead"]

_UNDER_WAY = 128  # what the shortest common listen queue takes


def open_ahead(
    pool: Pool,
    ready: Readiness,
    now_ns: Callable[[], int],
    *,
    count: int,
    limit_ns: int,
) -> int:
    """Open connections, TLS included, and leave them idle in the pool.

    One that fails is given up: the request that would have used it tries anew
    and reports what it finds.

    Args:
        pool: who opens and keeps them.
        ready: what to wait on.
        now_ns: reads CLOCK_MONOTONIC.
        count: how many.
        limit_ns: how long all of it may take.

    Returns:
        How many stand.
    """
    stop_ns = now_ns() + limit_ns
    opening: dict[int, Connection] = {}
    begun = stood = 0
    while (begun < count or opening) and now_ns() < stop_ns:
        while begun < count and len(opening) < _UNDER_WAY:
            begun += 1
            try:
                connection = pool.open()
            except OSError:
                continue
            ready.watch(connection.fd, write=True)
            opening[connection.fd] = connection
        for fd, _ in ready.wait(stop_ns):
            if fd in opening and (done := _establish(opening[fd], ready)) is not None:
                connection = opening.pop(fd)
                if done:
                    stood += 1
                    pool.keep(connection, now_ns())
    for connection in opening.values():
        ready.forget(connection.fd)
        connection.close()
    return stood


def _establish(connection: Connection, ready: Readiness) -> bool | None:
    """True when it stands, None while it goes on, False when it failed."""
    try:
        if not connection.establish():
            ready.change(connection.fd, write=connection.wants_write)
            return None
    except (OSError, TlsError):
        ready.forget(connection.fd)
        connection.close()
        return False
    ready.change(connection.fd, write=False)
    return True
