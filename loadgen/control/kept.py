"""What a manifest keeps for a later judgement, checked: anybody may have edited it."""

from __future__ import annotations

from typing import Annotated

import msgspec

from loadgen.errors import RunDirError
from loadgen.model import Manifest
from loadgen.telemetry.samples import Watched

__all__ = ["Kept", "kept_in"]

MAX_OFFERED = 100_000_000  # more than a run can hold


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """The part of ``Manifest.config`` that is read again.

    Attributes:
        slo: the targets as they were typed; None in a manifest made by hand.
        model: the model asked for.
        stream: whether answers were streams.
        asked: rate and duration as asked for.
        watched: what was watched; None: nothing was.
        request_id_prefix: what every request's id begins with.
        processes: issuing processes.
    """

    slo: str | None = None
    model: str | None = None
    stream: bool = True
    asked: dict[str, float | None] = {}
    watched: Watched | None = None
    request_id_prefix: str | None = None
    processes: Annotated[int, msgspec.Meta(ge=1, le=4096)] = 1


def kept_in(manifest: Manifest) -> Kept:
    """Read it.

    Raises:
        RunDirError: it is not what a run writes.
    """
    try:
        kept = msgspec.convert(manifest.config, Kept)
    except msgspec.ValidationError as error:
        raise RunDirError(f"the manifest's config is damaged: {error}") from None
    if not 0 <= manifest.offered_requests <= MAX_OFFERED:
        raise RunDirError(
            f"the manifest is damaged: it offers {manifest.offered_requests} requests"
        )
    return kept
