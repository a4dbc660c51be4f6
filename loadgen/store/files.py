"""Whole files written so that a crash leaves the old one or the new one."""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from loadgen.errors import RunDirError

__all__ = ["atomic_file", "clean_name", "io_errors", "sha256_of"]

MAX_NAME_CHARS = 80
_CHUNK_BYTES = 1 << 20
_UNSAFE = re.compile(r"[^A-Za-z0-9._]+")
_REMEDY = {
    errno.ENOSPC: "free some space; what was written is kept",
    errno.EDQUOT: "the quota is used up; what was written is kept",
    errno.EACCES: "choose another folder with --out, or change its permissions",
    errno.EPERM: "choose another folder with --out, or change its permissions",
    errno.EROFS: "the file system is read-only: choose another folder with --out",
}


def clean_name(name: str) -> str:
    """A run's name as a safe part of a folder name; ``run`` when nothing is left."""
    cleaned = _UNSAFE.sub("-", name).strip("-.")[:MAX_NAME_CHARS].rstrip("-.")
    return cleaned or "run"


@contextmanager
def io_errors(doing: str, path: Path) -> Iterator[None]:
    """Say an operating system's refusal in one line.

    Raises:
        RunDirError: in place of any OSError, naming the path and the cause.
    """
    try:
        yield
    except OSError as error:
        cause = error.strerror or str(error)
        remedy = _REMEDY.get(error.errno or 0, "")
        raise RunDirError(f"cannot {doing} {path}: {cause}", remedy) from error


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """A file that takes its name only when it is whole and on the disk.

    Whatever goes wrong inside, the old file stays and the new one is removed. A
    device or a pipe is written to as it is, and never put aside.

    Raises:
        RunDirError: the folder cannot be written or the disk is full.
    """
    if path.exists() and not path.is_file():
        with io_errors("write", path), path.open("wb") as out:
            yield out
        return
    partial = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with io_errors("write", path):
        try:
            with partial.open("wb", buffering=_CHUNK_BYTES) as out:
                yield out
                out.flush()
                os.fsync(out.fileno())
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make a rename last through a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256_of(path: Path, *, until: Callable[[BinaryIO], int] | None = None) -> str:
    """``sha256:<hex>`` of a file, or of its first ``until(file)`` bytes."""
    digest = hashlib.sha256()
    with io_errors("read", path), path.open("rb", buffering=0) as file:
        left = until(file) if until else file.seek(0, os.SEEK_END)
        file.seek(0)
        while left > 0 and (chunk := file.read(min(left, _CHUNK_BYTES))):
            digest.update(chunk)
            left -= len(chunk)
    return f"sha256:{digest.hexdigest()}"
