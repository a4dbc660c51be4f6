"""A schedule dealt out, so that each of many machines gets its own share alone."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import BinaryIO

import msgspec

from loadgen.errors import UsageError
from loadgen.plan.lines import Seal

__all__ = ["cut"]

_SEAL = b'{"seal":'


def cut(source: BinaryIO, shares: Sequence[BinaryIO]) -> None:
    """Write stripe ``i`` of so many as there are shares to ``shares[i]``.

    Each becomes a sealed schedule of its own, with the same header; ``load`` it with
    ``cut=True``. Memory is one line.

    Args:
        source: a sealed schedule, at its start.
        shares: where each stripe is written.

    Raises:
        UsageError: it is not as it was sealed.
    """
    header = source.readline()
    whole = hashlib.sha256(header)
    digests = [whole.copy() for _ in shares]
    counts = [0] * len(shares)
    for share in shares:
        share.write(header)
    line, turn = source.readline(), 0
    while line and not line.startswith(_SEAL):
        whole.update(line)
        shares[turn].write(line)
        digests[turn].update(line)
        counts[turn] += 1
        turn = (turn + 1) % len(shares)
        line = source.readline()
    sealed = _read_seal(line)
    if sealed.seal != f"sha256:{whole.hexdigest()}":
        raise UsageError("the schedule was changed after it was sealed")
    for share, digest, count in zip(shares, digests, counts, strict=True):
        seal = Seal(f"sha256:{digest.hexdigest()}", count, sealed.duration_ns)
        share.write(msgspec.json.encode(seal) + b"\n")


def _read_seal(line: bytes) -> Seal:
    try:
        return msgspec.json.decode(line, type=Seal)
    except msgspec.DecodeError:
        raise UsageError("the schedule has no seal at its end") from None
