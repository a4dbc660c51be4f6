"""The run directory: the only bridge between sending and judging."""

from __future__ import annotations

from loadgen.store.lines import LineStream
from loadgen.store.merge import Merged, lost_record
from loadgen.store.rundir import RunDir

__all__ = ["LineStream", "Merged", "RunDir", "lost_record"]
