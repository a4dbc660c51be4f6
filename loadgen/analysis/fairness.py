"""Who was refused: each tenant's share of the load against its share of the loss."""

from __future__ import annotations

import msgspec

from loadgen.analysis.columns import Mask, RunData
from loadgen.analysis.latency import REFUSALS
from loadgen.analysis.stats import jain_index

__all__ = ["Fairness", "Tenant", "fairness"]

_DIGITS = 6


class Tenant(msgspec.Struct, frozen=True, kw_only=True):
    """One tenant's part. Shares are of the requests that name a tenant.

    ``refused`` counts answers that said no; ``refused_share`` is None when nobody
    was refused.
    """

    offered: int
    ok: int
    refused: int
    good: int
    offered_share: float
    refused_share: float | None
    goodput_ratio: float


class Fairness(msgspec.Struct, frozen=True, kw_only=True):
    """How evenly goodput fell. ``jain_index`` is over the tenants' goodput ratios.

    It is 1 when all are served alike and 1/n when one gets all; None when no
    request of any tenant was good.
    """

    tenants: dict[str, Tenant]
    jain_index: float | None


def fairness(data: RunData, good: Mask) -> Fairness | None:
    """None when the workload names no tenant."""
    offered = data.tenant.counts()
    if not offered:
        return None
    ok = data.tenant.counts(data.ok)
    refused = data.tenant.counts(data.outcome.where(*REFUSALS))
    well = data.tenant.counts(good)
    all_offered, all_refused = sum(offered.values()), sum(refused.values())
    tenants = {
        name: Tenant(
            offered=count,
            ok=ok.get(name, 0),
            refused=refused.get(name, 0),
            good=well.get(name, 0),
            offered_share=round(count / all_offered, _DIGITS),
            refused_share=round(refused.get(name, 0) / all_refused, _DIGITS)
            if all_refused
            else None,
            goodput_ratio=round(well.get(name, 0) / count, _DIGITS),
        )
        for name, count in offered.items()
    }
    index = jain_index([well.get(name, 0) / n for name, n in offered.items()])
    return Fairness(
        tenants=tenants, jain_index=None if index is None else round(index, _DIGITS)
    )
