"""The layouts traces come in: one reader each, from lines of bytes to rows.

Times are exact integers of nanoseconds on the file's own clock; every refusal
names the physical line.
"""

from __future__ import annotations

import csv
import datetime as dt
import re
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import Annotated, Any, NamedTuple

import msgspec

from loadgen.errors import UsageError
from loadgen.plan.groups import MAX_TOKENS
from loadgen.units import NS_PER_MS, NS_PER_S

__all__ = ["TRACE_FORMATS", "Row", "TraceFormat", "format_of"]

#: Later than the year 2200 on any clock of seconds since 1970.
MAX_TIME_NS = 8 * 10**18

Lines = Iterable[tuple[int, bytes]]


class Row(NamedTuple):
    """One recorded request.

    ``at_ns`` is on the file's own clock and ``shown`` is its text there. A length
    is None where the trace does not tell it.
    """

    line: int
    at_ns: int
    shown: str
    prompt_tokens: int | None
    output_tokens: int | None
    session: str | None


class TraceFormat(NamedTuple):
    """A layout: its reader, and the unit of its times (None: the user says)."""

    read: Callable[[Lines, int, int], Iterator[Row]]
    unit_ns: int | None


_Length = Annotated[int, msgspec.Meta(ge=0, le=MAX_TOKENS)]
_ABSENT = msgspec.Raw(b"")


class _JsonRow(msgspec.Struct, gc=False):
    timestamp: msgspec.Raw = _ABSENT
    input_length: _Length | None = None
    output_length: _Length | None = None
    session_id: str | int | None = None
    delay: float | None = None


class _BlockRow(_JsonRow, gc=False):
    hash_ids: list[int] | None = None


_json_row = msgspec.json.Decoder(_JsonRow)
_block_row = msgspec.json.Decoder(_BlockRow)


def _read_json(lines: Lines, unit_ns: int, block_size: int) -> Iterator[Row]:
    for number, record in _decoded(lines, _json_row):
        yield _row(number, record, unit_ns)


def _read_blocks(lines: Lines, unit_ns: int, block_size: int) -> Iterator[Row]:
    """Mooncake and aiperf: milliseconds, and hash ids that must fit the lengths."""
    for number, record in _decoded(lines, _block_row):
        ids, length = record.hash_ids, record.input_length
        if (
            ids is not None
            and length is not None
            and len(ids) != -(-length // block_size)
        ):
            low, high = max(0, (len(ids) - 1) * block_size + 1), len(ids) * block_size
            raise UsageError(
                f"line {number}: {len(ids)} hash_ids need input_length in "
                f"{low}..{high} at block size {block_size}, it is {length}"
            )
        yield _row(number, record, unit_ns)


def _decoded(
    lines: Lines, decoder: msgspec.json.Decoder[Any]
) -> Iterator[tuple[int, Any]]:
    for number, line in lines:
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line.strip():
            continue
        try:
            yield number, decoder.decode(line)
        except msgspec.ValidationError as error:
            raise UsageError(f"line {number}: {error}") from None
        except msgspec.DecodeError as error:
            raise UsageError(f"line {number}: invalid JSON ({error})") from None


def _row(number: int, record: _JsonRow, unit_ns: int) -> Row:
    text = bytes(record.timestamp).decode("utf-8", "replace")
    if text == "":
        remedy = "a delay counts from the answer before: a closed loop, no schedule"
        raise UsageError(
            f"line {number}: timestamp missing", "" if record.delay is None else remedy
        )
    if text.startswith('"'):
        text = text[1:-1]
    return Row(
        number,
        _number_ns(number, text, unit_ns),
        text,
        record.input_length,
        record.output_length,
        None if record.session_id is None else str(record.session_id),
    )


def _read_azure(lines: Lines, unit_ns: int, block_size: int) -> Iterator[Row]:
    columns = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
    for number, (stamp, prompt, output) in _cells(lines, columns):
        at_ns = _wall_clock_ns(number, stamp)
        prompt_tokens = _count(number, columns[1], prompt)
        yield Row(
            number,
            at_ns,
            stamp,
            prompt_tokens,
            _count(number, columns[2], output),
            None,
        )


def _read_burstgpt(lines: Lines, unit_ns: int, block_size: int) -> Iterator[Row]:
    columns = ("Timestamp", "Request tokens", "Response tokens")
    optional = ("Session ID",)
    for number, (stamp, prompt, output, session) in _cells(lines, columns, optional):
        at_ns = _number_ns(number, stamp, unit_ns)
        prompt_tokens = _count(number, columns[1], prompt)
        output_tokens = _count(number, columns[2], output)
        yield Row(number, at_ns, stamp, prompt_tokens, output_tokens, session or None)


TRACE_FORMATS: dict[str, TraceFormat] = {
    "mooncake": TraceFormat(_read_blocks, NS_PER_MS),
    "aiperf": TraceFormat(_read_blocks, NS_PER_MS),
    "jsonl": TraceFormat(_read_json, None),
    "azure": TraceFormat(_read_azure, 1),
    "burstgpt": TraceFormat(_read_burstgpt, NS_PER_S),
}


def format_of(first_line: bytes) -> str:
    """The format of a CSV trace, told by its header.

    Raises:
        UsageError: the first line is no known header. JSON lines look alike whatever
            their unit of time, so they are named by the user and never guessed.
    """
    header = first_line.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    names = {name.strip() for name in header.split(",")}
    if {"TIMESTAMP", "ContextTokens"} <= names:
        return "azure"
    if {"Timestamp", "Request tokens"} <= names:
        return "burstgpt"
    raise UsageError(
        "line 1: the format of the trace cannot be told from it",
        f"name it: {', '.join(TRACE_FORMATS)}",
    )


def _cells(
    lines: Lines, columns: tuple[str, ...], optional: tuple[str, ...] = ()
) -> Iterator[tuple[int, list[str]]]:
    """The asked columns of a CSV file, found by name; an absent optional one is ""."""
    reader = csv.reader(_text(lines), strict=True)
    where: list[int | None] = []
    width = 0
    try:
        for cells in reader:
            number = reader.line_num
            if not cells:
                continue
            if not where:
                where, width = _positions(number, cells, columns, optional), len(cells)
            elif len(cells) != width:
                raise UsageError(
                    f"line {number}: {len(cells)} fields, the header has {width}"
                )
            else:
                yield number, ["" if at is None else cells[at] for at in where]
    except csv.Error as error:
        raise UsageError(f"line {reader.line_num}: {error}") from None


def _positions(
    number: int, header: list[str], columns: tuple[str, ...], optional: tuple[str, ...]
) -> list[int | None]:
    names = [name.strip() for name in header]
    missing = [name for name in columns if name not in names]
    if missing:
        raise UsageError(f"line {number}: missing columns {', '.join(missing)}")
    every = (*columns, *optional)
    return [names.index(name) if name in names else None for name in every]


def _text(lines: Lines) -> Iterator[str]:
    for number, line in lines:
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise UsageError(f"line {number}: not UTF-8 text") from None


_NUMBER = re.compile(r"-?[0-9]{1,30}(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,2})?")
_STAMP = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[ T]([0-9]{2}:[0-9]{2}:[0-9]{2})"
    r"(?:\.([0-9]{1,9}))?(Z|[+-][0-9]{2}:[0-9]{2})?"
)


def _number_ns(number: int, text: str, unit_ns: int) -> int:
    if not _NUMBER.fullmatch(text):
        raise UsageError(f"line {number}: timestamp {text} is not a number")
    whole, _, fraction = text.partition(".")
    if fraction.strip("0") == "" and "e" not in text.lower():
        at_ns = int(whole) * unit_ns
    else:
        at_ns = round(Decimal(text) * unit_ns)
    if not 0 <= at_ns <= MAX_TIME_NS:
        wrong = "negative" if at_ns < 0 else "too large"
        raise UsageError(f"line {number}: timestamp {text} is {wrong}")
    return at_ns


def _wall_clock_ns(number: int, text: str) -> int:
    """Nanoseconds since 1970; a time without an offset is taken as UTC."""
    match = _STAMP.fullmatch(text.strip())
    try:
        if match is None:
            raise ValueError
        whole = dt.datetime.fromisoformat(f"{match[1]}T{match[2]}{match[4] or 'Z'}")
    except ValueError:
        raise UsageError(
            f"line {number}: {text!r} is not a time (2023-11-16 18:15:46.6805900)"
        ) from None
    since = whole - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    fraction_ns = int((match[3] or "0").ljust(9, "0"))
    return (since.days * 86_400 + since.seconds) * NS_PER_S + fraction_ns


def _count(number: int, column: str, text: str) -> int:
    is_count = text.isascii() and text.isdecimal() and len(text) <= 9
    if not is_count or int(text) > MAX_TOKENS:
        raise UsageError(f"line {number}: {column} {text!r} is not a count of tokens")
    return int(text)
