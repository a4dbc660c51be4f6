"""A run as columns: millions of records in a few arrays, read once, in a stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from loadgen.analysis.causes import Cause, Causes
from loadgen.analysis.stats import Floats
from loadgen.errors import RunDirError
from loadgen.model import NO_RECORD, Outcome, RequestRecord

__all__ = ["Coded", "Mask", "RunData"]

Mask = NDArray[np.bool_]
Codes = NDArray[np.int32]
N = TypeVar("N", bound=np.generic)

_CHUNK_RECORDS = 256  # with 20 tokens each this fits the cache: half the time of 8192
_MAX_NS = 2**53  # 104 days; below it every integer is exact as a float64
_MAX_CODES = 64  # distinct findings kept; a ruined file may hold any number

_NUMERIC = (
    "seq",
    "scheduled_ns",
    "started_ns",
    "connected_ns",
    "sent_ns",
    "first_token_ns",
    "first_answer_ns",
    "last_token_ns",
    "end_ns",
    "status",
    "prompt_tokens",
    "planned_prompt_tokens",
    "output_tokens",
    "max_tokens",
)
_CODED = (
    "group",
    "tenant",
    "outcome",
    "finish_reason",
    "prompt_tokens_source",
    "output_tokens_source",
    "model",
    "receive_clock",
)


@dataclass(frozen=True, slots=True)
class Coded:
    """A column of words: ``names[codes[i]]``; code -1 where there is none."""

    codes: Codes
    names: tuple[str, ...]

    def where(self, *names: str) -> Mask:
        """Rows that hold one of ``names``."""
        wanted = [code for code, name in enumerate(self.names) if name in names]
        return np.isin(self.codes, wanted)

    def counts(self, rows: Mask | None = None) -> dict[str, int]:
        """Rows a word, in the order of the words' first appearance; no zeros."""
        codes = self.codes if rows is None else self.codes[rows]
        found = np.bincount(codes[codes >= 0], minlength=len(self.names))
        pairs = zip(self.names, found.tolist(), strict=True)
        return {name: count for name, count in pairs if count}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunData:
    """All records of a run. One row a record, in order of ``seq``.

    Instants are ns since t0; NaN where it did not happen or is not known. Floats
    are exact here: no instant is beyond 2^53 ns.

    ``token_ns`` holds all rows' token stamps behind one another, ``token_count``
    how many are each row's; ``token_exact`` is False for a stamp that is only an
    upper bound. ``cause`` codes ``causes``; -1 where ok.
    """

    offered: int
    surplus: int
    seq: Floats
    scheduled_ns: Floats
    started_ns: Floats
    connected_ns: Floats
    sent_ns: Floats
    first_token_ns: Floats
    first_answer_ns: Floats
    last_token_ns: Floats
    end_ns: Floats
    status: Floats
    prompt_tokens: Floats
    planned_prompt_tokens: Floats
    output_tokens: Floats
    max_tokens: Floats
    group: Coded
    tenant: Coded
    outcome: Coded
    finish_reason: Coded
    prompt_tokens_source: Coded
    output_tokens_source: Coded
    model: Coded
    receive_clock: Coded
    cause: Codes
    causes: tuple[Cause, ...]
    token_count: NDArray[np.int64]
    token_ns: NDArray[np.int64]
    token_exact: Mask
    placeholders: int
    noted: dict[str, int]
    first_noted: dict[str, int]

    @property
    def rows(self) -> int:
        return self.seq.size

    @property
    def unrecorded(self) -> int:
        """Offered requests that have no row at all."""
        return self.offered - self.rows

    @property
    def lost(self) -> int:
        """Offered requests of which no record was ever written."""
        return self.unrecorded + self.placeholders

    @property
    def ok(self) -> Mask:
        return self.outcome.where(Outcome.OK)

    @classmethod
    def collect(cls, records: Iterable[RequestRecord], offered: int) -> RunData:
        """Read the records once; memory is about 150 B a record and 9 B a token.

        A record whose ``seq`` was not offered, or came before, is counted in
        ``surplus`` and left out.

        Raises:
            RunDirError: a number in a record is none that a run can produce.
        """
        collector = _Collector(offered)
        stream = iter(records)
        try:
            while chunk := list(islice(stream, _CHUNK_RECORDS)):
                collector.add(chunk)
            return collector.finish()
        except OverflowError as error:
            raise RunDirError(
                "a record holds a number that no run produces: the file was edited",
                "judge the run from an unchanged copy",
            ) from error


class _Collector:
    """Grows the columns, one chunk of records at a time."""

    def __init__(self, offered: int) -> None:
        self._offered = offered
        self._seen = bytearray(offered)
        self._surplus = 0
        self._placeholders = 0
        self._numeric: dict[str, list[Floats]] = {name: [] for name in _NUMERIC}
        self._codes: dict[str, list[Codes]] = {name: [] for name in _CODED}
        self._words = {name: _Numbering() for name in _CODED}
        self._causes = Causes()
        self._cause: list[Codes] = []
        self._counts: list[NDArray[np.int64]] = []
        # one buffer that grows in place: joining parts would need the room twice
        self._stamps = bytearray()
        self._exact = bytearray()
        self._noted: Counter[str] = Counter()
        self._first_noted: dict[str, int] = {}

    def add(self, chunk: Sequence[RequestRecord]) -> None:
        rows = list(self._each_once(chunk))
        for name, columns in self._numeric.items():
            column = np.array(list(map(attrgetter(name), rows)), dtype=np.float64)
            if (np.abs(column) >= _MAX_NS).any():
                raise OverflowError(name)
            columns.append(column)
        for name, codes in self._codes.items():
            number = map(self._words[name].__getitem__, map(attrgetter(name), rows))
            codes.append(np.fromiter(number, np.int32, len(rows)))
        self._cause.append(np.array([self._cause_of(r) for r in rows], dtype=np.int32))
        self._add_tokens(rows)

    def _each_once(self, chunk: Iterable[RequestRecord]) -> Iterator[RequestRecord]:
        seen = self._seen
        for record in chunk:
            if not 0 <= record.seq < len(seen) or seen[record.seq]:
                self._surplus += 1
                continue
            seen[record.seq] = 1
            if record.findings:
                self._note(record)
            yield record

    def _cause_of(self, record: RequestRecord) -> int:
        if record.outcome is Outcome.OK:
            return -1
        self._placeholders += record.detail == NO_RECORD
        return self._causes.add(record.attribution)

    def _note(self, record: RequestRecord) -> None:
        for code in set(record.findings):
            kept = code in self._noted or len(self._noted) < _MAX_CODES
            name = code if kept else "other"
            self._noted[name] += 1
            self._first_noted.setdefault(name, record.seq)

    def _add_tokens(self, rows: Sequence[RequestRecord]) -> None:
        counts = np.fromiter((len(r.token_ns) for r in rows), np.int64, len(rows))
        flat = chain.from_iterable(r.token_ns for r in rows)
        stamps = np.fromiter(flat, np.int64, int(counts.sum()))
        if stamps.size and max(-int(stamps.min()), int(stamps.max())) >= _MAX_NS:
            raise OverflowError("token_ns")
        self._counts.append(counts)
        self._stamps += stamps.tobytes()
        for record in rows:
            exact, count = record.token_exact, len(record.token_ns)
            if len(exact) != count:
                exact = (exact + [False] * count)[:count]
            self._exact += bytes(exact)

    def finish(self) -> RunData:
        columns: dict[str, Any] = {
            name: _joined(self._numeric.pop(name), np.float64) for name in _NUMERIC
        }
        for name in _CODED:
            codes = _joined(self._codes.pop(name), np.int32)
            columns[name] = Coded(codes, tuple(map(str, self._words[name]))[1:])
        return RunData(
            offered=self._offered,
            surplus=self._surplus,
            placeholders=self._placeholders,
            cause=_joined(self._cause, np.int32),
            causes=self._causes.found,
            token_count=_joined(self._counts, np.int64),
            token_ns=np.frombuffer(self._stamps, dtype=np.int64),
            token_exact=np.frombuffer(self._exact, dtype=np.bool_),
            noted=dict(self._noted),
            first_noted=self._first_noted,
            **columns,
        )


class _Numbering(dict[str | None, int]):
    """Numbers words as they come; None is -1 from the start."""

    def __init__(self) -> None:
        super().__init__({None: -1})

    def __missing__(self, word: str | None) -> int:
        number = self[word] = len(self) - 1
        return number


def _joined(parts: list[NDArray[N]], dtype: type[N]) -> NDArray[N]:
    return np.concatenate(parts) if parts else np.empty(0, dtype=dtype)
