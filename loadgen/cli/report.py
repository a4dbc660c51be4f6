"""``loadgen report``: judge a run again, or what a killed one left."""

from __future__ import annotations

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
    return 0
