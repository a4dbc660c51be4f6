"""``loadgen report``: judge a run again, or what a killed one left."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

__all__ = ["report"]


def report(
    run: Annotated[Path, Argument(help="A run's folder.")],
    slo: Annotated[str | None, Option(help="Other targets than the run's own.")] = None,
    json_: Annotated[bool, Option("--json", help="Print JSON.")] = False,
) -> int:
    """Judge a run from its folder, finished or killed; nothing is sent or written."""
    from loadgen.analysis.attribution import Attributor
    from loadgen.analysis.goodput import parse_slo
    from loadgen.analysis.signatures import load_signatures
    from loadgen.cli.options import OutputFlags
    from loadgen.cli.show import Show
    from loadgen.control.judging import Judge
    from loadgen.store import RunDir

    folder = RunDir.open(run)
    config = folder.read_manifest().config
    judge = Judge(
        attribute=Attributor(load_signatures()),
        slo=parse_slo(slo if slo is not None else config["slo"]),
    )
    show = Show(OutputFlags(json_=json_), sys.stdout, sys.stderr)
    summary = judge.again(folder)
    show.result(summary, folder)
    return 0
