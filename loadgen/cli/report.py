"""``loadgen report``: judge runs again, or what killed ones left; sweeps too."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from loadgen.cli.options import EvidenceFlags

__all__ = ["report"]


def report(
    run: Annotated[
        list[Path],
        Argument(help="Folders of runs or of sweeps, or a folder that holds them."),
    ],
    evidence: EvidenceFlags,
    slo: Annotated[str | None, Option(help="Other targets than the run's own.")] = None,
    html: Annotated[Path | None, Option(help="Write the page to this file.")] = None,
    export: Annotated[
        list[str] | None,
        Option(
            metavar="KIND=FILE",
            help="Write csv, json, junit, markdown, parquet, prometheus or "
            "vllm-bench to a file.",
        ),
    ] = None,
    gate: Annotated[
        str | None,
        Option(
            metavar="SHARE",
            help="Exit with 1 when fewer of the offered requests are good: 95%.",
        ),
    ] = None,
    json_: Annotated[bool, Option("--json", help="Print JSON.")] = False,
) -> int:
    """Judge from folders alone, finished or killed; nothing is sent.

    One run is shown in full, several in a table, a sweep by its curve.
    """
    from loadgen.cli.reporting import Wanted, report_on

    return report_on(
        run,
        Wanted(
            evidence=evidence,
            slo=slo,
            html=html,
            export=export,
            gate=gate,
            json_=json_,
        ),
    )
