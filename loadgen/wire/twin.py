"""The events of one stream differ in their text alone: read them by that.

An engine writes each event of an answer from the same template. Once one has been
read in full, and the template proved on the very decoder that read it, a payload
with the same bytes around a plain piece of text needs no second parse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from loadgen.wire.framing import Event
from loadgen.wire.protocols.delta import Delta

__all__ = ["Twin", "twin_of"]

_PROBE = "~loadgen~"


class Framer(Protocol):
    """A framer that has been fed nothing."""

    @property
    def comments(self) -> int: ...
    @property
    def ignored(self) -> int: ...
    @property
    def pending(self) -> bool: ...
    def feed(self, data: bytes) -> list[Event]: ...


class Twin:
    """What stands before and after the text in each event of a stream."""

    __slots__ = ("_after", "_around", "_before")

    def __init__(self, before: bytes, after: bytes) -> None:
        self._before = before
        self._after = after
        self._around = len(before) + len(after)

    def piece(self, payload: bytes) -> bytes | None:
        """The text in ``payload``, UTF-8 and not empty; None: read it in full."""
        # Quicker than to ask how it begins and ends, and then to cut.
        piece = payload.removeprefix(self._before).removesuffix(self._after)
        if len(piece) + self._around != len(payload):
            return None
        return piece if piece.strip(b" ").isalnum() or _plain(piece) else None


def twin_of(
    payload: bytes, delta: Delta, decode: Callable[[Event], Delta], framer: Framer
) -> Twin | None:
    """The twin of the events like this one; None if it cannot be told.

    Args:
        payload: bytes that ended one event.
        delta: what that event said.
        decode: what reads events of the dialect.
        framer: a new one; the payload's like will come where nothing is pending.
    """
    text = delta.text
    bare = msgspec.structs.replace(delta, model=None, response_id=None, choices=())
    if bare != Delta("answer", text) or b"\r" in payload:
        return None
    encoded = text.encode("utf-8", "replace")
    before, quoted, after = payload.partition(b'"%b"' % encoded)
    if not quoted or not _plain(encoded):
        return None
    twin = Twin(before + b'"', b'"' + after)
    probe = msgspec.structs.replace(delta, text=_PROBE)
    events = framer.feed(b'%b"%b"%b' % (before, _PROBE.encode(), after))
    odd = framer.pending or framer.comments or framer.ignored
    if odd or len(events) != 1 or decode(events[0]) != probe:
        return None
    return twin


def _plain(piece: bytes) -> bool:
    """Whether JSON means by these bytes between quotes just these, and not none."""
    try:
        text = piece.decode()
    except UnicodeDecodeError:
        return False
    return text != "" and text.isprintable() and '"' not in text and "\\" not in text
