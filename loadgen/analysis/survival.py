"""Quantiles of times of which some were cut short: Kaplan-Meier.

A request that a limit of ours cut has waited at least so long. Leaving it out would
flatter the quantile, and calling its cut an answer would too; it is counted as
longer than what was seen. Where so many were cut that a quantile is not known, it
is not reached, and only a bound is told.
"""

from __future__ import annotations

import numpy as np

from loadgen.analysis.columns import Mask, RunData
from loadgen.analysis.curve import RunQuantile, RunQuantiles
from loadgen.analysis.latency import Gaps, Times
from loadgen.analysis.stats import Floats
from loadgen.model import Outcome
from loadgen.units import NS_PER_S

__all__ = ["LEVELS", "quantiles_s", "survival"]

LEVELS = (0.50, 0.90, 0.95, 0.99)
CUT = (Outcome.CANCELLED, Outcome.TIMEOUT, Outcome.STALLED)
"""Outcomes that a limit of ours decided: the answer might still have come."""
_DIGITS = 9


def quantiles_s(whole_ns: Floats, cut_ns: Floats) -> RunQuantiles:
    """The quantiles, in seconds, of times in ns.

    Args:
        whole_ns: times that ended by themselves; NaN is left out.
        cut_ns: how long those lasted that were cut; NaN is left out.
    """
    whole = whole_ns[np.isfinite(whole_ns)] / NS_PER_S
    cut = cut_ns[np.isfinite(cut_ns)] / NS_PER_S
    if not whole.size and not cut.size:
        return RunQuantiles()
    if not cut.size:
        values = np.quantile(whole, LEVELS, method="linear")
        found = [RunQuantile(value=round(float(v), _DIGITS)) for v in values]
    else:
        found = _kaplan_meier(whole, cut)
    p50, p90, p95, p99 = found
    return RunQuantiles(
        n=whole.size + cut.size, n_cut=cut.size, p50=p50, p90=p90, p95=p95, p99=p99
    )


def _kaplan_meier(whole: Floats, cut: Floats) -> list[RunQuantile]:
    from scipy.stats import CensoredData, ecdf

    estimate = ecdf(CensoredData(uncensored=whole, right=cut)).cdf
    longest = round(float(max(whole.max(initial=0), cut.max())), _DIGITS)
    found = []
    for level in LEVELS:
        at = int(np.searchsorted(estimate.probabilities, level - 1e-12))
        if at < estimate.probabilities.size:
            value = round(float(estimate.quantiles[at]), _DIGITS)
            found.append(RunQuantile(value=value))
        else:
            found.append(RunQuantile(value=None, above_s=longest))
    return found


def survival(
    data: RunData, times: Times, gaps: Gaps, rows: Mask | None = None
) -> dict[str, RunQuantiles]:
    """TTFT, ITL, TPOT and E2E of all requests, or of those marked.

    A refused or failed request has none of them: it is a loss, not a long wait.
    """
    among = np.ones(data.rows, dtype=np.bool_) if rows is None else rows
    was_cut = data.outcome.where(*CUT) & among
    waited = data.end_ns - data.scheduled_ns
    no_token = np.isnan(data.first_token_ns)
    gap_rows = among[gaps.row]
    return {
        "ttft_s": quantiles_s(times.ttft[among], waited[was_cut & no_token]),
        "itl_s": quantiles_s(
            gaps.ns[gaps.exact & gap_rows].astype(np.float64),
            (data.end_ns - data.last_token_ns)[was_cut],
        ),
        "tpot_s": quantiles_s(times.tpot[among & data.ok], np.empty(0)),
        "e2e_s": quantiles_s(times.e2e[among], waited[was_cut]),
    }
