"""The Python files of a vLLM, wherever it lies: folder, environment, sdist or wheel."""

from __future__ import annotations

import os
import re
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from loadgen.errors import UsageError

__all__ = ["Tree", "read_tree"]

PACKAGE = "vllm"
MAX_FILE_BYTES = 8 << 20
MAX_TOTAL_BYTES = 2 << 30
_METRICS = re.compile(rb"['\"]vllm:[A-Za-z_]")
_FLAGS = re.compile(rb"--max-num-(?:seqs|queued)")
_FIELDS = re.compile(rb"^[ \t]+max_num_(?:seqs|queued_\w+)\s*:", re.M)
_VERSION_FILES = ("_version.py", "version.py")
_VERSION = re.compile(
    rb"^(?:__version__|version)\b[^\n'\"]*['\"]([^'\"\n]{1,64})", re.M
)
_METADATA = re.compile(rb"^Version: ?([^\r\n]{1,64})", re.M)
_BROKEN = (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError)


@dataclass(slots=True)
class Tree:
    """What was taken from it.

    Attributes:
        version: as its own files say; None where they do not.
        files: path below the root of the source, and content; only files that
            name what is looked for.
        seen: how many Python files of the package there were.
        skipped: files that were too long to read.
    """

    version: str | None = None
    files: dict[str, bytes] = field(default_factory=dict)
    seen: int = 0
    skipped: list[str] = field(default_factory=list)


def read_tree(path: Path) -> Tree:
    """Read vLLM's source from a path a person names.

    Args:
        path: an installed or unpacked package, a folder that holds one (an sdist,
            ``site-packages``, a virtual environment), or an sdist or wheel file.

    Raises:
        UsageError: there is no vLLM, or it cannot be read.
    """
    try:
        if path.is_dir():
            tree = _fold(_in_folder(_package_folder(path)))
        elif path.is_file():
            tree = _fold(_in_archive(path))
        else:
            raise UsageError(f"--vllm {path}: no such file or folder")
    except _BROKEN as error:
        raise UsageError(f"--vllm {path}: broken archive: {error}") from None
    except OSError as error:
        raise UsageError(f"--vllm {path}: {error.strerror or error}") from None
    if not tree.seen:
        raise UsageError(
            f"--vllm {path} holds no vLLM source",
            "give its folder, a site-packages, an sdist or a wheel",
        )
    return tree


def _fold(entries: Iterator[tuple[str, bytes | None]]) -> Tree:
    """Keep what matters of (path, content); content None: too long."""
    tree, metadata = Tree(), None
    for name, content in entries:
        if content is None:
            tree.skipped.append(name)
            continue
        if not name.endswith(".py"):
            match = _METADATA.search(content[:4096])
            metadata = metadata or (match[1] if match else None)
            continue
        tree.seen += 1
        if name in [f"{PACKAGE}/{file}" for file in _VERSION_FILES]:
            match = _VERSION.search(content)
            if match and tree.version is None:
                tree.version = match[1].decode("utf-8", "replace")
        if any(one.search(content) for one in (_METRICS, _FLAGS, _FIELDS)):
            tree.files[name] = content
    if metadata is not None:
        tree.version = tree.version or metadata.decode("utf-8", "replace").strip()
    return tree


def _package_folder(path: Path) -> Path:
    """The folder of the package itself."""
    candidates = [path, path / PACKAGE, *sorted(path.glob(f"*/{PACKAGE}"))]
    candidates += sorted(path.glob(f"lib/python*/site-packages/{PACKAGE}"))
    for folder in candidates:
        if folder.name == PACKAGE and (folder / "__init__.py").is_file():
            return folder
    if path.resolve().name == PACKAGE and (path / "__init__.py").is_file():
        return path.resolve()
    raise UsageError(
        f"--vllm {path} holds no vLLM source",
        "give its folder, a site-packages, an sdist or a wheel",
    )


def _in_folder(package: Path) -> Iterator[tuple[str, bytes | None]]:
    for parent in (
        *sorted(package.parent.glob(f"{PACKAGE}-*.dist-info/METADATA")),
        package.parent / "PKG-INFO",
    ):
        if parent.is_file():
            yield parent.name, parent.read_bytes()[:MAX_FILE_BYTES]
    total = 0
    for folder, names, files in os.walk(package):
        names.sort()
        for file in sorted(files):
            path = Path(folder, file)
            if path.suffix != ".py" or not path.is_file():
                continue
            name = f"{PACKAGE}/{path.relative_to(package).as_posix()}"
            size = path.stat().st_size
            total = _within(total + size)
            yield name, path.read_bytes() if size <= MAX_FILE_BYTES else None


def _in_archive(path: Path) -> Iterator[tuple[str, bytes | None]]:
    if zipfile.is_zipfile(path):
        yield from _in_zip(path)
    elif tarfile.is_tarfile(path):
        yield from _in_tar(path)
    else:
        raise UsageError(f"--vllm {path} is neither a tar nor a zip file")


def _in_zip(path: Path) -> Iterator[tuple[str, bytes | None]]:
    total = 0
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            name = _name(member.filename)
            if name is None:
                continue
            total = _within(total + member.file_size)
            fits = member.file_size <= MAX_FILE_BYTES
            yield name, archive.read(member) if fits else None


def _in_tar(path: Path) -> Iterator[tuple[str, bytes | None]]:
    total = 0
    with tarfile.open(path) as archive:
        for member in archive:
            total = _within(total + member.size)
            name = _name(member.name)
            if name is None or not member.isfile():
                continue
            content = None
            if member.size <= MAX_FILE_BYTES and (file := archive.extractfile(member)):
                content = file.read()
            yield name, content


def _name(member: str) -> str | None:
    """A member's path from the package on; None where it is of no use."""
    parts = PurePosixPath(member).parts
    if len(parts) <= 2 and parts and parts[-1] in ("PKG-INFO", "METADATA"):
        return parts[-1]
    for start in (0, 1):  # a wheel begins with the package, an sdist with its folder
        if parts[start : start + 1] == (PACKAGE,) and member.endswith(".py"):
            return "/".join(parts[start:])
    return None


def _within(total: int) -> int:
    if total > MAX_TOTAL_BYTES:
        raise UsageError(f"--vllm: it unpacks to more than {MAX_TOTAL_BYTES >> 30} GiB")
    return total
