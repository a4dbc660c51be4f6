"""What a default is, read from the expression that gives it."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["Default", "Ref", "Unread", "read_default"]

MAX_TEXT = 80
_NO_DEFAULT_HERE = frozenset({"init", "default_factory"})


class Ref(NamedTuple):
    """The default is another class' attribute."""

    owner: str
    name: str


class Unread(NamedTuple):
    """The default is an expression that only running it would tell."""

    text: str


Default = int | float | str | bool | None | Ref | Unread


def read_default(node: ast.expr, names: Mapping[str, ast.expr]) -> Default:
    """Read a default.

    Args:
        node: the expression.
        names: what plain names stand for where it is written: attributes of the
            class so far, and constants of the module.
    """
    seen: set[str] = set()
    while True:
        if isinstance(node, ast.Constant) and not isinstance(
            node.value, bytes | complex
        ):
            return None if node.value is ... else node.value
        if isinstance(node, ast.Name) and node.id in names and node.id not in seen:
            seen.add(node.id)
            node = names[node.id]
            continue
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            return Ref(node.value.id, node.attr)
        if isinstance(node, ast.Call):
            inner = _in_call(node)
            if isinstance(inner, ast.expr):
                node = inner
                continue
            if inner is not None:
                return inner
        return unread(node)


def unread(node: ast.expr) -> Unread:
    """An expression as text, shortened."""
    text = " ".join(ast.unparse(node).split())
    return Unread(text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 3] + "...")


def _in_call(call: ast.Call) -> ast.expr | Ref | None:
    """The default inside ``field(default=...)``, ``Field(...)`` and the like."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else None
    name = call.func.id if isinstance(call.func, ast.Name) else name
    if name == "get_field" and len(call.args) == 2:
        owner, attribute = call.args
        if isinstance(owner, ast.Name) and isinstance(attribute, ast.Constant):
            return Ref(owner.id, str(attribute.value))
    if name not in ("field", "Field"):
        return None
    for keyword in call.keywords:
        if keyword.arg == "default":
            return keyword.value
    return call.args[0] if call.args else None
