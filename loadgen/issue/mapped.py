"""A large file read in place, from front to back, that does not stay in memory."""

from __future__ import annotations

import mmap
from pathlib import Path

__all__ = ["Mapped"]


class Mapped:
    """A file mapped for reading; what has been passed can be let go of.

    Attributes:
        data: the bytes; they can be read again at any time.

    Raises:
        OSError: it cannot be read.
        ValueError: it is empty.
    """

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self.data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._passed = 0

    def rewind(self) -> None:
        """Let go of everything: reading begins at the front."""
        self._passed = 0
        self.passed(len(self.data))
        self._passed = 0

    def passed(self, at: int) -> None:
        """Nothing before ``at`` is needed soon: its pages need not stay resident."""
        end = at - at % mmap.PAGESIZE
        if end > self._passed and hasattr(self.data, "madvise"):
            self.data.madvise(mmap.MADV_DONTNEED, self._passed, end - self._passed)
            self._passed = end
