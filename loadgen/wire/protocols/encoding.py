"""Request bodies as bytes: a prefix built once, then length and text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from loadgen.errors import UsageError

if TYPE_CHECKING:
    from loadgen.plan.prompts import Prompt

    Encoder = Callable[[Prompt], bytes]

__all__ = [
    "bearer",
    "body_prefix",
    "closed",
    "length_member",
    "messages",
    "nested",
    "plain_text",
    "quoted",
]

quoted = msgspec.json.Encoder().encode


def bearer(key: str) -> tuple[str, str]:
    """The header that carries an API key in most dialects."""
    return ("authorization", f"Bearer {key}")


def body_prefix(
    fixed: Mapping[str, Any], extra: Mapping[str, Any], *, reserved: Iterable[str]
) -> bytes:
    """The JSON object of all that is the same in every body.

    Args:
        fixed: the dialect's own fields; None stands for no field.
        extra: the user's, which win; a null takes a field away.
        reserved: names the schedule sets for each request.

    Raises:
        UsageError: ``extra`` sets a reserved field.
    """
    for name in reserved:
        if name in extra:
            raise UsageError(
                f"the extra body field {name!r} is set by the schedule",
                "use the flag of that meaning instead",
            )
    merged = {**fixed, **extra}
    return quoted({name: value for name, value in merged.items() if value is not None})


def nested(
    extra: Mapping[str, Any], name: str, *, reserved: Iterable[str]
) -> tuple[bytes, dict[str, Any]]:
    """The user's fields of the object ``name`` as a prefix, and his other fields.

    Raises:
        UsageError: they set a reserved field, or ``name`` is no object.
    """
    inner = extra.get(name) or {}
    if not isinstance(inner, Mapping):
        raise UsageError(f"the extra body field {name!r} must be an object")
    rest = {key: value for key, value in extra.items() if key != name}
    return body_prefix({}, inner, reserved=reserved), rest


def closed(prefix: bytes, members: Sequence[bytes]) -> bytes:
    """A whole body: the prefix's object with further members, each ``"name":value``."""
    if not members:
        return prefix
    separator = b"" if prefix == b"{}" else b","
    return b"".join((prefix[:-1], separator, b",".join(members), b"}"))


def length_member(name: str, max_tokens: int | None) -> list[bytes]:
    """The member that limits the answer; none where the server's limit is meant."""
    return [] if max_tokens is None else [b'"%b":%d' % (name.encode(), max_tokens)]


def messages(prompt: Prompt) -> bytes:
    """A chat's messages: the prompt's own, else its text as the user's one."""
    if prompt.messages is not None:
        return prompt.messages
    return b'[{"role":"user","content":' + quoted(prompt.text) + b"}]"


def plain_text(prompt: Prompt, api: str) -> bytes:
    """A prompt's text as JSON.

    Raises:
        UsageError: it is a chat, which this dialect has no field for.
    """
    if prompt.messages is not None:
        raise UsageError(
            f"the workload holds chat messages, which {api} cannot carry",
            "use a chat API: --api openai-chat",
        )
    return quoted(prompt.text)
