"""Our secrets out of a server's words, in whatever spelling it says them back."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from json import dumps
from urllib.parse import quote, quote_plus

__all__ = ["redacted", "spellings"]

_MARK = "[redacted]"
# A shorter word hides nothing, and is part of too many others.
_LEAST_CHARS = 6
# A shorter beginning of a secret at a cut end tells nothing.
_TELLING_CHARS = 8


def spellings(secrets: Iterable[str]) -> list[str]:
    """How a server may write the secrets, longest first.

    As they are, and as JSON, URLs and pages escape them. A value of less than
    6 characters is no secret and left out.
    """
    found: set[str] = set()
    for secret in secrets:
        if len(secret) < _LEAST_CHARS:
            continue
        in_json = dumps(secret)[1:-1]
        found |= {secret, in_json, in_json.replace("/", "\\/")}
        found |= {quote(secret), quote(secret, safe=""), quote_plus(secret)}
        found |= {html.escape(secret, quote=False), html.escape(secret)}
    return sorted(found, key=lambda spelling: (-len(spelling), spelling))


def redacted(text: str, spelled: Sequence[str]) -> str:
    """A server's words without our secrets, nor the beginning of one cut off.

    Args:
        text: what it said.
        spelled: from ``spellings``.
    """
    for secret in spelled:
        if secret[:_TELLING_CHARS] not in text:
            continue
        text = text.replace(secret, _MARK)
        for length in range(len(secret) - 1, _TELLING_CHARS - 1, -1):
            if text.endswith(secret[:length]):
                text = text[:-length] + _MARK
                break
    return text
