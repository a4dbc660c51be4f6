"""One request, sent at most once over one connection, from start to its record."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from loadgen.issue.loop import Watcher
from loadgen.issue.pool import Pool
from loadgen.issue.ready import WRITABLE, Readiness
from loadgen.model import Ending
from loadgen.units import NS_PER_S
from loadgen.wire.connection import Connection, TlsError, ending_of
from loadgen.wire.http import Response
from loadgen.wire.reading import Reading

__all__ = ["STALE_CONNECTION", "Attempt", "Journal", "Lane", "Limits", "Offer"]

STALE_CONNECTION = "stale_connection"
"""A kept connection closed under the request before any byte of an answer: we
reused it too late. The server never saw the request, or never said so."""


class Limits(NamedTuple):
    """How long one attempt may take, ns.

    Attributes:
        connect_ns: from start until a request can be sent, TLS included.
        idle_ns: without a byte in either direction.
        total_ns: from start to end.
    """

    connect_ns: int
    idle_ns: int
    total_ns: int


class Offer(NamedTuple):
    """What the schedule says of a request, but its body.

    Attributes:
        seq: its number in the whole schedule.
        place: its number in this process's share.
        scheduled_ns: when it is due, ns since t0.
        planned_prompt_tokens: by our own generator's count; None: not known.
    """

    seq: int
    place: int
    request_id: str
    group: str
    tenant: str | None
    scheduled_ns: int
    max_tokens: int | None
    planned_prompt_tokens: int | None


class Journal(Protocol):
    """Who is told what becomes of an attempt."""

    def started(self) -> None: ...
    def sent(self, attempt: Attempt) -> None: ...
    def ended(self, attempt: Attempt, ending: Ending, detail: str | None) -> None: ...
    def fault(self, error: Exception) -> str:
        """Note a fault of ours; gives the line that names it."""


class Lane:
    """What the attempts of one process share.

    Attributes:
        t0_ns: CLOCK_MONOTONIC of t0.
        epoch_ns: CLOCK_REALTIME of t0 by the latest look at the clocks.
        suspect: a stamp was impossible: the clocks are to be looked at.
    """

    __slots__ = (
        "done",
        "epoch_ns",
        "journal",
        "limits",
        "now_ns",
        "pool",
        "ready",
        "suspect",
        "t0_ns",
        "watchers",
    )

    def __init__(
        self,
        pool: Pool,
        ready: Readiness,
        watchers: dict[int, Watcher],
        now_ns: Callable[[], int],
        done: Callable[[int], None],
        journal: Journal,
        limits: Limits,
        t0_ns: int,
    ) -> None:
        self.pool = pool
        self.ready = ready
        self.watchers = watchers
        self.now_ns = now_ns
        self.done = done
        self.journal = journal
        self.limits = limits
        self.t0_ns = t0_ns
        self.epoch_ns = 0
        self.suspect = False


class Attempt:
    """A request under way.

    Attributes:
        offer: what the schedule says of it.
        reading: what the answer says, so far.
        started_ns: when it was taken up, ns since t0; the other instants too.
        connected_ns: None over a connection that stood already.
        read_ns: when the last bytes arrived; None before any did.
        reused: whether the connection had carried a request before.
        voided: the clocks stepped while it was under way: no stamp is exact.
        findings: oddities of the exchange, by name.
    """

    __slots__ = (
        "_connection",
        "_established",
        "_idled",
        "_lane",
        "_last_ns",
        "_over",
        "_request",
        "_response",
        "_send_error",
        "_start_ns",
        "_watched_write",
        "connected_ns",
        "local_port",
        "offer",
        "read_ns",
        "reading",
        "reused",
        "sent_ns",
        "stamped",
        "voided",
    )

    def __init__(
        self, offer: Offer, request: bytes, reading: Reading, lane: Lane
    ) -> None:
        self.offer = offer
        self.reading = reading
        self.connected_ns: int | None = None
        self.sent_ns: int | None = None
        self.read_ns: int | None = None
        self.reused: bool | None = None
        self.local_port: int | None = None
        self.stamped = False
        self.voided = False
        self._lane = lane
        self._response = Response(reading)
        self._request = request
        self._connection: Connection | None = None
        self._established = False
        self._idled = False
        self._over = False
        self._send_error: OSError | TlsError | None = None
        self._watched_write: bool | None = None
        self._start_ns = self._last_ns = 0

    @property
    def started_ns(self) -> int:
        return self._start_ns - self._lane.t0_ns

    def end_ns(self, ending: Ending) -> int:
        """When it ended, ns since t0: a whole answer with its last bytes' arrival."""
        if ending is Ending.COMPLETE and self.read_ns is not None:
            return self.read_ns
        return self._lane.now_ns() - self._lane.t0_ns

    @property
    def findings(self) -> list[str]:
        return self._response.findings

    # What the loop asks for.

    def start(self, now_ns: int) -> None:
        """Take a connection and send, as far as that goes at once."""
        self._start_ns = self._last_ns = now_ns
        lane = self._lane
        lane.journal.started()
        try:
            connection = lane.pool.take(now_ns)
            if connection is None:
                self._connection = connection = lane.pool.open()
                self.reused = False
            else:
                self._connection = connection
                self._established = self._idled = True
                self._watched_write = False
                self.reused = connection.uses > 0
                self.local_port = connection.local_port
                lane.watchers[connection.fd] = self
            self.stamped = connection.stamped
            self._advance(connection)
        except (OSError, TlsError) as error:
            self._failed(error)

    def discard(self) -> None:
        self._response.release()

    def ready(self, mask: int) -> None:
        """The socket can go on."""
        connection = self._connection
        assert connection is not None
        try:
            if self.sent_ns is None:
                self._advance(connection)
            elif mask & WRITABLE:  # TLS had something of its own to say
                connection.flush()
                self._watch(connection)
            if mask & ~WRITABLE and self._established and not self._over:
                self._read(connection)
        except (OSError, TlsError) as error:
            self._failed(error)

    def deadline_ns(self) -> int:
        limits = self._lane.limits
        total_ns = self._start_ns + limits.total_ns
        if not self._established:
            return min(total_ns, self._start_ns + limits.connect_ns)
        heard_ns = self._lane.t0_ns + (self.read_ns or 0)
        return min(total_ns, max(self._last_ns, heard_ns) + limits.idle_ns)

    def expire(self, now_ns: int) -> None:
        limits = self._lane.limits
        if now_ns >= self._start_ns + limits.total_ns:
            limit = f"the total limit of {limits.total_ns / NS_PER_S:g} s"
            self._end(Ending.TOTAL, f"{limit} passed")
        elif self._established:
            limit = f"the idle limit of {limits.idle_ns / NS_PER_S:g} s"
            self._end(Ending.IDLE, f"no byte for {limit}")
        else:
            limit = f"the connect limit of {limits.connect_ns / NS_PER_S:g} s"
            self._end(Ending.CONNECT, f"no connection within {limit}")

    def stop(self, ending: Ending, detail: str) -> None:
        self._end(ending, detail)

    def void(self) -> None:
        self.voided = True

    def fault(self, error: Exception) -> None:
        self._end(Ending.INTERNAL, self._lane.journal.fault(error))

    # How it goes on.

    def _advance(self, connection: Connection) -> None:
        """Connect, then send, as far as that goes now."""
        lane = self._lane
        if not self._established:
            if not connection.establish():
                self._watch(connection)
                return
            self._established = True
            self._last_ns = now_ns = lane.now_ns()
            self.connected_ns = now_ns - lane.t0_ns
            self.local_port = connection.local_port
        try:
            now_ns = lane.now_ns()
            if self._request:
                request, self._request = self._request, b""
                connection.uses += 1
                whole = connection.send(request)
            else:
                whole = connection.flush()
        except (OSError, TlsError) as error:
            self._last_words(connection, error)
            return
        self._last_ns = now_ns
        if whole:
            self.sent_ns = now_ns - lane.t0_ns
            lane.journal.sent(self)
        self._watch(connection)

    def _watch(self, connection: Connection) -> None:
        """Be told of what the connection waits for, and of no more."""
        write, lane = connection.wants_write, self._lane
        if self._watched_write is None:
            lane.ready.watch(connection.fd, write=write)
            lane.watchers[connection.fd] = self
        elif write is not self._watched_write:
            lane.ready.change(connection.fd, write=write)
        self._watched_write = write

    def _read(self, connection: Connection) -> bool:
        """Read once; False when there was nothing to read."""
        received = connection.receive()
        if received is None:
            return False
        data, stamp_ns, alone = received
        lane = self._lane
        at_ns = lane.now_ns() - lane.t0_ns
        if not data:
            self._end(self._response.eof())
            return False
        if stamp_ns is not None:
            stamped_ns = stamp_ns - lane.epoch_ns
            if stamped_ns <= at_ns:
                at_ns = stamped_ns
            else:  # from the future: somebody moved the clock
                lane.suspect, alone = True, False
        elif self.stamped:
            alone = False  # a stamp that is missing: known only to be no later
        read_ns = self.read_ns
        if read_ns is not None and at_ns < read_ns:
            at_ns = read_ns
        self.read_ns = at_ns
        ending = self._response.feed(data, at_ns, alone)
        if ending is not None:
            self._end(ending)
        elif self.reading.broken:
            self._end(Ending.PROTOCOL, "the answer is beyond a limit of ours")
        elif connection.ended:
            self._end(self._response.eof())
        return True

    def _failed(self, error: OSError | TlsError) -> None:
        answered = self._response.started
        self._end(*ending_of(error, established=self._established, answered=answered))

    def _last_words(self, connection: Connection, error: OSError | TlsError) -> None:
        """Sending failed; a refusal may have come first and lie there unread."""
        self._send_error = error
        while not self._over and self._read(connection):
            pass
        if not self._over:
            self._failed(error)

    def _end(self, ending: Ending, detail: str | None = None) -> None:
        if self._over:
            return
        self._over = True
        if ending is Ending.EOF and self._send_error is not None:
            ending, detail = ending_of(self._send_error, established=True)
        self._send_error = None  # its traceback holds this object
        lane, response = self._lane, self._response
        closed = ending in (Ending.RESET, Ending.EOF)
        if closed and self._idled and not response.started:
            response.findings.append(STALE_CONNECTION)
            detail = f"{detail or 'closed'}, on a kept connection before any byte"
        try:
            self._leave(ending)
        except Exception as error:  # noqa: BLE001 - the record comes all the same
            lane.journal.fault(error)
        try:
            lane.journal.ended(self, ending, detail or response.detail)
        finally:
            response.release()
            lane.done(self.offer.place)

    def _leave(self, ending: Ending) -> None:
        """Give the connection back, or close it."""
        lane, connection, self._connection = self._lane, self._connection, None
        if connection is None:
            return
        lane.watchers.pop(connection.fd, None)
        kept = (
            ending is Ending.COMPLETE
            and self.sent_ns is not None
            and lane.pool.give(connection, self._response, lane.now_ns())
        )
        if not kept:
            if self._watched_write is not None:
                lane.ready.forget(connection.fd)
            connection.close()
