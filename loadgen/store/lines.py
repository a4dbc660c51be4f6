"""Reading lines that a killed process may have left torn."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from loadgen.model import Outcome
from loadgen.store.files import io_errors

__all__ = ["UNREADABLE", "Index", "LineStream", "note"]

T = TypeVar("T")
MAX_FLAWS = 20
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding bytes that anybody may have edited can raise."""
_READ_BYTES = 1 << 20


class LineStream(Generic[T]):
    """The objects of a JSON-lines file, one at a time, in the file's order.

    A line that cannot be read is left out and told in ``flaws`` once the
    iteration has passed it: a last line without its end was cut by a crash,
    any other damage means that the file was edited.
    """

    def __init__(self, path: Path, as_type: type[T]) -> None:
        self._path = path
        self._decode = msgspec.json.Decoder(as_type).decode
        self.flaws: list[str] = []

    def __iter__(self) -> Iterator[T]:
        """Read the file from its start; a missing file has no lines."""
        self.flaws.clear()
        if not self._path.exists():
            return
        with (
            io_errors("read", self._path),
            self._path.open("rb", buffering=_READ_BYTES) as file,
        ):
            for number, line in enumerate(file, 1):
                try:
                    item = self._decode(line)
                except UNREADABLE as error:
                    note(self.flaws, _flaw(self._path, number, line, error))
                    continue
                yield item


def note(flaws: list[str], words: str) -> None:
    """Add words to a list that a ruined file cannot make endless."""
    if len(flaws) < MAX_FLAWS:
        flaws.append(words)
    elif len(flaws) == MAX_FLAWS:
        flaws.append("more of the kind, not listed")


def _flaw(path: Path, number: int, line: bytes, error: Exception) -> str:
    if not line.endswith(b"\n"):
        return f"{path.name}: the last line ({number}) is torn and was left out"
    return f"{path.name}: line {number} is damaged and was left out ({error})"


class _Head(msgspec.Struct):
    """As much of a record as it takes to put it in its place."""

    seq: int
    outcome: Outcome


class Index:
    """Where each offered request's line lies: 15 bytes a request.

    Args:
        paths: the files the lines are in, in order of trust: where two lines
            have one ``seq``, the first one stands.
        offered: number of requests offered; ``seq`` runs from 0.
    """

    def __init__(self, paths: Sequence[Path], offered: int) -> None:
        self._paths = paths
        self._offset = array("q", bytes(8 * offered))
        self._length = array("i", bytes(4 * offered))  # 0: no line
        self._file = array("H", bytes(2 * offered))
        self._is_ok = bytearray(offered)
        self.found = 0
        self.flaws: list[str] = []
        for number, path in enumerate(paths):
            with io_errors("read", path):
                self._scan(number, path)

    def _scan(self, file_number: int, path: Path) -> None:
        decode = msgspec.json.Decoder(_Head).decode
        offset = 0
        with path.open("rb", buffering=_READ_BYTES) as file:
            for number, line in enumerate(file, 1):
                try:
                    head = decode(line)
                except UNREADABLE as error:
                    note(self.flaws, _flaw(path, number, line, error))
                else:
                    self._place(head, file_number, offset, len(line))
                offset += len(line)

    def _place(self, head: _Head, file: int, offset: int, length: int) -> None:
        seq = head.seq
        name = self._paths[file].name
        if not 0 <= seq < len(self._length):
            note(self.flaws, f"{name}: seq {seq} was never offered; left out")
        elif self._length[seq]:
            note(self.flaws, f"{name}: a second record of seq {seq}; left out")
        else:
            self._offset[seq], self._length[seq] = offset, length
            self._file[seq], self._is_ok[seq] = file, head.outcome is Outcome.OK
            self.found += 1

    def __len__(self) -> int:
        return len(self._length)

    def lines(self) -> Iterator[tuple[int, bytes | None, bool]]:
        """Per offered ``seq``, in order: the line without its end, and is it ok.

        The line is None where no record was written.
        """
        with ExitStack() as stack:
            files = [
                stack.enter_context(path.open("rb", buffering=0)).fileno()
                for path in self._paths
            ]
            for seq, length in enumerate(self._length):
                if not length:
                    yield seq, None, False
                    continue
                line = os.pread(files[self._file[seq]], length, self._offset[seq])
                yield seq, line.rstrip(b"\n"), bool(self._is_ok[seq])
