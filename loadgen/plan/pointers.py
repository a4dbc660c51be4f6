"""Git LFS pointers: three lines of text that stand where a large file should be."""

from __future__ import annotations

from loadgen.errors import UsageError

__all__ = ["refuse_pointer"]

_MAGIC = b"version https://git-lfs.github.com/spec/"


def refuse_pointer(head: bytes) -> None:
    """Refuse a file whose first bytes (at least 200) are those of a pointer.

    Raises:
        UsageError: it is a pointer; the size of the true file is named.
    """
    if not head.startswith(_MAGIC):
        return
    sizes = [line[5:] for line in head.splitlines() if line.startswith(b"size ")]
    size = sizes[0].decode("ascii", "replace") if sizes else "an unknown number of"
    raise UsageError(
        f"line 1: a git-lfs pointer, not the data ({size} bytes expected)",
        "fetch it with git lfs pull",
    )
