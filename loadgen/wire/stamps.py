"""When bytes arrived: the kernel's receive stamps, on the run's own clock.

The kernel stamps segments on CLOCK_REALTIME; everything else here counts
CLOCK_MONOTONIC. ``KernelClock`` keeps the offset between the two and notices
when somebody steps the wall clock in the middle of a run.
"""

from __future__ import annotations

import socket
import struct
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

__all__ = [
    "ANCILLARY_BYTES",
    "STEP_NS",
    "Bracket",
    "ClockStep",
    "KernelClock",
    "ask_for_stamps",
    "bracket",
    "read_ancillary",
    "stamping_warm",
]

# Linux's own numbers; Python's socket module does not name them.
_SO_TIMESTAMPNS = 35
_TCP_INQ = 36

_TIMESPEC = struct.Struct("qq")
_NOTHING_QUEUED = struct.pack("i", 0)
ANCILLARY_BYTES = (
    socket.CMSG_SPACE(_TIMESPEC.size) + socket.CMSG_SPACE(len(_NOTHING_QUEUED))
    if hasattr(socket, "CMSG_SPACE")
    else 0
)

_TRIAL_S = 0.25

STEP_NS = 20_000
"""A change of the clock offset between two looks that voids what lies between."""


def ask_for_stamps(sock: socket.socket) -> bool:
    """Ask the kernel to stamp what ``sock`` receives and to tell what is queued.

    Returns:
        False where this platform has no such stamps; the socket then works as
        before and arrival is when user space looks.
    """
    if sys.platform != "linux" or struct.calcsize("l") != _TIMESPEC.size // 2:
        return False
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        sock.setsockopt(socket.IPPROTO_TCP, _TCP_INQ, 1)
    except OSError:
        return False
    return True


def stamping_warm() -> socket.socket | None:
    """Try stamps over loopback until they come; a socket that keeps them coming.

    The kernel switches stamping on a moment after the first socket asks and off
    with the last one; while this one lives, no read of a run lacks its stamp.

    Returns:
        None where no stamp comes: not this platform, or a sandbox that takes the
        request for them and forgets it.
    """
    try:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            keeper = socket.create_connection(listener.getsockname(), _TRIAL_S)
            peer, _ = listener.accept()
    except OSError:
        return None
    with peer:
        if ask_for_stamps(keeper) and _stamps_come(keeper, peer):
            return keeper
    keeper.close()
    return None


def _stamps_come(keeper: socket.socket, peer: socket.socket) -> bool:
    until_ns = time.monotonic_ns() + int(_TRIAL_S * 1e9)
    try:
        while time.monotonic_ns() < until_ns:
            peer.send(b"x")
            _, ancillary, _, _ = keeper.recvmsg(64, ANCILLARY_BYTES)
            if read_ancillary(ancillary)[0] is not None:
                return True
            time.sleep(0.0005)
    except OSError:
        pass
    return False


def read_ancillary(
    ancillary: list[tuple[int, int, bytes]],
) -> tuple[int | None, bool]:
    """What came beside the bytes of one ``recvmsg``.

    Returns:
        The CLOCK_REALTIME ns of the last segment read (None: not stamped), and
        whether the kernel said that no byte is queued behind it.
    """
    stamp_ns, alone = None, False
    for _, kind, payload in ancillary:
        if kind == _SO_TIMESTAMPNS:
            seconds, rest_ns = _TIMESPEC.unpack(payload)
            stamp_ns = seconds * 1_000_000_000 + rest_ns
        elif kind == _TCP_INQ:
            alone = payload == _NOTHING_QUEUED
    return stamp_ns, alone


class Bracket(NamedTuple):
    """One look at both clocks at once.

    Attributes:
        offset_ns: CLOCK_REALTIME minus CLOCK_MONOTONIC.
        width_ns: how far apart the two monotonic readings around it were.
        at_ns: CLOCK_MONOTONIC of the look.
    """

    offset_ns: int
    width_ns: int
    at_ns: int


class ClockStep(NamedTuple):
    """The wall clock moved against the monotonic one.

    Attributes:
        found_ns: CLOCK_MONOTONIC when it was noticed.
        clean_ns: the last instant at which the offset was known to be right.
        step_ns: by how much the offset changed.
    """

    found_ns: int
    clean_ns: int
    step_ns: int


def bracket(
    monotonic_ns: Callable[[], int], realtime_ns: Callable[[], int], *, tries: int = 30
) -> Bracket:
    """Read REALTIME between two readings of MONOTONIC; keep the narrowest of many."""
    best: Bracket | None = None
    for _ in range(tries):
        before = monotonic_ns()
        real = realtime_ns()
        after = monotonic_ns()
        if best is None or after - before < best.width_ns:
            best = Bracket(real - (before + after) // 2, after - before, after)
    assert best is not None, "at least one try"
    return best


class KernelClock:
    """The offset that turns the kernel's stamps into CLOCK_MONOTONIC.

    Args:
        monotonic_ns: reads CLOCK_MONOTONIC.
        realtime_ns: reads CLOCK_REALTIME.
    """

    def __init__(
        self, monotonic_ns: Callable[[], int], realtime_ns: Callable[[], int]
    ) -> None:
        self._monotonic_ns = monotonic_ns
        self._realtime_ns = realtime_ns
        self.first = self.last = bracket(monotonic_ns, realtime_ns)
        self.offset_ns = self.last.offset_ns
        self.widest_ns = self.last.width_ns
        self.looks = 1
        self.steps: list[ClockStep] = []

    def agrees(self) -> bool:
        """One cheap look: False when the offset may have moved by a step."""
        before = self._monotonic_ns()
        real = self._realtime_ns()
        after = self._monotonic_ns()
        off_ns = abs(real - (before + after) // 2 - self.offset_ns)
        return off_ns <= STEP_NS + (after - before)

    def look(self) -> ClockStep | None:
        """Bracket anew and use that offset from now on; a step if there was one."""
        new = bracket(self._monotonic_ns, self._realtime_ns)
        step_ns = new.offset_ns - self.offset_ns
        clean_ns = self.last.at_ns
        self.last, self.offset_ns = new, new.offset_ns
        self.widest_ns = max(self.widest_ns, new.width_ns)
        self.looks += 1
        if abs(step_ns) <= STEP_NS + new.width_ns:
            return None
        step = ClockStep(new.at_ns, clean_ns, step_ns)
        self.steps.append(step)
        return step
