"""Recorded arrivals: a trace's own times and lengths, in columns.

Nothing is guessed and nothing dropped in silence: what was left out, moved or
replaced is counted and can be told (``Trace.notes``).
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Literal, NamedTuple

import numpy as np

from loadgen.errors import UsageError
from loadgen.plan.draws import Ints
from loadgen.plan.pointers import refuse_pointer
from loadgen.plan.traceformats import TRACE_FORMATS, Row, format_of
from loadgen.units import NS_PER_MS, NS_PER_S

__all__ = ["TIME_SCALES", "Trace", "read_trace", "rescale", "trace_rows"]

Unit = Literal["s", "ms"]

_MAX_NS = 2**62
_UNIT_NS: dict[str, int] = {"s": NS_PER_S, "ms": NS_PER_MS}

#: How a factor stretches the gaps; the option is named by its direction.
TIME_SCALES: dict[str, Callable[[float], float]] = {
    "time-scale": lambda factor: factor,
    "slowdown": lambda factor: factor,
    "speedup": lambda factor: 1 / factor,
}


class Trace(NamedTuple):
    """The columns of a trace, in time order, and what was done to get them.

    ``at_ns`` counts from the first row kept, whose time on the file's own clock is
    ``origin_ns``. A length is -1 where the trace gives none. So is an output length
    of 0, a failure when it was recorded (``zero_outputs`` of them): no server takes
    ``max_tokens: 0``, and leaving the row out would lower the rate.
    """

    at_ns: Ints
    prompt_tokens: Ints
    output_tokens: Ints
    line: Ints
    origin_ns: int
    skipped: int
    inversions: int
    zero_outputs: int

    @property
    def duration_ns(self) -> int:
        """The shortest duration whose half-open interval holds every arrival."""
        return int(self.at_ns[-1]) + 1

    @property
    def same_time_pairs(self) -> int:
        """Neighbours due at the same instant: a burst, or a coarse clock."""
        return int(np.count_nonzero(np.diff(self.at_ns) == 0))

    def notes(self) -> list[str]:
        """What a reader of the result must know about the trace."""
        facts = (
            ("rows outside the window, left out", self.skipped),
            ("times that went back, sorted as asked", self.inversions),
            ("rows with 0 output tokens, offered with the default", self.zero_outputs),
            ("neighbours due at the same instant", self.same_time_pairs),
        )
        return [f"{what}: {count}" for what, count in facts if count]


def trace_rows(
    lines: Iterable[bytes],
    layout: str,
    *,
    unit: Unit | None = None,
    block_size: int = 512,
) -> Iterator[Row]:
    """The rows of a trace in the order of the file, one line in memory at a time.

    Args:
        lines: the file, opened as bytes.
        layout: a name of TRACE_FORMATS, or ``auto`` for CSV told by its header.
        unit: what a number in ``timestamp`` counts; needed where the format does
            not fix it, refused where it does.
        block_size: tokens a hash id stands for, checked against the lengths.

    Raises:
        UsageError: naming the line and the cause.
    """
    source = iter(lines)
    head = list(islice(source, 3))
    refuse_pointer(b"".join(head))
    if not head:
        raise UsageError("line 1: the trace is empty")
    name = format_of(head[0]) if layout == "auto" else layout
    if name not in TRACE_FORMATS:
        known = ", ".join(TRACE_FORMATS)
        raise UsageError(f"no trace format {name!r}", f"there are {known}")
    form = TRACE_FORMATS[name]
    unit_ns = form.unit_ns if unit is None else _UNIT_NS[unit]
    if unit_ns is None:
        raise UsageError(f"{name}: unit not given (s or ms)", "say what a number is")
    if unit is not None and form.unit_ns is not None:
        raise UsageError(f"{name}: the format fixes the unit of time, {unit} does not")
    if block_size < 1:
        raise UsageError(f"the block size must be at least 1, not {block_size}")
    yield from form.read(enumerate(chain(head, source), 1), unit_ns, block_size)


def read_trace(
    lines: Iterable[bytes],
    layout: str,
    *,
    unit: Unit | None = None,
    block_size: int = 512,
    window_ns: tuple[int, int] | None = None,
    sort: bool = False,
) -> Trace:
    """Read a whole trace into columns: some 50 bytes a row at the peak.

    Args:
        lines: as for ``trace_rows``, like ``layout``, ``unit`` and ``block_size``.
        layout: see ``trace_rows``.
        unit: see ``trace_rows``.
        block_size: see ``trace_rows``.
        window_ns: keep rows from the first to the second instant, both included, ns
            since the trace's first time.
        sort: put times that go back in order (stable, lengths move with their row)
            instead of refusing them.

    Raises:
        UsageError: naming the line and the cause; also when nothing is left.
    """
    rows = trace_rows(lines, layout, unit=unit, block_size=block_size)
    columns, inversions = _gather(rows, sort)
    if inversions:
        order = np.argsort(columns[0], kind="stable")
        columns = [column[order] for column in columns]
    kept = _window(columns, window_ns)
    at_ns, prompt, output, line = kept
    if not len(at_ns):
        where = " in the window" if len(columns[0]) else ""
        raise UsageError(f"the trace has no row{where}")
    return Trace(
        at_ns=at_ns - at_ns[0],
        prompt_tokens=prompt,
        output_tokens=np.where(output == 0, -1, output),
        line=line,
        origin_ns=int(at_ns[0]),
        skipped=len(columns[0]) - len(at_ns),
        inversions=inversions,
        zero_outputs=int(np.count_nonzero(output == 0)),
    )


def _gather(rows: Iterable[Row], sort: bool) -> tuple[list[Ints], int]:
    """The rows as columns, and how many times go back; unless to be sorted, none may.

    The columns are times, prompt tokens, output tokens (-1: not told), lines.
    """
    at, line = array("q"), array("q")
    prompt, output = array("i"), array("i")
    inversions = 0
    before: Row | None = None
    for row in rows:
        if before is not None and row.at_ns < before.at_ns:
            inversions += 1
            if not sort:
                raise UsageError(
                    f"line {row.line}: time goes back ({before.shown} -> {row.shown})",
                    "sort the trace if its rows are independent",
                )
        before = row
        if not -_MAX_NS <= row.at_ns <= _MAX_NS:
            raise UsageError(f"line {row.line}: {row.shown} is too far off")
        at.append(row.at_ns)
        line.append(row.line)
        prompt.append(-1 if row.prompt_tokens is None else row.prompt_tokens)
        output.append(-1 if row.output_tokens is None else row.output_tokens)
    columns = (at, prompt, output, line)
    return [np.asarray(column, dtype=np.int64) for column in columns], inversions


def _window(columns: list[Ints], window_ns: tuple[int, int] | None) -> list[Ints]:
    at_ns = columns[0]
    if window_ns is None or not len(at_ns):
        return columns
    since_first = at_ns - at_ns[0]
    inside = (since_first >= window_ns[0]) & (since_first <= window_ns[1])
    return [column[inside] for column in columns]


def rescale(at_ns: Ints, factor: float, direction: str) -> Ints:
    """Stretch or squeeze offsets by a factor whose direction is named.

    Args:
        at_ns: offsets from the start.
        factor: above zero.
        direction: ``time-scale`` or ``slowdown`` (2 = twice as long), ``speedup``
            (2 = twice as fast).

    Raises:
        UsageError: an unknown direction, or a factor that is not above zero and
            finite, or that carries a time past what a schedule holds.
    """
    if direction not in TIME_SCALES:
        known = ", ".join(TIME_SCALES)
        raise UsageError(f"no time scale {direction!r}", f"there are {known}")
    if not (math.isfinite(factor) and factor > 0):
        raise UsageError(f"--{direction} must be above zero, not {factor}")
    with np.errstate(over="ignore"):
        scaled = at_ns.astype(np.float64) * TIME_SCALES[direction](factor)
    if len(scaled) and scaled[-1] >= 2.0**62:
        raise UsageError(f"--{direction} {factor} makes the schedule too long")
    return np.rint(scaled).astype(np.int64)
