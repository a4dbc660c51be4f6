"""Text becomes markup in one place, and there it is escaped."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import loadgen.report
from loadgen.report.markup import EMPTY, Html, joined, style_sheet, tag


def test_a_string_is_text_wherever_it_stands() -> None:
    made = tag("p", '<b a="1">&\'', title='"><script>')
    assert made.source == (
        '<p title="&quot;&gt;&lt;script&gt;">&lt;b a=&quot;1&quot;&gt;&amp;&#x27;</p>'
    )


def test_elements_stand_in_elements() -> None:
    assert tag("p", tag("b", "x"), " y").source == "<p><b>x</b> y</p>"
    assert joined("<", tag("br"), EMPTY).source == "&lt;<br>"


def test_names_of_attributes_are_written_as_html_has_them() -> None:
    made = tag("a", class_="k", aria_label="n", viewBox="0 0", gone=None, width=2.04)
    assert made.source == '<a class="k" aria-label="n" viewBox="0 0" width="2"></a>'


@given(st.text())
def test_nothing_in_a_text_ends_its_element(text: str) -> None:
    source = tag("p", text, title=text).source
    inside = source.removeprefix('<p title="').removesuffix("</p>")
    value, _, content = inside.partition('">')
    assert not set('<>"') & set(value + content)


def test_only_a_style_sheet_is_written_as_it_is() -> None:
    assert style_sheet("a{b:c>d}").source == "<style>a{b:c>d}</style>"
    with pytest.raises(ValueError, match="<"):
        style_sheet("</style><script>")


def test_no_other_module_makes_markup_out_of_strings() -> None:
    """``Html(...)`` is called in ``markup`` alone; else escaping could be forgotten."""
    room = Path(loadgen.report.__path__[0])
    makers = {
        path.name for path in room.rglob("*.py") if f"{Html.__name__}(" in _code(path)
    }
    assert makers == {"markup.py"}


def _code(path: Path) -> str:
    return path.read_text(encoding="utf-8")
