"""One row a request: the columns that CSV and Parquet share.

Times are seconds since t0 or durations, as the report counts them; None where there
is none to trust. Text is one visible line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from loadgen.errors import RunDirError
from loadgen.model import RequestRecord
from loadgen.report.escape import safe
from loadgen.report.exports.run import Exported
from loadgen.units import NS_PER_S

__all__ = ["COLUMNS", "Cell", "Column", "rows"]

Cell = str | int | float | bool | None
TEXT_CELLS = 400
_DIGITS = 9


@dataclass(frozen=True, slots=True)
class _Place:
    """A request: its record, and its row in the judged columns."""

    run: Exported
    record: RequestRecord
    row: int


@dataclass(frozen=True, slots=True)
class Column:
    """A name, what kind of value it holds, and where it comes from."""

    name: str
    kind: Literal["text", "int", "float", "bool"]
    value: Callable[[_Place], Cell]


def _text(text: str | None) -> str | None:
    return None if text is None else safe(text, TEXT_CELLS)


def _instant(name: str) -> Column:
    def value(place: _Place) -> Cell:
        return _seconds(getattr(place.record, f"{name}_ns"))

    return Column(f"{name}_s", "float", value)


def _duration(name: str) -> Column:
    def value(place: _Place) -> Cell:
        return _seconds(float(getattr(place.run.times, name)[place.row]))

    return Column(f"{name}_s", "float", value)


def _seconds(value_ns: float | None) -> float | None:
    if value_ns is None or not math.isfinite(value_ns):
        return None
    return round(value_ns / NS_PER_S, _DIGITS)


def _cause(name: str) -> Column:
    def value(place: _Place) -> Cell:
        why = place.record.attribution
        return None if why is None else str(getattr(why, name))

    return Column(name, "text", value)


def _field(name: str, kind: Literal["text", "int", "float", "bool"]) -> Column:
    def value(place: _Place) -> Cell:
        held: Cell = getattr(place.record, name)
        return _text(str(held)) if kind == "text" and held is not None else held

    return Column(name, kind, value)


def _error(place: _Place) -> Cell:
    error = place.record.error
    return None if error is None else _text(error.message)


def _good(place: _Place) -> Cell:
    return bool(place.run.good[place.row])


COLUMNS = (
    _field("seq", "int"),
    _field("request_id", "text"),
    _field("group", "text"),
    _field("tenant", "text"),
    _instant("scheduled"),
    _instant("sent"),
    _instant("headers"),
    _instant("first_token"),
    _instant("last_token"),
    _instant("end"),
    _field("status", "int"),
    _field("outcome", "text"),
    Column("good", "bool", _good),
    _duration("ttft"),
    _duration("ttft_from_sent"),
    _duration("ttft_answer"),
    _duration("tpot"),
    _duration("e2e"),
    _duration("time_to_reject"),
    _duration("send_lag"),
    _field("prompt_tokens", "int"),
    _field("prompt_tokens_source", "text"),
    _field("output_tokens", "int"),
    _field("output_tokens_source", "text"),
    _field("finish_reason", "text"),
    _cause("layer"),
    _cause("limiting_resource"),
    _cause("accepted"),
    _cause("confidence"),
    Column("error_message", "text", _error),
    _field("retry_after_s", "float"),
    _field("model", "text"),
    _field("response_id", "text"),
    _field("receive_clock", "text"),
    Column("basis", "text", lambda place: str(place.run.summary.basis)),
)


def rows(run: Exported) -> Iterator[tuple[RequestRecord, list[Cell]]]:
    """Each judged request once, in order; records that were not judged are left out.

    Raises:
        RunDirError: the records are not those that were judged any more.
    """
    seq, row = run.data.seq, 0
    for record in run.records:
        if row < seq.size and record.seq == seq[row]:
            place = _Place(run, record, row)
            yield record, [column.value(place) for column in COLUMNS]
            row += 1
    if row < seq.size:
        raise RunDirError("the records changed while they were read", "try it again")
