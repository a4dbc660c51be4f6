"""What a stream can show is judged once; text is laid out to fit it."""

from __future__ import annotations

import pytest

from loadgen.report.layout import paragraph, set_table
from loadgen.report.screen import Screen, screen_for
from loadgen.report.table import Column, Row, Table


@pytest.mark.parametrize(
    ("environ", "is_terminal", "encoding", "columns", "screen"),
    [
        ({}, True, "utf-8", 100, Screen(width=100, colour=True, moving=True)),
        ({"NO_COLOR": "1"}, True, "UTF-8", 100, Screen(width=100, moving=True)),
        ({"NO_COLOR": ""}, True, "utf8", 80, Screen(colour=True, moving=True)),
        ({"TERM": "dumb"}, True, "utf-8", 80, Screen()),
        ({}, False, "utf-8", None, Screen()),
        ({}, False, "ascii", None, Screen(utf8=False)),
        ({}, False, None, None, Screen(utf8=False)),
        ({"COLUMNS": "132"}, False, "utf-8", None, Screen(width=120)),
        ({"COLUMNS": "20"}, False, "utf-8", None, Screen(width=60)),
        ({"COLUMNS": "-5"}, False, "utf-8", None, Screen()),
    ],
)
def test_screen_for(
    environ: dict[str, str],
    is_terminal: bool,
    encoding: str | None,
    columns: int | None,
    screen: Screen,
) -> None:
    assert (
        screen_for(environ, is_terminal=is_terminal, encoding=encoding, columns=columns)
        == screen
    )


def test_a_paragraph_hangs() -> None:
    text = "one two three four five six seven eight nine ten eleven twelve thirteen"
    assert paragraph(text, Screen(width=60), indent="- ", hanging="  ") == [
        "- one two three four five six seven eight nine ten eleven",
        "  twelve thirteen",
    ]
    assert paragraph("", Screen()) == [""]
    assert paragraph("x" * 70, Screen(width=60), indent=" ") == [
        " " + "x" * 59,
        " " + "x" * 11,
    ]


def table(*columns: Column, title: str = "Title") -> Table:
    cells = tuple("9" * (at + 1) for at in range(len(columns)))
    rows = (Row("first", cells, below=("why",)), Row("under it", cells, depth=1))
    return Table(title, columns, rows, ("a note",))


def test_a_table_sets_numbers_right_and_words_left() -> None:
    lines = set_table(
        table(Column("n"), Column("word", numeric=False)), " [tag]", Screen()
    )
    assert [line.text for line in lines] == [
        "Title [tag]   n  word",
        "  first       9  99",
        "    why",
        "    under it  9  99",
        "  a note",
    ]
    assert [line.style for line in lines] == ["strong", "", "faint", "", "faint"]


def test_a_spare_column_goes_first() -> None:
    wide = "w" * 45
    narrow = Screen(width=60)
    lines = set_table(table(Column(wide, spare=True), Column("kept")), "", narrow)
    assert lines[0].text == "Title         kept"
    both = set_table(table(Column(wide, spare=True), Column("kept")), "", Screen())
    assert wide in both[0].text


def test_columns_without_room_continue_below() -> None:
    columns = [Column(letter * 20) for letter in "abc"]
    lines = [line.text for line in set_table(table(*columns), "", Screen(width=60))]
    assert [line.split() for line in lines if line.startswith("Title")] == [
        ["Title", "a" * 20, "b" * 20],
        ["Title", "c" * 20],
    ]
    assert lines.count("    why") == 1
    assert lines.count("  a note") == 1


def test_a_title_without_room_stands_alone() -> None:
    columns = [Column(letter * 20) for letter in "ab"]
    lines = set_table(table(*columns, title="A title of some length"), "", Screen())
    assert lines[0].text.startswith("A title of some length  aaa")
    narrow = set_table(
        table(*columns, title="A title of some length"), "", Screen(width=60)
    )
    assert narrow[0].text == "A title of some length"
    assert narrow[1].text.split() == ["a" * 20, "b" * 20]
