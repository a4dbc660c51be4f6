"""Cut a byte stream into events. No I/O: bytes in, events out, in any split.

SSE by the WHATWG rules, widened by what inference servers really send; NDJSON
as Ollama sends it. Feeding the same bytes in other pieces gives the same events.
"""

from __future__ import annotations

import msgspec

__all__ = ["Event", "FramingError", "NdjsonFramer", "SseFramer"]

MAX_EVENT_BYTES = 16 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"
# Charged to an event for each of its lines, so that a flood of empty lines
# cannot take more memory than the cap says.
_LINE_COST_BYTES = 64


class FramingError(Exception):
    """One event is larger than the cap; what follows it is not worth reading."""


class Event(msgspec.Struct, frozen=True, gc=False):
    """One complete event.

    Attributes:
        kind: the event's type; empty when it named none. ``b"error"`` too for
            a field named ``error``, which llama.cpp writes in place of ``data``.
        data: its payload, lines joined by LF.
    """

    kind: bytes
    data: bytes


class SseFramer:
    """Cut a ``text/event-stream`` into events.

    Beyond the standard: a line that is bare JSON is an event's data, a field
    named ``error`` is an error's, and ``flush`` gives the last event although
    its blank line never came.

    Attributes:
        pending: bytes of an unfinished event are held.
        comments: comment lines seen.
        ignored: lines that are no field of the format.
    """

    __slots__ = (
        "_after_cr",
        "_first",
        "_kind",
        "_lines",
        "_max_bytes",
        "_partial",
        "_size",
        "comments",
        "ignored",
        "pending",
    )

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self.pending = False
        self.comments = 0
        self.ignored = 0
        self._partial = bytearray()
        self._lines: list[bytes] = []
        self._kind = b""
        self._size = 0
        self._after_cr = False
        self._first = True
        self._max_bytes = max_event_bytes

    @property
    def held(self) -> int:
        """Bytes held of an unfinished event."""
        return self._size + len(self._partial)

    def feed(self, data: bytes) -> list[Event]:
        """Take the next bytes; give the events they complete.

        Raises:
            FramingError: the event being read is beyond the cap.
        """
        # What servers send nearly always: one event, one line, one read.
        last = len(data) - 2
        if (
            not self.pending
            and 13 not in data
            and data.find(b"\n") == last
            and data[-1] == 10
            and data[:6] == b"data: "
            and last + _LINE_COST_BYTES - 6 <= self._max_bytes
        ):
            self._first = self._after_cr = False
            return [Event(b"", data[6:-2])]
        return self._feed(data)

    def flush(self) -> list[Event]:
        """The stream has ended: give the event that lacks its last line ends.

        Raises:
            FramingError: it is beyond the cap.
        """
        events: list[Event] = []
        if self._partial:
            line = bytes(self._partial)
            self._partial.clear()
            self._line(line, events)
        self._dispatch(events)
        self.pending = False
        return events

    def drop(self) -> None:
        """Forget the unfinished event."""
        self._partial.clear()
        self._lines.clear()
        self._size = 0
        self._kind = b""
        self.pending = False

    def _feed(self, data: bytes) -> list[Event]:
        if self._after_cr and data:
            # A CR ended its line at once; the LF of a CRLF cut in two is no line.
            self._after_cr = False
            if data.startswith(b"\n"):
                data = data[1:]
        if not data:
            return []
        if b"\r" in data:
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        events: list[Event] = []
        lines = data.split(b"\n")
        rest = lines.pop()
        if lines and self._partial:
            self._partial += lines[0]
            lines[0] = bytes(self._partial)
            self._partial.clear()
        for line in lines:
            if line:
                self._line(line, events)
            else:
                self._dispatch(events)
        self._partial += rest
        self._check(len(self._partial))
        self.pending = bool(self._partial or self._lines or self._kind)
        return events

    def _line(self, line: bytes, events: list[Event]) -> None:
        self._check(len(line))
        if self._first:
            self._first = False
            line = line.removeprefix(_BOM)
            if not line:
                return self._dispatch(events)
        name, colon, value = line.partition(b":")
        if value.startswith(b" "):
            value = value[1:]
        if name == b"data":
            self._add(value)
        elif not name and colon:
            self.comments += 1
        elif name == b"event":
            self._kind = value
        elif name == b"error":
            self._kind = b"error"
            self._add(value)
        elif line.startswith(b"{"):
            self._add(line)
        elif name not in (b"id", b"retry"):
            self.ignored += 1
        return None

    def _add(self, value: bytes) -> None:
        self._lines.append(value)
        self._size += len(value) + _LINE_COST_BYTES
        self._check(0)

    def _check(self, more: int) -> None:
        if self._size + more > self._max_bytes:
            self.drop()
            raise FramingError(f"an event of more than {self._max_bytes} bytes")

    def _dispatch(self, events: list[Event]) -> None:
        self._first = False
        # An error is an error even if its event came without data.
        if self._lines or self._kind == b"error":
            data = self._lines[0] if len(self._lines) == 1 else b"\n".join(self._lines)
            events.append(Event(self._kind, data))
            self._lines.clear()
            self._size = 0
        self._kind = b""


class NdjsonFramer:
    """Cut newline-delimited JSON into events, one a line.

    Attributes:
        pending: bytes of an unfinished line are held.
        comments: always 0; the format has none.
        ignored: always 0; each line is an event.
    """

    __slots__ = ("_first", "_max_bytes", "_partial", "comments", "ignored", "pending")

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self.pending = False
        self.comments = 0
        self.ignored = 0
        self._partial = bytearray()
        self._first = True
        self._max_bytes = max_event_bytes

    @property
    def held(self) -> int:
        """Bytes held of an unfinished line."""
        return len(self._partial)

    def feed(self, data: bytes) -> list[Event]:
        """Take the next bytes; give the events they complete.

        Raises:
            FramingError: the line being read is beyond the cap.
        """
        lines = data.split(b"\n")
        rest = lines.pop()
        if lines and self._partial:
            self._partial += lines[0]
            lines[0] = bytes(self._partial)
            self._partial.clear()
        events: list[Event] = []
        for line in lines:
            self._line(line, events)
        self._partial += rest
        if len(self._partial) > self._max_bytes:
            self.drop()
            raise FramingError(f"a line of more than {self._max_bytes} bytes")
        self.pending = bool(self._partial)
        return events

    def drop(self) -> None:
        """Forget the unfinished line."""
        self._partial.clear()
        self.pending = False

    def flush(self) -> list[Event]:
        """The stream has ended: give the last line though its LF never came."""
        events: list[Event] = []
        self._line(bytes(self._partial), events)
        self._partial.clear()
        self.pending = False
        return events

    def _line(self, line: bytes, events: list[Event]) -> None:
        if len(line) > self._max_bytes:
            raise FramingError(f"a line of more than {self._max_bytes} bytes")
        if self._first:
            line = line.removeprefix(_BOM)
        line = line.strip()
        if line:
            self._first = False
            events.append(Event(b"", line))
