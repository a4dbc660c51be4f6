"""What a person sees of five runs, letter for letter.

After a change that is meant, run with ``LOADGEN_UPDATE_GOLDEN=1`` and read the diff.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from loadgen.report.escape import cells
from loadgen.report.model import ReportModel, build
from loadgen.report.screen import Screen
from loadgen.report.terminal import report_text

HERE = Path(__file__).parent / "reports"
RUNS = ["stand-in-burst", "no-refusals", "all-refused", "invalid", "interrupted"]


def stored(name: str) -> ReportModel:
    return build(
        json.loads((HERE / f"{name}.summary.json").read_text()),
        json.loads((HERE / f"{name}.manifest.json").read_text()),
        f"results/20261130T210000Z-{name}",
    )


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", RUNS)
def test_the_report_is_as_it_was(name: str, width: int) -> None:
    shown = report_text(stored(name), Screen(width=width))
    golden = HERE / f"{name}.{width}.txt"
    if os.environ.get("LOADGEN_UPDATE_GOLDEN"):
        golden.write_text(shown, encoding="utf-8")
    assert shown == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", RUNS)
def test_colour_adds_nothing_but_colour(name: str) -> None:
    import re

    plain = report_text(stored(name), Screen())
    coloured = report_text(stored(name), Screen(colour=True))
    assert "\x1b[" in coloured
    without = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert [line.rstrip() for line in without.splitlines()] == plain.splitlines()


@pytest.mark.parametrize("name", RUNS)
def test_without_utf8_nothing_is_lost_but_letters(name: str) -> None:
    shown = report_text(stored(name), Screen(utf8=False))
    assert shown.isascii()
    commands = {step.command for step in stored(name).steps}
    for line in shown.splitlines():
        assert cells(line) <= 80 or line.strip() in commands


@pytest.mark.parametrize("name", RUNS)
def test_what_no_server_gave_says_so_wherever_numbers_stand(name: str) -> None:
    report = stored(name)
    lines = report_text(report, Screen()).splitlines()
    titles = [table.title for table in report.tables]
    marked = [
        line
        for line in lines
        if line.startswith((*titles, "Verdict", "The engine's", report.title))
    ]
    assert len(marked) >= len(titles) + 2
    if report.tag:
        assert all("[stand-in]" in line for line in marked)
        assert "A stand-in engine answered" in report.headline
    else:
        assert "stand-in" not in "\n".join(lines)
