"""``loadgen sweep``: goodput against offered load, and where it breaks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Option

from loadgen.cli.options import (
    EvidenceFlags,
    OfferFlags,
    OutputFlags,
    PlanFlags,
    TargetFlags,
)

__all__ = ["DEFAULTS", "WITHOUT", "SweepFlags", "sweep"]

_SWEEP = "What is swept"

WITHOUT = ("rate", "rate_end", "on", "off", "time_unit", "time_scale")
"""Flags of a single run that a sweep has not."""
DEFAULTS = {"drain": "1m", "warmup": 4}
"""An overloaded run would drain for long, and requests cut by it are told as such;
the warm-up comes once, before the first run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepFlags:
    """Which loads, how often, and for how long."""

    rates: Annotated[
        str,
        Option(
            help="2/s,4/s,8/s, or 2/s..40/s, or 2/s..40/s:8 for eight of them, or "
            "auto (auto:0.5/s) to look for the knee.",
            rich_help_panel=_SWEEP,
        ),
    ] = "auto"
    schedules: Annotated[
        int | None,
        Option(
            min=1,
            max=100,
            help="Independent schedules at each rate. Default: 3; 3 to 5 by --budget.",
            rich_help_panel=_SWEEP,
        ),
    ] = None
    budget: Annotated[
        str | None,
        Option(
            help="Time for all of it, 20m: plans what fits.", rich_help_panel=_SWEEP
        ),
    ] = None
    target: Annotated[
        str,
        Option(
            help="Share of offered requests that must be good at the knee.",
            rich_help_panel=_SWEEP,
        ),
    ] = "95%"
    settle: Annotated[
        str,
        Option(
            help="Rest between runs where the engine does not tell of its queue.",
            rich_help_panel=_SWEEP,
        ),
    ] = "5s"
    overload: Annotated[
        bool,
        Option(
            "--overload",
            help="In the end step past capacity and back: does it recover?",
            rich_help_panel=_SWEEP,
        ),
    ] = False
    variants: Annotated[
        Path | None,
        Option(
            help="TOML file of variants (server flags, groups), each swept alike.",
            rich_help_panel=_SWEEP,
        ),
    ] = None
    standin: Annotated[
        str | None,
        Option(
            help="Flags of the stand-in, as `loadgen serve` takes them.",
            rich_help_panel=_SWEEP,
        ),
    ] = None
    resume: Annotated[
        Path | None,
        Option(
            help="Go on with the sweep in this folder, as it was asked for.",
            rich_help_panel=_SWEEP,
        ),
    ] = None


def sweep(
    what: SweepFlags,
    plan: PlanFlags,
    to: TargetFlags,
    how: OfferFlags,
    evidence: EvidenceFlags,
    output: OutputFlags,
) -> int:
    """Offer several loads, each by several sealed schedules, and find the knee.

    Each run is an open-loop burst of its own, in a folder of its own below the
    sweep's. Without --url one stand-in engine serves the whole sweep.
    """
    from loadgen.cli.sweep_plan import Asked
    from loadgen.cli.sweeping import conduct_sweep

    return conduct_sweep(
        Asked(what=what, plan=plan, to=to, how=how, evidence=evidence, output=output)
    )
