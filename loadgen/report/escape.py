"""Text of a server, made harmless: one line, bounded, nothing that acts.

A server chooses its error messages, model names and headers, so they may hold
terminal commands, direction overrides, markup or megabytes. What can be read is
kept as it is; what cannot be seen is written out as its code point.
"""

from __future__ import annotations

import html
import unicodedata

__all__ = ["SAFE_CELLS", "ascii_only", "cells", "clip", "html_safe", "safe"]

SAFE_CELLS = 160
ELLIPSIS = "..."
MAX_MARKS = 2

# Printable by Unicode's categories, yet drawn as nothing or changing the width
# of their neighbour: combining grapheme joiner, Hangul fillers, Khmer inherent
# vowels, Mongolian and other variation selectors.
_UNSEEN = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0"
    + "".join(map(chr, range(0xFE00, 0xFE10)))
    + "".join(map(chr, range(0xE0100, 0xE01F0)))
)
_PLAIN = str.maketrans(
    {
        "µ": "u",
        "×": "x",  # noqa: RUF001 - the multiplication sign is what is replaced
        "≤": "<=",
        "≥": ">=",
        "–": "-",  # noqa: RUF001 - the en dash is what is replaced
        "—": "-",
        "…": "...",
        "→": "->",
        "‘": "'",  # noqa: RUF001 - typographic quotes are what is replaced
        "’": "'",  # noqa: RUF001
        "“": '"',
        "”": '"',
    }
)


def safe(text: str, limit_cells: int = SAFE_CELLS) -> str:
    r"""One line of visible text that fits ``limit_cells`` columns of a terminal.

    White space of any kind becomes one space; control characters, direction
    overrides, invisible characters and lone surrogates become ``\x1b``-like
    escapes; stacked combining marks are cut to two. A text too long ends in
    ``...``. Markup is left alone: renderers print this as text, never parse it.
    """
    parts: list[str] = []
    used = marks = 0
    spaced = True  # swallow leading white space
    for character in text:
        if character.isspace():
            piece, marks = " ", 0
            if spaced:
                continue
        else:
            piece, marks = _visible(character, marks, first=spaced)
            if not piece:
                continue
        spaced = piece == " "
        used += cells(piece)
        parts.append(piece)
        if used > limit_cells:
            break
    return clip("".join(parts), limit_cells).rstrip(" ")


def _visible(character: str, marks: int, *, first: bool) -> tuple[str, int]:
    """What to print for one character, and how many marks now stand in a row."""
    if not character.isprintable() or character in _UNSEEN:
        return _code_point(character), 0
    if not unicodedata.category(character).startswith("M"):
        return character, 0
    if first:  # a mark without its own letter would sit on ours
        return _code_point(character), 0
    return (character if marks < MAX_MARKS else ""), marks + 1


def _code_point(character: str) -> str:
    point = ord(character)
    if point <= 0xFF:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"


def clip(text: str, limit_cells: int) -> str:
    """The text, or as much of it as leaves room for ``...`` within the limit."""
    if cells(text) <= limit_cells:
        return text
    room = max(0, limit_cells - len(ELLIPSIS))
    while cells(text) > room:
        text = text[:-1]
    return (text.rstrip(" ") + ELLIPSIS)[:limit_cells]


def cells(text: str) -> int:
    """Columns that a text takes in a terminal: wide characters two, marks none."""
    if text.isascii():
        return len(text)
    return sum(map(_character_cells, text))


def _character_cells(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def ascii_only(text: str) -> str:
    """The same text for a terminal or file that has no UTF-8."""
    plain = text.translate(_PLAIN)
    return plain.encode("ascii", "backslashreplace").decode("ascii")


def html_safe(text: str, limit_cells: int = SAFE_CELLS) -> str:
    """The same for HTML: harmless as an element's text and in a quoted attribute."""
    return html.escape(safe(text, limit_cells), quote=True)
