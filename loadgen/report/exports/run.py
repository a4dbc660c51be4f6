"""What every export of a run is made from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from loadgen.analysis.columns import Mask, RunData
from loadgen.analysis.goodput import good_rows, meets
from loadgen.analysis.latency import Times, times_of
from loadgen.analysis.summary import Summary, Terms
from loadgen.model import Manifest, RequestRecord

__all__ = ["Exported"]


@dataclass(frozen=True, kw_only=True)
class Exported:
    """A judged run.

    Args:
        summary: the judgement.
        manifest: what was run.
        data: the columns that were judged.
        terms: what they were judged by.
        records: once more, in the order of the columns.
        gate: the goodput ratio asked for; None: no gate.
    """

    summary: Summary
    manifest: Manifest
    data: RunData
    terms: Terms
    records: Iterable[RequestRecord]
    gate: float | None = None

    @cached_property
    def times(self) -> Times:
        return times_of(self.data)

    @cached_property
    def good(self) -> Mask:
        terms = self.terms
        kept = meets(terms.slo, self.data, self.times, stream=terms.stream)
        return good_rows(kept, self.data.ok)
