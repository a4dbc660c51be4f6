"""Refusals by layer while the run is going, read from the records as they land."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import msgspec

from loadgen.model import Attribution, Layer, Outcome, RequestRecord

__all__ = ["LayerTail"]

MAX_BYTES_A_TICK = 4 << 20


class _Glance(msgspec.Struct):
    """As much of a record as tells whether the rest is worth decoding."""

    outcome: Outcome


class LayerTail:
    """Counts lost requests by layer, as far as the shard has been read.

    It reads at most 4 MiB a tick, so on a very fast run the counts trail behind;
    the judgement never comes from here.
    """

    def __init__(
        self, shard: Path, attribute: Callable[[RequestRecord], Attribution | None]
    ) -> None:
        self._path = shard
        self._attribute = attribute
        self._file: BinaryIO | None = None
        self._rest = b""
        self._glance = msgspec.json.Decoder(_Glance)
        self._whole = msgspec.json.Decoder(RequestRecord)
        self.by_layer: Counter[Layer] = Counter()

    def tick(self) -> Counter[Layer]:
        """Read what was appended since the last tick."""
        if self._file is None:
            if not self._path.exists():
                return self.by_layer
            self._file = self._path.open("rb")
        *lines, self._rest = (self._rest + self._file.read(MAX_BYTES_A_TICK)).split(
            b"\n"
        )
        for line in lines:
            self._count(line)
        return self.by_layer

    def _count(self, line: bytes) -> None:
        try:
            if self._glance.decode(line).outcome is Outcome.OK:
                return
            attribution = self._attribute(self._whole.decode(line))
        except msgspec.DecodeError:
            return
        if attribution is not None:
            self.by_layer[attribution.layer] += 1

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
