"""``loadgen burst``: the main job."""

from __future__ import annotations

from loadgen.cli.options import (
    EvidenceFlags,
    OfferFlags,
    OutputFlags,
    PlanFlags,
    TargetFlags,
)

__all__ = ["burst"]


def burst(
    plan: PlanFlags,
    to: TargetFlags,
    how: OfferFlags,
    evidence: EvidenceFlags,
    output: OutputFlags,
) -> int:
    """Plan a schedule, offer it open-loop and once, and say what became of it.

    Without --url a stand-in engine is started on loopback, and every result says so.
    """
    from loadgen.cli.api import with_api
    from loadgen.cli.conduct import conduct
    from loadgen.cli.planning import make_plan
    from loadgen.cli.sources import FromPlan

    plan = with_api(plan, to)
    model = plan.model or (None if to.url else "stand-in")
    return conduct(
        FromPlan(make_plan(plan, to.endpoint), model), to, how, evidence, output
    )
