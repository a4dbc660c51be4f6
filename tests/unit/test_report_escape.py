"""What hostile text looks like once it is harmless."""

from __future__ import annotations

import pytest

from loadgen.report.escape import ascii_only, html_safe, safe


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("  two\r\n\twords\u2028 here ", "two words here"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x9b31m", "\\x9b31m"),
        ("invoice\u202egnp.exe", "invoice\\u202egnp.exe"),
        ("a\u200bb", "a\\u200bb"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
        ("[bold]not ours[/bold]", "[bold]not ours[/bold]"),
        ("e\u0301\u0301\u0301\u0301!", "e\u0301\u0301!"),
        ("\u0301x", "\\u0301x"),
        ("The engine is busy", "The engine is busy"),
    ],
)
def test_safe(text: str, shown: str) -> None:
    assert safe(text) == shown


def test_long_text_is_cut_to_its_columns() -> None:
    assert safe("x" * 1_000_000, 10) == "xxxxxxx..."
    assert safe("漢" * 10, 10) == "漢漢漢..."
    assert safe("x" * 10, 10) == "x" * 10
    assert safe("xxxx", 2) == ".."
    assert safe("x", 0) == ""


def test_ascii_only() -> None:
    assert ascii_only("5 µs ≤ 2 s … 漢") == "5 us <= 2 s ... \\u6f22"


def test_html_safe() -> None:
    assert html_safe("<b a='1'>&\"") == "&lt;b a=&#x27;1&#x27;&gt;&amp;&quot;"
