"""Whatever a server, a file or a user put into a summary, the screen stays whole."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.model import Layer
from loadgen.report.escape import cells
from loadgen.report.layout import paragraph, set_table
from loadgen.report.live import Live, live_line, live_view
from loadgen.report.model import build
from loadgen.report.screen import Screen, to_text
from loadgen.report.table import Column, Row, Table
from loadgen.report.terminal import report_text
from tests.hostile_summaries import manifests, named, nasty, sizes, summaries

screens = st.builds(
    Screen, width=st.integers(60, 120), utf8=st.booleans(), moving=st.booleans()
)


@settings(max_examples=60, deadline=None)
@given(summaries, manifests, nasty, screens)
def test_a_report_is_lines_that_fit_and_nothing_else(
    summary: dict[str, Any], manifest: dict[str, Any], folder: str, screen: Screen
) -> None:
    report = build(summary, manifest, folder)
    shown = report_text(report, screen)
    commands = {screen.text(step.command) for step in report.steps}
    assert shown.endswith("\n")
    assert screen.utf8 or shown.isascii()
    for line in shown.removesuffix("\n").split("\n"):
        assert line.isprintable()
        assert cells(line) <= screen.width or line.strip() in commands


@settings(max_examples=25, deadline=None)
@given(summaries, screens)
def test_colour_is_the_only_command_sent(
    summary: dict[str, Any], screen: Screen
) -> None:
    bold = Screen(width=screen.width, utf8=screen.utf8, colour=True)
    shown = report_text(build(summary), bold)
    without = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert without.replace("\n", "").isprintable()


@settings(max_examples=60, deadline=None)
@given(
    st.builds(
        Live,
        name=nasty,
        target=nasty,
        basis=nasty,
        offered=sizes,
        duration_ns=sizes,
        elapsed_ns=st.integers(-(10**10), 10**15),
        counters=st.dictionaries(
            st.sampled_from(["due", "sent", "in_flight", "outcome_ok", "ttft_count"]),
            sizes,
        ),
        lost_by_layer=named(Layer, sizes),
    ),
    screens,
)
def test_the_live_view_stays_in_its_place(live: Live, screen: Screen) -> None:
    view = to_text(live_view(live, screen), screen)
    assert view.count("\n") == 6
    for line in [*view.removesuffix("\n").split("\n"), live_line(live, screen)]:
        assert line.isprintable()
        assert screen.utf8 or line.isascii()
    assert all(cells(line) <= screen.width for line in view.split("\n"))


@given(nasty, screens, st.integers(0, 8))
def test_a_paragraph_keeps_its_words_and_its_width(
    text: str, screen: Screen, indent: int
) -> None:
    clean = " ".join(word for word in text.split() if word.isascii())
    lines = paragraph(clean, screen, indent=" " * indent)
    assert all(cells(line) <= screen.width for line in lines)
    assert "".join("".join(lines).split()) == "".join(clean.split())


@given(
    st.lists(
        st.tuples(st.text(alphabet="abc ", max_size=50), st.text("012", max_size=30)),
        min_size=1,
        max_size=5,
    ),
    st.integers(1, 9),
    screens,
)
def test_a_table_of_any_width_fits_and_shows_every_cell(
    rows: list[tuple[str, str]], columns: int, screen: Screen
) -> None:
    table = Table(
        "Title",
        tuple(Column(f"c{at}") for at in range(columns)),
        tuple(Row(label.strip(), (cell,) * columns) for label, cell in rows),
    )
    lines = [line.text for line in set_table(table, "", screen)]
    assert all(cells(line) <= screen.width for line in lines)
    joined = "\n".join(lines)
    assert all(f"c{at}" in joined for at in range(columns))
    assert all(joined.count(cell) >= columns for _, cell in rows if cell)
