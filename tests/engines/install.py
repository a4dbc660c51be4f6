"""Install real engines and proxies into a cache folder outside the tree.

    python -m tests.engines.install [llamacpp|proxies|vllm|all]

The folder is ``LOADGEN_ENGINES_HOME``, by default ``~/.cache/loadgen-engines``.
Each install is keyed by the content of its recipe (``recipes/<engine>/``), so a
changed recipe is a new install and an unchanged one costs nothing. Only a folder
with its ``installed.json`` counts; a half-made one is made anew. A failure leaves
``<engine>-<key>.failed.json``, from which the tests take their reason to skip.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

__all__ = ["ENGINES", "NotInstalledError", "install", "installed"]

RECIPES = Path(__file__).parent / "recipes"
# What each install takes on disk, with room to unpack.
ENGINES = {"llamacpp": 1.5, "proxies": 0.6, "vllm": 4.0}
TIME_LIMIT_S = 1200
GB = 1e9


class NotInstalledError(Exception):
    """An engine that is not there.

    Args:
        reason: one of a few fixed words, for programs.
        why: one line for people.
    """

    def __init__(self, reason: str, why: str) -> None:
        super().__init__(f"{reason}: {why}")
        self.reason = reason
        self.why = why


def home() -> Path:
    """The cache folder that holds every install."""
    configured = os.environ.get("LOADGEN_ENGINES_HOME")
    return Path(configured or Path.home() / ".cache" / "loadgen-engines")


def target(engine: str) -> Path:
    """Where this recipe of the engine is, or would be, installed."""
    digest = hashlib.sha256(platform.machine().encode())
    for path in sorted(RECIPES.joinpath(engine).iterdir()):
        if path.is_file():
            digest.update(f"\0{path.name}\0".encode() + path.read_bytes())
    return home() / f"{engine}-{digest.hexdigest()[:12]}"


def whole(folder: Path) -> bool:
    """Whether an install ended well and its Python is still on this machine."""
    return all(
        folder.joinpath(p).exists() for p in ("installed.json", "venv/bin/python")
    )


def installed(engine: str) -> Path:
    """The folder of a whole install.

    Raises:
        NotInstalledError: there is none; says why the last attempt failed, if any.
    """
    folder = target(engine)
    if whole(folder):
        return folder
    failure = folder.with_suffix(".failed.json")
    if failure.exists():
        told = json.loads(failure.read_text())
        raise NotInstalledError(told["reason"], told["why"])
    raise NotInstalledError("not-installed", "run: make engines")


def install(engine: str) -> tuple[Path, float]:
    """Install one engine unless it is there already.

    Returns:
        Its folder, and the seconds this took (0.0 when it was there).

    Raises:
        NotInstalledError: with the reason, which is also left for the tests.
    """
    folder = target(engine)
    failure = folder.with_suffix(".failed.json")
    home().mkdir(parents=True, exist_ok=True)
    with alone(engine):
        if whole(folder):
            return folder, 0.0
        failure.unlink(missing_ok=True)
        began = time.monotonic()
        try:
            run_recipe(engine, find_python(), folder)
        except NotInstalledError as error:
            shutil.rmtree(folder, ignore_errors=True)
            told = {"engine": engine, "reason": error.reason, "why": error.why}
            failure.write_text(json.dumps(told) + "\n")
            raise
        took_s = time.monotonic() - began
        marker = {"engine": engine, "seconds": round(took_s, 1)}
        folder.joinpath("installed.json").write_text(json.dumps(marker) + "\n")
        return folder, took_s


@contextmanager
def alone(engine: str) -> Iterator[None]:
    """Hold the engine's lock; the kernel lets go of it whatever becomes of us."""
    with home().joinpath(f"{engine}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{engine}: waiting for another install to end")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def find_python() -> str:
    """A CPython 3.11 on Linux x86-64, for which the recipes' wheels are made."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise NotInstalledError("platform", "the recipes are for Linux on x86-64")
    if platform.python_version_tuple()[:2] == ("3", "11"):
        return sys.executable
    found = shutil.which("python3.11")
    if found is None:
        raise NotInstalledError("no-python-3.11", "the recipes need CPython 3.11")
    return found


def run_recipe(engine: str, python: str, folder: Path) -> None:
    """Run ``install.sh`` into an empty folder; its output goes to a log beside it."""
    free_gb = shutil.disk_usage(home()).free / GB
    if free_gb < ENGINES[engine]:
        raise NotInstalledError(
            "disk-space", f"needs {ENGINES[engine]} GB, {free_gb:.1f} GB are free"
        )
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    log_path = folder.with_suffix(".log")
    recipe = RECIPES / engine / "install.sh"
    environment = os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    argv = ["bash", str(recipe), python, str(folder)]
    with log_path.open("wb") as log:
        try:
            code = run_to_end(argv, environment, log)
        except subprocess.TimeoutExpired:
            raise NotInstalledError(
                "timeout", f"not done in {TIME_LIMIT_S} s, see {log_path}"
            ) from None
    if code != 0:
        why = last_words(log_path.read_text(errors="replace"))
        raise NotInstalledError("recipe-failed", f"{why} (exit {code}, see {log_path})")


def run_to_end(argv: list[str], environment: dict[str, str], log: IO[bytes]) -> int:
    """Run a command; nothing that it started outlives its time limit or ours."""
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        env=environment,
        start_new_session=True,
    )
    try:
        return process.wait(TIME_LIMIT_S)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def last_words(log: str) -> str:
    """The line of a failed recipe's log that says most, without addresses."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if line.upper().startswith("ERROR")]
    chosen = (errors or lines or ["no output"])[-1]
    return re.sub(r"\w+://\S+", "(address)", chosen)[:200]


def say(line: str) -> None:
    sys.stderr.write(line + "\n")


def main(arguments: list[str] | None = None) -> int:
    """Install what was asked for; 1 if any of it could not be."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.engines.install", description="Install real engines."
    )
    parser.add_argument("engine", nargs="?", default="all", choices=[*ENGINES, "all"])
    asked: str = parser.parse_args(arguments).engine
    failed = False
    for engine in ENGINES if asked == "all" else [asked]:
        try:
            folder, took_s = install(engine)
            how = f"installed in {took_s:.0f} s" if took_s else "already installed"
            say(f"{engine}: {how}, {folder}")
        except NotInstalledError as error:
            failed = True
            say(f"{engine}: not installed: {error}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
