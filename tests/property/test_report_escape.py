"""No text of a server reaches a terminal or a page in a form that acts."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from loadgen.report.escape import ascii_only, cells, html_safe, safe

nasty = st.sampled_from(
    [
        "\x1b[2J\x1b[31m",
        "\x1b]0;title\x07",
        "\x9b31m",
        "\u202egnp.exe\u202c",
        "\u2066\u2069\u200f",
        "\u200b\u200d\ufeff\u2060",
        "\r\n\t\v\f\x85\u2028\u2029",
        "\x00\x07\x08\x7f",
        "[red]markup[/red] [/]",
        "[link=http://x]y[/link]",
        ":boom:",
        "<script>alert('&\"')</script>",
        "e" + "\u0301" * 40,
        "\ud800",
        "\U000e0041\ue000\uffff",
        "漢字かな",
        "👩‍👩‍👧",
        "\u3164\u115f\ufe0f",
    ]
)
hostile = st.lists(st.one_of(st.text(max_size=30), nasty), max_size=20).map("".join)
limits = st.integers(min_value=0, max_value=300)


@given(hostile, limits)
def test_it_is_one_visible_line_within_its_bound(text: str, limit: int) -> None:
    shown = safe(text, limit)
    assert cells(shown) <= limit
    assert shown.isprintable()
    assert shown == shown.strip(" ")
    assert "  " not in shown
    assert not any(unicodedata.category(c)[0] in "C" for c in shown)
    assert not any(unicodedata.bidirectional(c) in BIDI_COMMANDS for c in shown)


BIDI_COMMANDS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@given(hostile, limits)
def test_doing_it_twice_changes_nothing(text: str, limit: int) -> None:
    assert safe(safe(text, limit), limit) == safe(text, limit)


@given(hostile)
def test_marks_do_not_pile_up(text: str) -> None:
    row = 0
    for character in safe(text, 10_000):
        marked = unicodedata.category(character).startswith("M")
        row = row + 1 if marked else 0
        assert row <= 2


@given(st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=126)))
def test_plain_text_is_left_alone(text: str) -> None:
    assert safe(text, 10_000) == text


@given(hostile)
def test_html_holds_no_markup(text: str) -> None:
    assert not set(html_safe(text, 10_000)) & set("<>\"'")


@given(hostile)
def test_ascii_is_ascii_and_keeps_what_was_ascii(text: str) -> None:
    assert ascii_only(safe(text)).isascii()
    plain = safe(text).encode("ascii", "ignore").decode()
    assert ascii_only(plain) == plain
