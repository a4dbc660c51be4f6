"""``loadgen plan``: write a sealed schedule, send nothing."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

from typer import Option

from loadgen.cli.options import PlanFlags

__all__ = ["plan"]


def plan(
    flags: PlanFlags,
    out: Annotated[Path, Option(help="File to write.")],
    endpoint: Annotated[
        str | None, Option(help="Path to post to. Default: the protocol's.")
    ] = None,
) -> int:
    """Plan a schedule and seal it: arrivals and exact bodies under one digest."""
    from loadgen.cli.planning import make_plan, write_schedule
    from loadgen.errors import UsageError

    if out.exists() and not out.is_file():  # a device must not be put aside
        raise UsageError(f"--out {out} is no regular file")
    decided = make_plan(flags, endpoint)
    model = flags.model or "stand-in"
    part = out.with_name(f"{out.name}.part")
    try:
        with part.open("wb") as file:
            seal = write_schedule(decided, model, file)
        os.replace(part, out)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise UsageError(f"--out {out}: {error.strerror}") from None
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    duration_s = decided.asked.duration_s
    lines = [
        f"{out}",
        f"  {seal.requests:,} requests in {duration_s:g} s "
        f"({seal.requests / duration_s:.4g}/s; asked {decided.asked.rate_rps:.4g}/s), "
        f"model {model!r}",
        f"  {seal.seal}",
        *(f"  note: {note}" for note in decided.notes),
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0
