"""What the issuing process is told while it runs: lines, signals, and silence."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable

__all__ = ["Control", "LineReader", "lines_by_signal", "wait_for_go"]


class LineReader:
    """Lines from a descriptor, read only when there is something to read."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._held = b""
        self.ended = False

    def read(self) -> list[bytes]:
        """Read once (it blocks if nothing is there); the lines that are whole now."""
        data = os.read(self.fd, 65_536)
        self.ended = not data
        *lines, self._held = (self._held + data).split(b"\n")
        return lines

    def wait_line(self) -> bytes | None:
        """The first line, however long it takes; None at the end of input.

        What came behind it must wait for its turn: the parent sends one line and
        then listens.
        """
        while not self.ended:
            if lines := self.read():
                return lines[0]
        return None


def lines_by_signal(*numbers: int) -> int:
    """Turn signals into control lines on a pipe; gives the end to read.

    The first says ``drain``, any further one ``cut``.
    """
    read_end, write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    lines = iter((b"drain\n",))

    def tell(number: int, frame: object) -> None:
        os.write(write_end, next(lines, b"cut\n"))

    for number in numbers:
        signal.signal(number, tell)
    return read_end


class Control:
    """Watches the control lines during the run.

    Args:
        reader: where they come from.
        drain: stop offering, for this reason.
        cut: end everything now, for this reason.
        gone: called at the end of input, when nothing more will come.
    """

    def __init__(
        self,
        reader: LineReader,
        drain: Callable[[str], None],
        cut: Callable[[str], None],
        gone: Callable[[], None],
    ) -> None:
        self._reader = reader
        self._drain = drain
        self._cut = cut
        self._gone = gone

    def ready(self, mask: int) -> None:
        for line in self._reader.read():
            if line == b"drain":
                self._drain("interrupted")
            elif line == b"cut":
                self._cut("interrupted twice")
        if self._reader.ended:
            self._gone()

    def fault(self, error: Exception) -> None:
        self._drain(f"control lost: {error}")


def wait_for_go(commands: LineReader, signals: LineReader) -> bytes | None:
    """The line that says when to begin; None if told to stop instead."""
    poll = select.poll()
    poll.register(signals.fd, select.POLLIN)
    poll.register(commands.fd, select.POLLIN)
    while True:
        for fd, _ in poll.poll():
            if fd == signals.fd:
                return None
            lines = commands.read()
            if lines:
                return None if lines[0] in (b"drain", b"cut") else lines[0]
            if commands.ended:
                return None
