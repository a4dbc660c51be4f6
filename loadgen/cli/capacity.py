"""A schedule held against what this machine was measured to manage, before t0."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from loadgen.analysis.goodput import Slo
from loadgen.analysis.validity import lag_limit_ns
from loadgen.cli.engines import engine_of
from loadgen.cli.options import OfferFlags
from loadgen.control.capacity import (
    calibration_path,
    demand_of,
    read_calibration,
    shortfalls,
    this_machine,
)
from loadgen.control.judging import open_schedule
from loadgen.errors import UsageError

__all__ = ["check_capacity"]

_REMEDY = "use --processes N, fewer streams at a time, or another machine"


def check_capacity(
    schedule: Path, slo: Slo, how: OfferFlags, say: Callable[[str], None]
) -> None:
    """Warn of what this machine may not manage; refuse it where asked to.

    Args:
        schedule: the sealed file, opened if there is something to hold it against.
        slo: its TTFT target bounds how late a send may be.
        how: for the number of processes, and whether to be strict.
        say: told each warning.

    Raises:
        UsageError: strict, and it does not fit or is not known to.
    """
    if engine_of(how).remote:
        return  # what other machines can is not known here
    machine = this_machine()
    can = read_calibration(calibration_path(os.environ, machine), machine)
    if can is None:
        if how.strict:
            raise UsageError(
                "--strict: this machine, Python and loadgen were never measured",
                "run loadgen calibrate first",
            )
        return
    found = shortfalls(
        demand_of(open_schedule(schedule, verify=False)),
        can,
        processes=how.processes,
        lag_limit_ns=lag_limit_ns(slo),
    )
    for words in found:
        if how.strict:
            raise UsageError(f"--strict: {words}", _REMEDY)
        say(f"warning: {words}; {_REMEDY}")
