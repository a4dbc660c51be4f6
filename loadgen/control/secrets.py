"""Keys and headers a person hands us: sent to the server, never written down."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from loadgen.control.files import text_of
from loadgen.errors import UsageError
from loadgen.wire.redact import spellings

__all__ = ["api_key", "parse_headers", "to_hide"]

MAX_KEY_BYTES = 64 << 10

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# What these hold is the same everywhere, and found in any answer.
_PLAIN = {
    "accept",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "content-type",
    "user-agent",
}
_OURS = {"host", "content-length", "transfer-encoding", "connection", "x-request-id"}


def api_key(env_name: str | None, file: Path | None) -> str | None:
    """The API key from an environment variable or a file; None when not asked for.

    Raises:
        UsageError: both given, the variable unset, the file unreadable, or a key
            that cannot be a header's value.
    """
    if env_name is not None and file is not None:
        raise UsageError("--api-key-env and --api-key-file are both given", "keep one")
    if env_name is not None:
        key, where = os.environ.get(env_name), f"environment variable {env_name}"
        if not key:
            raise UsageError(f"{where} is not set or empty", "export it first")
    elif file is not None:
        where = f"--api-key-file {file}"
        key = text_of(file, "--api-key-file", MAX_KEY_BYTES)
    else:
        return None
    key = key.strip()
    if not key or not key.isascii() or not key.isprintable():
        raise UsageError(f"{where} holds no usable key")
    return key


def parse_headers(lines: Sequence[str]) -> list[tuple[str, str]]:
    """Read ``Name: value`` lines; the message of an error never shows the value.

    Raises:
        UsageError: no colon, a name or value HTTP forbids, or a header that is
            ours to set.
    """
    headers = []
    for line in lines:
        name, colon, value = line.partition(":")
        name, value = name.strip(), value.strip()
        if not colon or not _NAME.fullmatch(name):
            raise UsageError("--header takes 'Name: value'")
        if not value.isascii() or not value.isprintable():
            raise UsageError(f"--header {name}: the value must be printable ASCII")
        if name.lower() in _OURS:
            raise UsageError(f"--header {name} is set by loadgen itself")
        headers.append((name, value))
    return headers


def to_hide(headers: Sequence[tuple[str, str]], key: str | None) -> list[str]:
    """What no file or output may hold, though a server say it back.

    Args:
        headers: as a person gave them.
        key: the API key, without what its header puts around it.

    Returns:
        The values in each spelling, see ``wire.redact.spellings``.
    """
    values = [value for name, value in headers if name.lower() not in _PLAIN]
    return spellings(values if key is None else [*values, key])
