"""Files a person names: read as far as they make sense, whatever they are.

A pipe is as good as a file here (``--api-key-file <(pass llm)``); a device that
never ends is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from loadgen.errors import UsageError

__all__ = ["lines_of", "text_of"]

MAX_LINE_BYTES = 16 << 20


def text_of(path: Path, flag: str, limit_bytes: int) -> str:
    """A file as text, its line ends made plain.

    Args:
        path: the file.
        flag: the one that named it, for the error.
        limit_bytes: more than any file of its kind holds.

    Raises:
        UsageError: it cannot be read, is larger, or is not UTF-8.
    """
    try:
        with path.open("rb") as file:
            data = file.read(limit_bytes + 1)
    except OSError as error:
        raise UsageError(f"{flag} {path}: {error.strerror}") from None
    if len(data) > limit_bytes:
        raise UsageError(f"{flag} {path} is larger than {limit_bytes:,} bytes")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{flag} {path} is not text") from None
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file with their ends, one in memory at a time.

    Raises:
        UsageError: a line longer than 16 MiB.
    """
    number = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            raise UsageError(f"line {number} is longer than {MAX_LINE_BYTES:,} bytes")
        yield line
