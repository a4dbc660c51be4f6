"""Values of a server's JSON, taken for what they are worth."""

from __future__ import annotations

from typing import Any

__all__ = ["MAX_WORD_CHARS", "clip", "count", "text_of", "word"]

MAX_WORD_CHARS = 128
_MAX_COUNT = 2**53


def clip(value: object, limit: int = MAX_WORD_CHARS) -> str | None:
    """A server's word as bounded, valid Unicode; None if it is no text."""
    if not isinstance(value, str):
        return None
    return value[:limit].encode("utf-8", "replace").decode("utf-8")


def word(value: object) -> str | None:
    """A short word such as a finish reason; the empty one some servers send is none."""
    return clip(value) or None


def count(value: object) -> int | None:
    """A number of tokens; None if it cannot be one."""
    return value if type(value) is int and 0 <= value < _MAX_COUNT else None


def text_of(content: Any) -> str:
    """Content as text: a string, or the text parts of a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict))
        return "".join(part for part in parts if isinstance(part, str))
    return ""
