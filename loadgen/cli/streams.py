"""Standard streams whose other end may be closed, full or gone."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO, cast

__all__ = ["standing_streams"]


class _Outlet:
    """A stream for words: once nobody can read them, they go nowhere.

    Args:
        stream: where they go.
        aside: whether they are no result, so that none of them is worth a failure;
            a result fails where its disk is full, and not where its reader left.
    """

    def __init__(self, stream: TextIO, *, aside: bool) -> None:
        self._stream = stream
        self._aside = aside

    def write(self, text: str) -> int:
        with self._minding():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._minding():
            self._stream.flush()

    @contextlib.contextmanager
    def _minding(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._leave()
            if not self._aside and not isinstance(error, BrokenPipeError):
                raise

    def _leave(self) -> None:
        """Let what is held and what comes go to nowhere, without a word."""
        with contextlib.suppress(OSError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def standing_streams() -> Iterator[None]:
    """Let ``sys.stdout`` and ``sys.stderr`` be writable whatever they are.

    A stream that was closed before we began is opened to nowhere, lest the next
    file or socket take its number and be written to.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    out, aside = sys.stdout, sys.stderr
    sys.stdout = cast(TextIO, _Outlet(out, aside=False))
    sys.stderr = cast(TextIO, _Outlet(aside, aside=True))
    try:
        yield
        sys.stdout.flush()
    finally:
        sys.stderr.flush()
        sys.stdout, sys.stderr = out, aside
