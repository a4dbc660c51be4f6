"""Many shards in the order they ended, to one file in the order they were due."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from loadgen.model import NO_RECORD, Attribution, Ending, Outcome, RequestRecord
from loadgen.store.files import atomic_file
from loadgen.store.lines import UNREADABLE, Index, note

__all__ = [
    "Attribute",
    "Merged",
    "Planned",
    "ShardRecords",
    "attributed",
    "lost_record",
    "merge",
]

Attribute = Callable[[RequestRecord], Attribution | None]
Planned = Callable[[int], RequestRecord | None]
"""From a ``seq`` without a record to the one that stands for it, if one can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """What a merge found.

    ``lost`` counts the offered requests of which no record was written;
    ``flaws`` are words for torn, damaged and surplus lines, which are left out.
    """

    records: int
    lost: int
    flaws: tuple[str, ...]
    digest: str


def lost_record(
    seq: int,
    *,
    request_id: str,
    scheduled_ns: int,
    group: str,
    tenant: str | None = None,
    max_tokens: int | None = None,
    planned_prompt_tokens: int | None = None,
) -> RequestRecord:
    """The record of a request whose process was killed before it could write one.

    Its outcome is ``internal`` with the detail ``NO_RECORD``, so that outcomes
    sum to the offered count; nothing is known of what became of it.
    """
    return RequestRecord(
        seq=seq,
        request_id=request_id,
        scheduled_ns=scheduled_ns,
        group=group,
        tenant=tenant,
        max_tokens=max_tokens,
        planned_prompt_tokens=planned_prompt_tokens,
        outcome=Outcome.INTERNAL,
        ending=Ending.INTERNAL,
        detail=NO_RECORD,
    )


def merge(
    index: Index, into: Path, *, attribute: Attribute, planned: Planned | None
) -> Merged:
    """Write all records to one file, sorted by ``seq``, with attribution filled in.

    The line of an ok request is copied byte for byte. Memory does not grow with
    the records.

    Raises:
        RunDirError: the file cannot be written; the sources are untouched.
    """
    digest = hashlib.sha256()
    encode = msgspec.json.Encoder().encode
    with atomic_file(into) as out:
        for item in _in_order(index, attribute, planned):
            line = (item if isinstance(item, bytes) else encode(item)) + b"\n"
            digest.update(line)
            out.write(line)
    return Merged(
        records=index.found,
        lost=len(index) - index.found,
        flaws=tuple(index.flaws),
        digest=f"sha256:{digest.hexdigest()}",
    )


class ShardRecords:
    """The records of shards that were never merged, sorted by ``seq``, unwritten."""

    def __init__(
        self, index: Index, *, attribute: Attribute | None, planned: Planned | None
    ) -> None:
        self._index, self._attribute, self._planned = index, attribute, planned
        self.flaws = index.flaws

    def __iter__(self) -> Iterator[RequestRecord]:
        decode = msgspec.json.Decoder(RequestRecord).decode
        for item in _in_order(self._index, self._attribute, self._planned):
            if not isinstance(item, bytes):
                yield item
                continue
            try:
                yield decode(item)
            except UNREADABLE as error:
                note(self.flaws, f"a record is damaged and was left out ({error})")


def attributed(record: RequestRecord, attribute: Attribute | None) -> RequestRecord:
    """The record with its attribution as ``attribute`` sees it."""
    if attribute is None:
        return record
    return msgspec.structs.replace(record, attribution=attribute(record))


def _in_order(
    index: Index, attribute: Attribute | None, planned: Planned | None
) -> Iterator[bytes | RequestRecord]:
    """Per offered request, in order: its line as it is, or its record if changed."""
    decode = msgspec.json.Decoder(RequestRecord).decode
    for seq, line, is_ok in index.lines():
        if line is None:
            stand_in = planned(seq) if planned is not None else None
            if stand_in is not None:
                yield attributed(stand_in, attribute)
        elif is_ok or attribute is None:
            yield line
        else:
            try:
                record = decode(line)
            except UNREADABLE:
                yield line  # whoever reads the file tells of the damage
            else:
                yield attributed(record, attribute)
