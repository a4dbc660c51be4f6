"""vLLM's own source, read and never imported."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from loadgen.doctor.check import Check
from loadgen.doctor.source.judge import source_checks
from loadgen.doctor.source.scan import Found, scan
from loadgen.doctor.source.tree import read_tree
from loadgen.telemetry.vocabulary import Vocabulary

__all__ = ["look_at_source"]


def look_at_source(
    path: Path, vocabulary: Vocabulary, asked: Sequence[str] = ()
) -> list[Check]:
    """Read a vLLM's source and say what it means for overload.

    Raises:
        UsageError: there is none at the path, or it cannot be read.
    """
    tree = read_tree(path)
    found = Found()
    for name, content in sorted(tree.files.items()):
        found.add(scan(name, content))
    return source_checks(tree, found, vocabulary, asked)
