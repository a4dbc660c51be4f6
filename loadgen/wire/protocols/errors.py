"""Find the error in an answer, in any of the shapes servers give it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from loadgen.model import ServerError
from loadgen.wire.framing import Event, SseFramer
from loadgen.wire.protocols import lenient
from loadgen.wire.protocols.delta import Delta
from loadgen.wire.protocols.values import clip

__all__ = ["error_in", "error_of_event", "error_of_failed"]

MAX_MESSAGE_CHARS = 2048

_MESSAGE_KEYS = ("message", "detail", "error_msg", "msg", "text", "title")
_TYPE_KEYS = ("type", "error_type", "status", "error_name")
_CODE_KEYS = ("code", "http_status_code", "status_code", "statusCode", "error_code")
# Keys that make an object an error though it has none named ``error``.
_ERROR_MARKS = ("error_code", "error_msg", "error_type", "detail")


def error_in(value: Any, *, failed: bool = False) -> ServerError | None:
    """The error that a decoded JSON value reports.

    Args:
        value: the whole body or event.
        failed: whether it is known to be an error (a status that is not 2xx, an
            event of type ``error``), so that a bare message is enough.

    Returns:
        None if it reports none.
    """
    while isinstance(value, list):
        value = value[0] if value else None
    if isinstance(value, str):
        return ServerError(message=clip(value, MAX_MESSAGE_CHARS)) if failed else None
    if not isinstance(value, dict):
        return None
    inner = value.get("error")
    if inner:
        if isinstance(inner, list) and isinstance(inner[0], dict):
            inner = inner[0]
        if isinstance(inner, dict):
            return _from_fields(inner)
        return _from_fields({**value, "message": _as_text(inner)})
    if failed or _looks_failed(value):
        return _from_fields(value)
    return None


def error_of_event(data: bytes) -> ServerError:
    """The error in an event that announced itself as one, whatever it holds."""
    found = error_in(lenient.loads(data), failed=True)
    if found is not None:
        return found
    text = data.decode("utf-8", "replace")
    return ServerError(message=clip(text, MAX_MESSAGE_CHARS) or None)


def error_of_failed(
    body: bytes, decode: Callable[[Event], Delta]
) -> ServerError | None:
    """The error in the body of an answer that is not 2xx.

    Args:
        body: JSON, or the events of a stream.
        decode: the dialect's.

    Returns:
        None if it is neither, as a proxy's page or line of text.
    """
    error = error_in(lenient.loads(body), failed=True)
    if error is not None:
        return error
    framer = SseFramer()
    for event in [*framer.feed(body.lstrip()), *framer.flush()]:
        error = decode(event).error
        if error is not None:
            return error
    return None


def _looks_failed(value: dict[str, Any]) -> bool:
    if value.get("object") == "error" or value.get("type") == "error":
        return True
    if any(value.get(mark) for mark in _ERROR_MARKS):
        return True
    return isinstance(value.get("message"), str) and any(
        key in value for key in _CODE_KEYS
    )


def _from_fields(fields: dict[str, Any]) -> ServerError:
    message = next((fields[key] for key in _MESSAGE_KEYS if fields.get(key)), None)
    kinds = (clip(fields.get(key)) for key in _TYPE_KEYS)
    codes = (_as_code(fields.get(key)) for key in _CODE_KEYS)
    return ServerError(
        message=None if message is None else _as_text(message),
        type=next((kind for kind in kinds if kind), None),
        code=next((code for code in codes if code is not None), None),
    )


def _as_code(value: object) -> int | str | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if abs(value) < 2**53 else None
    return clip(value) or None


def _as_text(value: object) -> str | None:
    if isinstance(value, str):
        return clip(value, MAX_MESSAGE_CHARS)
    try:
        return clip(json.dumps(value, ensure_ascii=False), MAX_MESSAGE_CHARS)
    except RecursionError:  # as deep as could just be read
        return None
