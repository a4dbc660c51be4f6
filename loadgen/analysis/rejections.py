"""The table an operator needs: which layer lost requests, and what ran out."""

from __future__ import annotations

import msgspec
import numpy as np

from loadgen.analysis.columns import Mask, RunData
from loadgen.analysis.lengths import Lengths, prompt_lengths
from loadgen.model import (
    NO_RECORD,
    RESOURCE_UNIT,
    Accepted,
    Confidence,
    Layer,
    Outcome,
    Resource,
)

__all__ = ["NO_STATUS", "Rejection", "rejections"]

NO_STATUS = "none"
"""Key in ``statuses`` of the requests that had no HTTP answer."""


class Rejection(msgspec.Struct, frozen=True, kw_only=True):
    """Requests lost at one layer for want of one thing.

    The counts of all rows and the ok requests sum to the offered ones. Each of
    ``by_outcome``, ``by_group`` and ``statuses`` sums to ``count``, but for
    requests without a record, which have no group.
    """

    layer: Layer
    limiting_resource: Resource
    unit: str
    count: int
    by_outcome: dict[str, int]
    by_group: dict[str, int]
    statuses: dict[str, int]
    accepted: Accepted
    evidence: list[str]
    confidence: Confidence
    prompt_tokens: Lengths


def rejections(data: RunData) -> list[Rejection]:
    """One row a cause, the most frequent first."""
    rows = [_row(data, number) for number in range(len(data.causes))]
    if data.unrecorded:
        rows.append(_unrecorded(data.unrecorded))
    return sorted(rows, key=lambda row: -row.count)


def _row(data: RunData, number: int) -> Rejection:
    cause = data.causes[number]
    mask = data.cause == number
    evidence = list(cause.evidence)
    if cause.more_evidence:
        evidence.append("more of the kind, not listed")
    return Rejection(
        layer=cause.layer,
        limiting_resource=cause.resource,
        unit=RESOURCE_UNIT[cause.resource],
        count=int(mask.sum()),
        by_outcome=data.outcome.counts(mask),
        by_group=data.group.counts(mask),
        statuses=_statuses(data, mask),
        accepted=cause.accepted,
        evidence=evidence,
        confidence=cause.confidence,
        prompt_tokens=prompt_lengths(data, mask),
    )


def _statuses(data: RunData, mask: Mask) -> dict[str, int]:
    found = data.status[mask]
    codes, counts = np.unique(found[np.isfinite(found)], return_counts=True)
    by_status = {
        str(int(code)): int(count) for code, count in zip(codes, counts, strict=True)
    }
    without = int(np.isnan(found).sum())
    return by_status | ({NO_STATUS: without} if without else {})


def _unrecorded(count: int) -> Rejection:
    return Rejection(
        layer=Layer.CLIENT,
        limiting_resource=Resource.OTHER,
        unit=RESOURCE_UNIT[Resource.OTHER],
        count=count,
        by_outcome={Outcome.INTERNAL: count},
        by_group={},
        statuses={NO_STATUS: count},
        accepted=Accepted.UNKNOWN,
        evidence=[NO_RECORD],
        confidence=Confidence.HIGH,
        prompt_tokens=Lengths(by_source={}, n_missing=count),
    )
