"""What the folders are that a report was asked of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from loadgen.cli.variants import FLAGS_NAME, VARIANTS_NAME
from loadgen.control.journal import FILE_NAME as SWEEP_NAME
from loadgen.errors import UsageError
from loadgen.store import RunDir

__all__ = ["Kind", "Subject", "find_subjects"]


class Kind(StrEnum):
    """What a folder holds; the value is how several are called."""

    RUN = "runs"
    SWEEP = "sweeps"
    VARIANTS = "sweeps of variants"


@dataclass(frozen=True, slots=True)
class Subject:
    """One folder to report on."""

    kind: Kind
    path: Path


def find_subjects(paths: Iterable[Path], note: Callable[[str], None]) -> list[Subject]:
    """Each folder as what it is; one that only holds others stands for its runs.

    Args:
        paths: as they were named.
        note: told of what is in a folder and not shown.

    Raises:
        RunDirError: a path holds nothing of ours.
        UsageError: they are of different kinds, so no one report can show them.
    """
    found: list[Subject] = []
    for path in paths:
        found += _inside(path, note)
    kinds = dict.fromkeys(subject.kind for subject in found)
    if len(kinds) > 1:
        raise UsageError(
            f"{' and '.join(kinds)} cannot be shown in one report",
            "name folders of one kind",
        )
    return found


def _inside(path: Path, note: Callable[[str], None]) -> list[Subject]:
    kind = _kind(path)
    if kind is not None:
        return [Subject(kind, path)]
    inner = sorted(path.iterdir()) if path.is_dir() else []
    found = [Subject(kind, p) for p in inner if (kind := _kind(p)) is not None]
    if not found:
        RunDir.open(path)  # says what is wrong with it
    shown = [one for one in found if one.kind is Kind.RUN] or found
    for kind in dict.fromkeys(one.kind for one in found if one not in shown):
        names = ", ".join(one.path.name for one in found if one.kind is kind)
        note(f"{path} holds {kind} too, not shown here: {names}")
    return shown


def _kind(path: Path) -> Kind | None:
    if (path / VARIANTS_NAME).is_file() or (path / FLAGS_NAME).is_file():
        return Kind.VARIANTS
    if (path / SWEEP_NAME).is_file():
        return Kind.SWEEP
    return Kind.RUN if (path / "manifest.json").is_file() else None
