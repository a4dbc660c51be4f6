"""Refusals by layer while the run is going, read from the records as they land."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from loadgen.model import Attribution, Layer, Outcome, RequestRecord
from loadgen.store.lines import UNREADABLE

__all__ = ["LayerTail"]

MAX_BYTES_A_TICK = 4 << 20


class _Glance(msgspec.Struct):
    """As much of a record as tells whether the rest is worth decoding."""

    outcome: Outcome


class LayerTail:
    """Counts lost requests by layer, as far as the shards have been read.

    It reads at most 4 MiB a tick, so on a very fast run the counts trail behind;
    the judgement never comes from here.
    """

    def __init__(
        self,
        shards: Sequence[Path],
        attribute: Callable[[RequestRecord], Attribution | None],
    ) -> None:
        self._shards = [_Shard(path) for path in shards]
        self._attribute = attribute
        self._glance = msgspec.json.Decoder(_Glance)
        self._whole = msgspec.json.Decoder(RequestRecord)
        self.by_layer: Counter[Layer] = Counter()

    def tick(self) -> Counter[Layer]:
        """Read what was appended since the last tick."""
        for shard in self._shards:
            for line in shard.more(MAX_BYTES_A_TICK // len(self._shards)):
                self._count(line)
        return self.by_layer

    def _count(self, line: bytes) -> None:
        try:
            if self._glance.decode(line).outcome is Outcome.OK:
                return
            attribution = self._attribute(self._whole.decode(line))
        except UNREADABLE:
            return
        if attribution is not None:
            self.by_layer[attribution.layer] += 1

    def close(self) -> None:
        for shard in self._shards:
            shard.close()


class _Shard:
    """One file that grows; it may not be there yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._rest = b""

    def more(self, at_most_bytes: int) -> list[bytes]:
        """The lines that have become whole."""
        if self._file is None:
            if not self._path.exists():
                return []
            self._file = self._path.open("rb")
        *lines, self._rest = (self._rest + self._file.read(at_most_bytes)).split(b"\n")
        return lines

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
