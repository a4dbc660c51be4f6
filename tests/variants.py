"""Sweeps side by side, made by hand."""

from __future__ import annotations

from collections.abc import Mapping

from loadgen.analysis.curve import SweepSummary
from loadgen.analysis.variants import VariantResult, VariantsSummary
from loadgen.model import Basis


def side_by_side(sweeps: Mapping[str, SweepSummary | None]) -> VariantsSummary:
    """One variant a sweep; None is one that came to nothing."""
    return VariantsSummary(
        basis=Basis.MEASURED,
        name="caps",
        started_utc="2026-12-01T00:00:00+00:00",
        loadgen_version="0.1.0",
        file="caps.toml",
        description="",
        variants=[
            VariantResult(
                name=name,
                folder=name,
                launch=["vllm", "serve"],
                standin=None,
                only=[],
                ready_s=1.0,
                sweep=sweep,
                trouble="it did not start" if sweep is None else None,
            )
            for name, sweep in sweeps.items()
        ],
        interference=[],
    )
