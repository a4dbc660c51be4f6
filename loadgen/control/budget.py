"""What fits into a time, and how precise the knee can be expected to be.

The expectation comes from trials on simulated engines (``tests/perf``): the error of
a knee goes as one over the root of the requests offered at each rate, and its
interval has Student's factor for few schedules. Real engines differ by what they
are asked, so two ends of a range are told.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from loadgen.errors import UsageError
from loadgen.units import NS_PER_S, format_duration

__all__ = ["Fit", "Wanted", "expected_precision", "fit", "run_overhead_ns"]

SCHEDULES = 5
MIN_SCHEDULES = 3
RATES = 9
MIN_RATES = 5
SEARCH_RUNS = 6  # single runs that bracket the knee before its grid
DEFAULT_RUN_NS = 30 * NS_PER_S
MIN_RUN_NS = 10 * NS_PER_S
START_NS = 3 * NS_PER_S
DRAIN_SHARE = 0.25
_ERROR = (2.5, 6.5)
"""Error of the knee times the root of requests a rate: mild and long-tailed asks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the user fixed; None leaves it to the budget.

    Args:
        rates: how many rates; None where a count was not given.
        schedules: how many schedules a rate.
        run_ns: length of one run.
        budget_ns: time for all of it; None: as long as it takes.
        searching: the rates are to be found, which costs runs of its own.
        extra_runs: runs beside the rates, of three times the length (overload).
    """

    rates: int | None
    schedules: int | None
    run_ns: int | None
    budget_ns: int | None
    searching: bool = False
    extra_runs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """What will be done, and how long it is thought to take."""

    rates: int
    schedules: int
    run_ns: int
    takes_ns: int


def run_overhead_ns(run_ns: int) -> int:
    """Start, drain and settle of one run, before any was made."""
    return START_NS + round(DRAIN_SHARE * run_ns)


def fit(wanted: Wanted) -> Fit:
    """Share the time out: schedules first, then the length of a run, then rates.

    Raises:
        UsageError: not even the smallest sweep fits the budget.
    """
    if wanted.budget_ns is None:
        return _fit(
            wanted, wanted.rates or RATES, wanted.schedules or MIN_SCHEDULES, None
        )
    least = None
    for rates in _choices(wanted.rates, range(RATES, MIN_RATES - 1, -2)):
        for schedules in _choices(
            wanted.schedules, range(SCHEDULES, MIN_SCHEDULES - 1, -1)
        ):
            found = _fit(wanted, rates, schedules, wanted.budget_ns)
            if found.takes_ns <= wanted.budget_ns:
                return found
            least = found
    assert least is not None
    raise UsageError(
        f"--budget {format_duration(wanted.budget_ns)} is too short: the smallest "
        f"sweep ({least.rates} rates x {least.schedules} schedules of "
        f"{format_duration(least.run_ns)}) takes about "
        f"{format_duration(least.takes_ns)}",
        "raise --budget, or name fewer rates or a shorter --duration",
    )


def _choices(given: int | None, otherwise: range) -> list[int]:
    return [given] if given is not None else list(otherwise)


def _fit(wanted: Wanted, rates: int, schedules: int, budget_ns: int | None) -> Fit:
    runs = rates * schedules + (SEARCH_RUNS if wanted.searching else 0)
    lengths = runs + 3 * wanted.extra_runs
    starts_ns = (runs + wanted.extra_runs) * START_NS
    run_ns = wanted.run_ns or DEFAULT_RUN_NS
    if wanted.run_ns is None and budget_ns is not None:
        run_ns = int((budget_ns - starts_ns) / lengths / (1 + DRAIN_SHARE))
        run_ns = max(run_ns // NS_PER_S * NS_PER_S, MIN_RUN_NS)
    takes_ns = starts_ns + round(lengths * run_ns * (1 + DRAIN_SHARE))
    return Fit(rates=rates, schedules=schedules, run_ns=run_ns, takes_ns=takes_ns)


def expected_precision(
    rates_rps: tuple[float, ...], schedules: int, run_ns: int
) -> str | None:
    """What the 95 % interval of the knee may come to, in words.

    Args:
        rates_rps: the rates that will be offered; their middle stands for the knee.
        schedules: schedules a rate.
        run_ns: length of one run.

    Returns:
        None where the rates are not known yet.
    """
    if not rates_rps or schedules < 2:
        return None if not rates_rps else "no interval from one schedule"
    from scipy.stats import t

    middle_rps = math.sqrt(rates_rps[0] * rates_rps[-1])
    requests = max(middle_rps * run_ns / NS_PER_S, 1.0)
    student = float(t.ppf(0.975, schedules - 1))
    low, high = (student * error / math.sqrt(schedules * requests) for error in _ERROR)
    step = max(
        (b / a - 1 for a, b in pairwise(rates_rps)),
        default=0.0,
    )
    words = f"the knee to about +-{_percent(low)} to +-{_percent(high)} (95 %)"
    if step > 0.5:
        words += f"; the rates stand {_percent(step)} apart, which blurs it further"
    return words


def _percent(share: float) -> str:
    return "100 % or more" if share >= 1 else f"{share * 100:.2g} %"
