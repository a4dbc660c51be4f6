"""A screen too narrow for its own indents gets lines that run over, and an end."""

from __future__ import annotations

from loadgen.report.layout import paragraph
from loadgen.report.screen import Screen


def test_indents_wider_than_the_screen_end() -> None:
    lines = paragraph("some words", Screen(width=4), indent=" " * 9)
    assert "some" in " ".join(lines)
