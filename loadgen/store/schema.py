"""Which version wrote a file, and what to say when it was another one."""

from __future__ import annotations

from pathlib import Path

import msgspec

from loadgen.errors import RunDirError

__all__ = ["check_schema"]

MAX_DIGITS = 9
MAX_SHOWN_CHARS = 80


class _Tagged(msgspec.Struct):
    schema: str | None = None


def check_schema(path: Path, raw: bytes, expected: str) -> None:
    """Refuse a file that another version of the program wrote.

    Raises:
        RunDirError: newer, older, or of another kind; says which.
    """
    found = msgspec.json.decode(raw, type=_Tagged).schema
    if found == expected:
        return
    kind, _, version = expected.rpartition("/")
    found_kind, _, found_version = (found or "").rpartition("/")
    is_version = found_version.isdecimal() and len(found_version) <= MAX_DIGITS
    if found_kind != kind or not is_version:
        found = found and found[:MAX_SHOWN_CHARS]
        raise RunDirError(f"{path} is not a {kind} file (its schema is {found!r})")
    if int(found_version) > int(version):
        raise RunDirError(
            f"{path} was written by a newer loadgen: schema {found}, "
            f"this one reads {expected}",
            "judge it with that version",
        )
    raise RunDirError(
        f"{path} was written by an older loadgen: schema {found}, "
        f"this one reads {expected}",
        "judge it with that version",
    )
