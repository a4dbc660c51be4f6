"""What goes wrong, as one tree: each error is one line a person can act on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

__all__ = [
    "ExitCode",
    "LoadgenError",
    "RunDirError",
    "TargetError",
    "UsageError",
    "naming",
]


class ExitCode(IntEnum):
    """What the process says when it ends."""

    OK = 0
    GATE_FAILED = 1
    USAGE = 2
    INVALID = 3
    UNREACHABLE = 4
    INTERRUPTED = 130


class LoadgenError(Exception):
    """A failure with a cause a person can mend.

    Args:
        what: what is wrong and where, in one line.
        remedy: what to do about it; empty when nothing helps.
    """

    exit_code = ExitCode.USAGE

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.what}; {self.remedy}" if self.remedy else self.what


class UsageError(LoadgenError):
    """A flag, file or value that cannot be used."""


class TargetError(LoadgenError):
    """The server cannot be reached, or refuses us before the run."""

    exit_code = ExitCode.UNREACHABLE


class RunDirError(LoadgenError):
    """A run directory that cannot be written or read."""


@contextmanager
def naming(where: str) -> Iterator[None]:
    """Put the flag or file at fault in front of a ``UsageError`` from inside."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{where}: {error.what}", error.remedy) from None
