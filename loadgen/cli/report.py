"""``loadgen report``: judge a run again, or what a killed one left."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from loadgen.cli.options import EvidenceFlags

__all__ = ["report"]


def report(
    run: Annotated[Path, Argument(help="A run's folder.")],
    evidence: EvidenceFlags,
    slo: Annotated[str | None, Option(help="Other targets than the run's own.")] = None,
    json_: Annotated[bool, Option("--json", help="Print JSON.")] = False,
) -> int:
    """Judge a run from its folder, finished or killed; nothing is sent or written."""
    from loadgen.analysis.goodput import parse_slo
    from loadgen.cli.evidence import judge_by
    from loadgen.cli.options import OutputFlags
    from loadgen.cli.show import Show
    from loadgen.store import RunDir

    folder = RunDir.open(run)
    config = folder.read_manifest().config
    limits = parse_slo(slo if slo is not None else config["slo"])
    summary = judge_by(evidence, limits, from_now=False).again(folder)
    Show(OutputFlags(json_=json_), sys.stdout, sys.stderr).result(summary, folder)
    return 0
