"""The sealed schedule: what is due when, byte for byte, under one digest.

A schedule is a file of JSON lines. The first is the header; then comes a line a
request, in the order of time, its body last and verbatim; the last is the seal: the
SHA-256 of every byte before it, so that ``head -n -1 FILE | sha256sum`` checks it.

The issuing process loads this module: it imports neither numpy nor its siblings
that do.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from mmap import mmap
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Protocol

import msgspec

from loadgen.errors import UsageError
from loadgen.plan.lines import SCHEMA, Asked, Entry, Header, Named, Seal
from loadgen.plan.pointers import refuse_pointer
from loadgen.units import NS_PER_S

if TYPE_CHECKING:
    from loadgen.plan.prompts import Prompt

    Encoder = Callable[[Prompt], bytes]

__all__ = [
    "SCHEMA",
    "Asked",
    "Entry",
    "Header",
    "Realised",
    "Schedule",
    "Seal",
    "bind",
    "load",
    "seal",
]

_LINES_A_WRITE = 1024
_BLOCK = 1 << 20
_BODY_KEY = b',"body":'

_encoder = msgspec.json.Encoder()
_named = msgspec.json.Decoder(Named)
_header = msgspec.json.Decoder(Header)
_entry = msgspec.json.Decoder(Entry)
_seal = msgspec.json.Decoder(Seal)


class Offsets(Protocol):
    """A numpy array or an ``array('q')`` of due times."""

    def tolist(self) -> list[int]: ...


class Realised(msgspec.Struct, frozen=True, kw_only=True):
    """What a schedule really offers, beside what was asked."""

    requests: int
    rate_rps: float
    duration_s: float
    groups: dict[str, int]


def bind(
    header: Header, offsets: Offsets, prompts: Iterable[Prompt], encode: Encoder
) -> Iterator[Entry]:
    """Give each due time its prompt, encoded as the server will get it.

    Args:
        header: for its groups; a prompt of another is refused.
        offsets: ns since the schedule's start, sorted.
        prompts: as many as there are offsets.
        encode: writes the body's bytes: JSON without a line break.
    """
    groups = frozenset(header.groups)
    for at_ns, prompt in zip(offsets.tolist(), prompts, strict=True):
        if prompt.group not in groups:
            raise ValueError(f"the header has no group {prompt.group!r}")
        yield Entry(
            at_ns,
            prompt.group,
            prompt.tenant,
            prompt.max_tokens,
            prompt.prompt_tokens,
            msgspec.Raw(encode(prompt)),
        )


def seal(header: Header, entries: Iterable[Entry], out: BinaryIO) -> Seal:
    """Write a schedule and its seal; memory is one batch of entries.

    Raises:
        UsageError: times that go back or lie outside the duration, a body with a
            line break, or no entry at all.
    """
    digest = hashlib.sha256()

    def put(data: bytes) -> None:
        digest.update(data)
        out.write(data)

    put(_encoder.encode(header) + b"\n")
    requests = before_ns = 0
    for batch in _batches(entries):
        due = [before_ns, *(entry.at_ns for entry in batch)]
        if any(later < earlier for earlier, later in pairwise(due)):
            raise UsageError(f"the times of requests {requests} and on go back")
        before_ns = due[-1]
        lines = _encoder.encode_lines(batch)
        if lines.count(b"\n") != len(batch):
            raise UsageError(f"a body of requests {requests} and on has a line break")
        put(lines)
        requests += len(batch)
    if not requests:
        raise UsageError("the schedule has no request")
    if before_ns >= header.duration_ns:
        raise UsageError(
            f"a request is due at {before_ns} ns, after the schedule's end"
        )
    sealed = Seal(f"sha256:{digest.hexdigest()}", requests, header.duration_ns)
    out.write(_encoder.encode(sealed) + b"\n")
    return sealed


def _batches(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Entries as many at a time as fit one write, however large their bodies."""
    batch: list[Entry] = []
    held = 0
    for entry in entries:
        batch.append(entry)
        held += len(entry.body)
        if len(batch) == _LINES_A_WRITE or held > _BLOCK:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch


class _Columns(NamedTuple):
    """What is asked of each request without its line: 44 bytes a request.

    ``line``, ``body`` and ``end`` are where those lie in the file.
    """

    at_ns: array[int]
    line: array[int]
    body: array[int]
    end: array[int]
    group: array[int]
    prompt_tokens: array[int]
    max_tokens: array[int]


class Schedule:
    """A loaded schedule, or one stripe of it; bodies stay where the file is.

    Request ``i`` of a stripe is request ``seq(i)`` of the whole. Made by ``load``.
    ``requests`` and ``digest`` are those of the whole. The columns ``at_ns``,
    ``prompt_tokens`` and ``max_tokens`` (-1: the server's limit) are the entries',
    to be had without reading them.
    """

    def __init__(
        self,
        header: Header,
        sealed: Seal,
        view: memoryview,
        columns: _Columns,
        stripe: tuple[int, int],
    ) -> None:
        self.header = header
        self.digest = sealed.seal
        self.requests = sealed.requests
        self.duration_ns = sealed.duration_ns
        self.groups = header.groups
        self.at_ns = columns.at_ns
        self.prompt_tokens = columns.prompt_tokens
        self.max_tokens = columns.max_tokens
        self._view = view
        self._columns = columns
        self._stripe = stripe

    def __len__(self) -> int:
        return len(self.at_ns)

    def seq(self, index: int) -> int:
        """The place in the whole schedule of this stripe's request ``index``."""
        return self._stripe[0] + index * self._stripe[1]

    def entry(self, index: int) -> Entry:
        columns = self._columns
        return _entry.decode(self._view[columns.line[index] : columns.end[index]])

    def offset(self, index: int) -> int:
        """Where in the file that request's line begins."""
        return self._columns.line[index]

    def body(self, index: int) -> bytes:
        """The bytes to offer, exactly as they were sealed."""
        columns = self._columns
        return bytes(self._view[columns.body[index] : columns.end[index] - 1])

    def realised(self) -> Realised:
        """What is really offered, counted over the requests loaded here."""
        counts = [0] * len(self.groups)
        for place in self._columns.group:
            counts[place] += 1
        duration_s = self.duration_ns / NS_PER_S
        return Realised(
            requests=len(self),
            rate_rps=len(self) / duration_s,
            duration_s=duration_s,
            groups=dict(zip(self.groups, counts, strict=True)),
        )


def load(
    data: bytes | mmap | memoryview,
    *,
    verify: bool = True,
    stripe: tuple[int, int] = (0, 1),
    cut: bool = False,
) -> Schedule:
    """Open a sealed schedule; the data must outlive it.

    Args:
        data: the whole file.
        verify: compute the digest; False trusts the seal (another process did).
        stripe: ``(k, n)`` keeps the requests k, k + n, k + 2n, …
        cut: the file holds these requests alone, see ``plan.cut``.

    Raises:
        UsageError: no schedule, one of another version, truncated, or changed since
            it was sealed; the line is named where one is at fault.
    """
    view = memoryview(data)
    header, body_start = _read_header(view)
    seal_start = _last_line(view)
    sealed = _read_seal(view, seal_start, header)
    if verify:
        digest = f"sha256:{hashlib.sha256(view[:seal_start]).hexdigest()}"
        if digest != sealed.seal:
            raise _changed(view, header, body_start, seal_start, digest, sealed)
    kept = (0, 1) if cut else stripe
    columns = _columns(view[:seal_start], body_start, header, kept)
    expected = len(range(kept[0], sealed.requests, kept[1]))
    if len(columns.at_ns) != expected:
        raise UsageError(
            f"the schedule holds {len(columns.at_ns)} requests, its seal {expected}"
        )
    return Schedule(header, sealed, view, columns, stripe)


def _read_header(view: memoryview) -> tuple[Header, int]:
    """The header, and where the line after it starts."""
    if not len(view):
        raise UsageError("line 1: the schedule is empty")
    refuse_pointer(bytes(view[:400]))
    first = next(_lines(view, 0))
    try:
        named = _named.decode(first)
    except msgspec.DecodeError:
        named = Named()
    if not named.schema.startswith("loadgen.schedule/"):
        raise UsageError(
            "line 1: not a loadgen schedule", "write one with loadgen plan"
        )
    if named.schema != SCHEMA:
        raise UsageError(f"line 1: a schedule of another version ({named.schema})")
    try:
        header = _header.decode(first)
    except msgspec.DecodeError as error:
        raise UsageError(f"line 1: the header cannot be read: {error}") from None
    duration_ns = header.arrivals.get("duration_ns")
    if type(duration_ns) is not int or duration_ns < 1:
        raise UsageError("line 1: the header names no duration_ns above zero")
    return header, len(first) + 1


def _last_line(view: memoryview) -> int:
    """Where the last line starts; a seal is far shorter than what is looked at."""
    tail = bytes(view[-1024:])
    at = tail.rfind(b"\n", 0, -1)
    if tail[-1:] != b"\n" or at < 0 or not tail.startswith(b'{"seal":', at + 1):
        raise UsageError(
            "the last line is no seal: the schedule is truncated, added to or unsealed"
        )
    return len(view) - len(tail) + at + 1


def _read_seal(view: memoryview, start: int, header: Header) -> Seal:
    line = bytes(view[start:])
    try:
        sealed = _seal.decode(line)
    except msgspec.DecodeError as error:
        raise UsageError(f"the seal cannot be read: {error}") from None
    if (
        sealed.duration_ns != header.duration_ns
        or line != _encoder.encode(sealed) + b"\n"
    ):
        raise UsageError("the seal was changed: it does not fit the header")
    return sealed


def _changed(
    view: memoryview,
    header: Header,
    body_start: int,
    seal_start: int,
    digest: str,
    sealed: Seal,
) -> UsageError:
    """Why the digest differs, as far as the lines tell."""
    what = (
        f"the schedule was changed after it was sealed: it is {digest}, "
        f"its seal says {sealed.seal}"
    )
    try:
        columns = _columns(view[:seal_start], body_start, header, (0, 1))
    except UsageError as fault:
        return UsageError(f"{what}: {fault}")
    if len(columns.at_ns) != sealed.requests:
        what += f": it holds {len(columns.at_ns)} requests, not {sealed.requests}"
    return UsageError(what, "plan it again, or get the file again")


def _columns(
    view: memoryview, start: int, header: Header, stripe: tuple[int, int]
) -> _Columns:
    """Read the requests' lines from ``start`` on, those of the stripe only."""
    columns = _Columns(*(array(code) for code in "qQQQIii"))
    places = {name: place for place, name in enumerate(header.groups)}
    first, step = stripe
    at, before_ns = start, 0
    for number, line in enumerate(_lines(view, start)):
        if number % step == first:
            try:
                entry = _entry.decode(line)
                if entry.at_ns < before_ns:
                    raise ValueError("time goes back")
                body = len(line) - len(entry.body) - 1
                if line[body - len(_BODY_KEY) : body] != _BODY_KEY:
                    raise ValueError("the body is not the end of the line")
                columns.group.append(places[entry.group])
                columns.prompt_tokens.append(entry.prompt_tokens)
                limit = entry.max_tokens
                columns.max_tokens.append(-1 if limit is None else limit)
            except KeyError as error:
                raise UsageError(f"line {number + 2}: no group {error}") from None
            except (ValueError, OverflowError) as error:
                raise UsageError(f"line {number + 2}: {error}") from None
            before_ns = entry.at_ns
            columns.at_ns.append(before_ns)
            columns.line.append(at)
            columns.body.append(at + body)
            columns.end.append(at + len(line))
        at += len(line) + 1
    if before_ns >= header.duration_ns:
        raise UsageError(f"line {number + 2}: due after the schedule's end")
    return columns


def _lines(view: memoryview, start: int) -> Iterator[bytes]:
    """The lines from ``start`` on without their ends; memory is one block or line."""
    rest = b""
    for at in range(start, len(view), _BLOCK):
        lines = (rest + bytes(view[at : at + _BLOCK])).split(b"\n")
        rest = lines.pop()
        yield from lines
    if rest:
        yield rest
