"""Several runs as a page."""

from __future__ import annotations

from loadgen.report.html.blocks import Page, Remarks, Section, TableBlock
from loadgen.report.model import Remark
from loadgen.report.several import SeveralModel

__all__ = ["several_page"]


def several_page(several: SeveralModel, version: str) -> Page:
    """One table; each run has a page of its own where it is asked for."""
    sections = [Section("Side by side", (TableBlock(several.table),))]
    if several.troubles:
        remarks = tuple(Remark(trouble) for trouble in several.troubles)
        sections.append(Section("Not readable", (Remarks(remarks),)))
    verdict = "VALID, all of them" if several.all_valid else "NOT ALL VALID, see below"
    return Page(
        kind="Load tests side by side",
        title=several.title,
        basis_tag=several.tag,
        verdict=verdict,
        state="good" if several.all_valid else "bad",
        headline="Each line is one run, judged anew from its records.",
        numbers=(),
        sections=tuple(sections),
        foot=f"loadgen {version}; this page needs no network",
    )
