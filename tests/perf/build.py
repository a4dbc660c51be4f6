"""Compiles the truth server into the cache, once for each version of its source."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

__all__ = ["Built", "CannotBuildError", "build"]

SOURCE = Path(__file__).with_name("truth_server.c")
_FLAGS = ["-std=c11", "-O2", "-Wall", "-Wextra"]
_TLS = ["-DTRUTH_TLS", "-lssl", "-lcrypto"]


class CannotBuildError(Exception):
    """There is no truth server here, and why."""


class Built(NamedTuple):
    """The server's binary; ``tls`` is why it speaks none, or None where it does."""

    path: Path
    no_tls: str | None


def build() -> Built:
    """The truth server, compiled if it is not yet.

    Raises:
        CannotBuildError: no compiler, or it refuses.
    """
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise CannotBuildError(
            "no C compiler (cc) on PATH: install one, or give --server"
        )
    why: str | None = None
    for tls in (_TLS, []):
        path = _path(compiler, tls)
        if not path.exists():
            said = _compile(compiler, tls, path)
            if said is not None:
                why = said
                continue
        return Built(path, None if tls else f"no OpenSSL to compile with: {why}")
    raise CannotBuildError(f"{compiler} refused {SOURCE.name}: {why}")


def _path(compiler: str, tls: list[str]) -> Path:
    key = hashlib.sha256(SOURCE.read_bytes())
    key.update(" ".join([compiler, *_FLAGS, *tls]).encode())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "loadgen" / "perf" / key.hexdigest()[:16] / "truth_server"


def _compile(compiler: str, tls: list[str], path: Path) -> str | None:
    """None where it went well, else the compiler's first complaint."""
    path.parent.mkdir(parents=True, exist_ok=True)
    made = path.with_suffix(f".{os.getpid()}")
    done = subprocess.run(
        [compiler, *_FLAGS, "-o", str(made), str(SOURCE), *tls],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return next((line for line in done.stderr.splitlines() if "error" in line), "?")
    made.replace(path)  # whole or not at all, should two build at once
    return None
