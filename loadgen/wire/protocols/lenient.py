"""Read the JSON that strict decoders refuse, as far as sense can be made of it.

The slow way, taken only when the typed decoder has failed: invalid UTF-8, lone
surrogates, NaN, raw control characters, a field of an unexpected type.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

__all__ = ["loads", "reader", "salvage"]

_S = TypeVar("_S", bound=msgspec.Struct)
# Nesting beyond any real answer; deeper input is not worth the stack.
_MAX_DEPTH = 32


def reader(kind: type[_S]) -> Callable[[bytes], _S | None]:
    """What reads bytes as a ``kind``: strictly if it can, else what can be saved.

    The reader gives None for what is no JSON object, and never raises.
    """
    strict = msgspec.json.Decoder(kind).decode

    def read(data: bytes) -> _S | None:
        try:
            return strict(data)
        except (msgspec.DecodeError, RecursionError):
            return salvage(kind, loads(data))

    return read


def loads(data: bytes) -> Any:
    """The JSON value in ``data``, made clean Unicode; None if there is none."""
    text = data.decode("utf-8", "replace")
    try:
        value = json.loads(text, strict=False, parse_constant=lambda _: None)
        clean = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
        return json.loads(clean)
    except (ValueError, RecursionError):
        return None


def salvage(kind: type[_S], value: Any, depth: int = 0) -> _S | None:
    """``value`` as a ``kind``, with the default for each field that does not fit.

    Returns:
        None if ``value`` is no object at all.
    """
    if not isinstance(value, dict) or depth > _MAX_DEPTH:
        return None
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        if field.encode_name in value:
            given = value[field.encode_name]
            try:
                found[field.name] = _fit(field.type, given, depth)
            except (msgspec.ValidationError, RecursionError):
                continue
    return kind(**found)


def _fit(annotation: Any, given: Any, depth: int) -> Any:
    """One field's value, salvaging structs inside optionals and lists."""
    inner, is_list = _struct_in(annotation)
    if inner is not None and is_list and isinstance(given, list):
        items = (salvage(inner, item, depth + 1) for item in given)
        return [item for item in items if item is not None]
    if inner is not None and not is_list and isinstance(given, dict):
        return salvage(inner, given, depth + 1)
    return msgspec.convert(given, annotation)


def _struct_in(annotation: Any) -> tuple[type[msgspec.Struct] | None, bool]:
    """The struct an annotation names, and whether it names a list of them."""
    arguments: tuple[Any, ...] = getattr(annotation, "__args__", ())
    if getattr(annotation, "__origin__", None) is list:
        return _struct_in(arguments[0])[0], True
    for one in arguments:
        inner, is_list = _struct_in(one)
        if inner is not None:
            return inner, is_list
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return annotation, False
    return None, False
