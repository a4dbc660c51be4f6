"""Waiting: for sockets to be ready, and never past an instant.

The loop knows only ``Readiness``. On Linux it is epoll beside a timerfd, which
wakes within tens of µs of an absolute time; elsewhere ``select.poll``, which
counts whole ms and looks without sleeping during the last one.
"""

from __future__ import annotations

import ctypes
import os
import select
import sys
from collections.abc import Callable
from typing import Protocol

from loadgen.units import NS_PER_MS, NS_PER_S

__all__ = ["WRITABLE", "EpollReadiness", "PollReadiness", "Readiness", "readiness"]

WRITABLE = 4
"""The bit of a mask that says so: POLLOUT, the same for poll and epoll."""

_IN, _OUT = 1, WRITABLE
_BATCH = 256
_CLOCK_MONOTONIC = 1
_TFD_CLOEXEC, _TFD_NONBLOCK, _TFD_ABSTIME = 0o2000000, 0o4000, 1


class Readiness(Protocol):
    """Which file descriptors can go on."""

    def watch(self, fd: int, *, write: bool) -> None:
        """Begin to watch ``fd`` for reading, and for writing if asked."""

    def change(self, fd: int, *, write: bool) -> None:
        """Watch for writing too, or no more."""

    def forget(self, fd: int) -> None:
        """Watch it no more; call it before closing."""

    def wait(self, until_ns: int) -> list[tuple[int, int]]:
        """Those ready as (fd, mask): at once if any are, else by ``until_ns``.

        ``until_ns`` is CLOCK_MONOTONIC; an instant already past asks for a look.
        The answer may name descriptors that nobody asked to watch: pass over them.
        """

    def close(self) -> None: ...


class _Itimerspec(ctypes.Structure):
    _fields_ = (
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("value_s", ctypes.c_long),
        ("value_ns", ctypes.c_long),
    )


class _Timer:
    """A timerfd on CLOCK_MONOTONIC. Python has it from 3.13 on; we start at 3.11."""

    def __init__(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._settime = libc.timerfd_settime
        self._settime.argtypes = (
            ctypes.c_int,
            ctypes.c_int,
            ctypes.c_void_p,
            ctypes.c_void_p,
        )
        self._spec = _Itimerspec()
        self._spec_at = ctypes.byref(self._spec)
        self.fd: int = libc.timerfd_create(
            _CLOCK_MONOTONIC, _TFD_CLOEXEC | _TFD_NONBLOCK
        )
        if self.fd < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))

    def arm(self, at_ns: int) -> None:
        self._spec.value_s, self._spec.value_ns = divmod(at_ns, NS_PER_S)
        self._settime(self.fd, _TFD_ABSTIME, self._spec_at, None)


class EpollReadiness:
    """epoll, level-triggered, and a timerfd among what it watches."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._epoll = select.epoll()
        self._timer = _Timer()
        self._armed_ns = 0
        self._epoll.register(self._timer.fd, _IN)

    def watch(self, fd: int, *, write: bool) -> None:
        self._epoll.register(fd, _IN | _OUT if write else _IN)

    def change(self, fd: int, *, write: bool) -> None:
        self._epoll.modify(fd, _IN | _OUT if write else _IN)

    def forget(self, fd: int) -> None:
        self._epoll.unregister(fd)

    def wait(self, until_ns: int) -> list[tuple[int, int]]:
        if until_ns <= self._now_ns():
            return self._epoll.poll(0, _BATCH)
        if until_ns != self._armed_ns:  # arming anew also quiets a timer gone off
            self._timer.arm(until_ns)
            self._armed_ns = until_ns
        return self._epoll.poll(-1, _BATCH)

    def close(self) -> None:
        self._epoll.close()
        os.close(self._timer.fd)


class PollReadiness:
    """``select.poll``: everywhere, at the price of a core in the last ms of a wait."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._poll = select.poll()

    def watch(self, fd: int, *, write: bool) -> None:
        self._poll.register(fd, _IN | _OUT if write else _IN)

    def change(self, fd: int, *, write: bool) -> None:
        self._poll.modify(fd, _IN | _OUT if write else _IN)

    def forget(self, fd: int) -> None:
        self._poll.unregister(fd)

    def wait(self, until_ns: int) -> list[tuple[int, int]]:
        return self._poll.poll(max(0, until_ns - self._now_ns()) // NS_PER_MS)

    def close(self) -> None:
        """Nothing is held."""


def readiness(now_ns: Callable[[], int]) -> Readiness:
    """The best this platform has."""
    if sys.platform == "linux":
        try:
            return EpollReadiness(now_ns)
        except (OSError, AttributeError):  # no timerfd in this libc or sandbox
            pass
    return PollReadiness(now_ns)
