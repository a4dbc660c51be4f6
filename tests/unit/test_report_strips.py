"""Pictures made of letters: they fit, add up and need no more than ASCII."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.report.escape import cells
from loadgen.report.model import build
from loadgen.report.screen import Screen
from loadgen.report.strips import Strip, StripRow, set_strip, strips_of
from loadgen.report.terminal import report_text
from tests.report_runs import exported, mixed, reduced


def shown(strip: Strip, screen: Screen) -> list[str]:
    return [line.text for line in set_strip(strip, "", screen)]


def test_a_run_is_drawn_over_time_and_by_wait() -> None:
    run = exported()
    over_time, first_tokens = strips_of(reduced(run), run.summary.goodput.slo)
    lines = shown(over_time, Screen())
    good = next(line for line in lines if "within target" in line)
    assert good.endswith(str(run.summary.goodput.good))
    assert any("at most" in line for line in lines)
    waits = shown(first_tokens, Screen())
    assert sum("|" in line for line in waits) == 2
    assert "target 200 ms" in waits[-1]


def test_a_very_short_run_is_not_drawn() -> None:
    run = exported(mixed(8))
    assert strips_of(reduced(run), run.summary.goodput.slo) == ()


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("utf8", [True, False])
def test_the_report_with_its_pictures_fits(width: int, utf8: bool) -> None:
    run = exported()
    report = build(run.summary, run.manifest, None, reduced(run))
    text = report_text(report, Screen(width=width, utf8=utf8))
    commands = {step.command for step in report.steps}
    assert utf8 or text.isascii()
    for line in text.splitlines():
        assert cells(line) <= width or line.strip() in commands


@given(
    st.lists(st.integers(0, 1000), min_size=1, max_size=300),
    st.integers(60, 120),
    st.booleans(),
)
def test_what_is_not_zero_is_seen(values: list[int], width: int, utf8: bool) -> None:
    strip = Strip("Title", [StripRow("row", values, "said")], "0", "9 s")
    title, row, axis = shown(strip, Screen(width=width, utf8=utf8))
    assert title == "Title"
    assert cells(row) <= width
    picture = row.removeprefix("  row  ").removesuffix("said")
    assert bool(picture.strip(" ")) == any(values)
    assert axis.split() == ["0", "9", "s"]


def test_counts_share_a_scale_and_levels_have_their_own() -> None:
    strip = Strip(
        "Title",
        [
            StripRow("many", [8, 8], ""),
            StripRow("few", [1, 1], ""),
            StripRow("level", [1, 1], "", adds=False),
        ],
        "0",
        "1 s",
        common=True,
    )
    _, many, few, level, _ = shown(strip, Screen())
    assert "██" in many
    assert "▁▁" in few
    assert "██" in level
