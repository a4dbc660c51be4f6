"""From what was judged to pages and files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO, TypeVar

from loadgen.control.judging import Judged
from loadgen.errors import UsageError
from loadgen.model import Manifest
from loadgen.report.html.blocks import Page
from loadgen.report.html.render import page_html
from loadgen.report.html.run_page import Pictured, run_page
from loadgen.report.reduce import Reduced, reduce_run
from loadgen.report.tracks import tracks_of
from loadgen.store import RunDir
from loadgen.store.files import atomic_file

__all__ = ["Exports", "page_of", "parse_exports", "reduced_of", "write_page"]

T = TypeVar("T")
Exports = list[tuple[str, Path]]
"""Kind and file of each export that was asked for."""


def reduced_of(judged: Judged, manifest: Manifest) -> Reduced:
    """What can be drawn of a run's requests."""
    terms = judged.terms
    return reduce_run(judged.data, manifest.duration_ns, terms.slo, stream=terms.stream)


def page_of(judged: Judged, run: RunDir, manifest: Manifest, reduced: Reduced) -> Page:
    """The page of one run."""
    seen = tracks_of(judged.timeline)
    pictured = Pictured(
        reduced=reduced,
        tracks=seen.tracks,
        not_measured=seen.not_measured,
    )
    return run_page(judged.summary, manifest, pictured, str(run.path))


def write_page(page: Page, path: Path) -> None:
    """Write a page whole or not at all.

    Raises:
        RunDirError: the file cannot be written.
    """
    with atomic_file(path) as out:
        out.write(page_html(page).encode())


def parse_exports(texts: list[str] | None, kinds: Mapping[str, object]) -> Exports:
    """Read ``--export KIND=FILE``.

    Raises:
        UsageError: no such kind here, or no file.
    """
    found = []
    for text in texts or ():
        kind, equals, file = text.partition("=")
        if kind not in kinds or not equals or not file:
            raise UsageError(
                f"--export {text!r} cannot be written of this",
                f"write KIND=FILE; kinds: {', '.join(kinds)}",
            )
        found.append((kind, Path(file)))
    return found


def write_exports(
    exports: Exports, kinds: Mapping[str, Callable[[T, BinaryIO], None]], subject: T
) -> None:
    """Write each file whole or not at all.

    Raises:
        RunDirError: a file cannot be written.
        UsageError: a package that is not installed is needed.
    """
    for kind, path in exports:
        with atomic_file(path) as out:
            kinds[kind](subject, out)
