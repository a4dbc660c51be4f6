"""The only place where text becomes markup: a plain string is always escaped.

``Html`` is markup that was made here. Every other module passes strings, so what a
server said cannot be anything but text, in an element or in an attribute.
"""

from __future__ import annotations

import html
from typing import NamedTuple

__all__ = ["EMPTY", "Html", "joined", "style_sheet", "tag"]

_VOID = frozenset({"meta", "br", "link"})


class Html(NamedTuple):
    """Markup. Only this module makes it."""

    source: str


EMPTY = Html("")


def tag(name: str, /, *children: str | Html, **attributes: str | float | None) -> Html:
    """One element.

    Args:
        name: of the element.
        children: text, which is escaped, and elements.
        attributes: ``class_`` is written ``class``, ``aria_label`` ``aria-label``;
            None leaves one out.
    """
    start = name + "".join(
        f' {_attribute_name(key)}="{_attribute_value(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Html(f"<{start}>")
    return Html(f"<{start}>{joined(*children).source}</{name}>")


def joined(*parts: str | Html) -> Html:
    """Parts behind one another."""
    return Html("".join(_source(part) for part in parts))


def style_sheet(css: str) -> Html:
    """A style sheet of our own, the one text that is written as it is.

    Raises:
        ValueError: it could end its element.
    """
    if "<" in css:
        raise ValueError("a style sheet with '<' in it")
    return Html(f"<style>{css}</style>")


def _source(part: str | Html) -> str:
    return part.source if isinstance(part, Html) else html.escape(part, quote=True)


def _attribute_name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def _attribute_value(value: str | float) -> str:
    if isinstance(value, float):
        return f"{value:.1f}".removesuffix(".0")
    return html.escape(str(value), quote=True)
