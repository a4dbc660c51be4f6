"""``loadgen replay``: a sealed schedule, byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument

from loadgen.cli.options import EvidenceFlags, OfferFlags, OutputFlags, TargetFlags

__all__ = ["replay"]


def replay(
    file: Annotated[Path, Argument(help="A schedule that `loadgen plan` wrote.")],
    to: TargetFlags,
    how: OfferFlags,
    evidence: EvidenceFlags,
    output: OutputFlags,
) -> int:
    """Offer a sealed schedule exactly as it was planned; an edited one is refused."""
    from loadgen.cli.conduct import conduct
    from loadgen.cli.sources import FromFile
    from loadgen.errors import UsageError

    if to.endpoint is not None:
        raise UsageError("--endpoint would change a sealed schedule", "plan it anew")
    return conduct(FromFile(file), to, how, evidence, output)
