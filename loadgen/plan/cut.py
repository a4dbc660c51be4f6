"""A schedule dealt out, so that each of many machines gets its own share alone."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import BinaryIO

import msgspec

from loadgen.plan.lines import Seal

__all__ = ["cut"]

_SEAL = b'{"seal":'


def cut(source: BinaryIO, shares: Sequence[BinaryIO]) -> None:
    """Write stripe ``i`` of so many as there are shares to ``shares[i]``.

    Each becomes a sealed schedule of its own, with the same header; ``load`` it with
    ``cut=True``. Memory is one line.

    Args:
        source: a sealed schedule that was verified, at its start.
        shares: at least one request must fall to each.
    """
    header = source.readline()
    digests = [hashlib.sha256(header) for _ in shares]
    counts = [0] * len(shares)
    for share in shares:
        share.write(header)
    line, turn = source.readline(), 0
    while not line.startswith(_SEAL):
        shares[turn].write(line)
        digests[turn].update(line)
        counts[turn] += 1
        turn = (turn + 1) % len(shares)
        line = source.readline()
    duration_ns = msgspec.json.decode(line, type=Seal).duration_ns
    for share, digest, count in zip(shares, digests, counts, strict=True):
        seal = Seal(f"sha256:{digest.hexdigest()}", count, duration_ns)
        share.write(msgspec.json.encode(seal) + b"\n")
