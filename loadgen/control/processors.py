"""Who used this machine's processors: we and what we started, or others."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import NamedTuple

__all__ = ["Processors", "others_share"]


class Processors(NamedTuple):
    """Seconds of processor time so far, over all processors.

    Attributes:
        total_s: of any kind, idle too.
        taken_s: not idle, or given to another machine by the hypervisor.
        ours_s: this process and its children that have ended.
    """

    total_s: float
    taken_s: float
    ours_s: float

    @classmethod
    def now(cls) -> Processors | None:
        """As it stands; None where the system does not tell."""
        try:
            line = Path("/proc/stat").read_text("ascii").partition("\n")[0]
            user, nice, system, idle, waiting, *rest = map(int, line.split()[1:9])
        except (OSError, ValueError):
            return None
        tick = os.sysconf("SC_CLK_TCK")
        taken = user + nice + system + sum(rest)
        used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        ours_s = sum(one.ru_utime + one.ru_stime for one in used)
        return cls((taken + idle + waiting) / tick, taken / tick, ours_s)


def others_share(before: Processors | None, after: Processors | None) -> float | None:
    """The share of all processor time that went to others; None: not told."""
    if before is None or after is None or after.total_s <= before.total_s:
        return None
    others_s = (after.taken_s - before.taken_s) - (after.ours_s - before.ours_s)
    return round(max(0.0, others_s / (after.total_s - before.total_s)), 3)
