"""The knee: the highest rate at which enough of the offered requests are good.

A grid of rates, a fit that never rises, and the point where it crosses the target.
Each schedule is offered at every rate, so it is the schedules that are drawn again
for the interval: requests that share a queue are no independent sample.

With few schedules a bootstrap is too sure of itself by ``sqrt(n / (n - 1))`` and
by the ratio of Student's to the normal quantile: its deviation from the estimate is
stretched by both, on the logarithm of the rate. And a schedule that congests early
is rare, so a few of them seldom show that side: both sides take the larger
deviation. ``tests/perf/knee_trials.py`` shows what the interval is worth.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from itertools import combinations_with_replacement
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from loadgen.analysis.stats import Floats

__all__ = ["Flag", "Knee", "Sample", "find_knee"]

DRAWS = 2000
MIN_SCHEDULES = 3
CLIFF_DROP = 0.25
MIN_RISE = 0.02
_Z95 = 1.959963984540054
_DIGITS = 6


class Flag:
    """What to know before a knee is used; the words of ``Knee.flags``."""

    NEVER_SATURATED = "never_saturated"
    FAILS_AT_LOWEST = "fails_at_lowest"
    NOT_MONOTONE = "not_monotone"
    CLIFF = "cliff"
    CLIENT_LIMITED = "client_limited"
    ENGINE_RESTARTED = "engine_restarted"
    FEW_SCHEDULES = "few_schedules"


class Knee(msgspec.Struct, frozen=True, kw_only=True):
    """The highest rate with goodput at ``target`` or above.

    ``rate_rps`` is None where the target is met at every rate or at none: then
    ``at_least_rps`` or ``below_rps`` is the bound, and no measure of capacity. An
    end of ``ci95`` is None where it lies outside the rates that were offered;
    ``ci95`` is None where nothing can be said (one schedule, or no crossing).
    ``between_rps`` are the two offered rates that the crossing lies between.
    ``text`` says all this in words.
    """

    rate_rps: float | None
    ci95: tuple[float | None, float | None] | None
    target: float
    flags: list[str]
    at_least_rps: float | None
    below_rps: float | None
    between_rps: tuple[float, float] | None
    schedules: int
    text: str


class Sample(NamedTuple):
    """One usable run: its goodput ratio at a rate, and which schedule it offered."""

    rate_rps: float
    schedule: int
    ratio: float


def find_knee(
    samples: Collection[Sample],
    target: float,
    *,
    seed: int = 0,
    known: Sequence[str] = (),
) -> Knee:
    """Estimate the knee from the usable runs of a sweep.

    Args:
        samples: one a run; a schedule may be missing at some rates.
        target: the goodput ratio asked for, above 0 and up to 1.
        seed: of the bootstrap, where not all draws can be enumerated.
        known: flags that the runs raise by themselves.
    """
    if not samples:
        return _no_knee(target, known)
    grid = _Grid.of(samples)
    fit = grid.fit(np.ones(grid.schedules))
    at = _crossing(grid.rates, fit, target)
    flags = [*known, *grid.flags(fit, at, target)]
    inside = 0 < at < math.inf
    interval = grid.interval(at, target, seed) if inside else None
    last = int(np.searchsorted(grid.rates, at, side="right")) - 1
    knee = Knee(
        rate_rps=_rounded(at) if inside else None,
        ci95=interval,
        target=target,
        flags=flags,
        at_least_rps=_rounded(grid.rates[-1]) if at == math.inf else None,
        below_rps=_rounded(grid.rates[0]) if at == 0 else None,
        between_rps=grid.step(last) if inside else None,
        schedules=grid.schedules,
        text="",
    )
    return msgspec.structs.replace(knee, text=_words(knee))


def _no_knee(target: float, known: Sequence[str]) -> Knee:
    return Knee(
        rate_rps=None,
        ci95=None,
        target=target,
        flags=list(known),
        at_least_rps=None,
        below_rps=None,
        between_rps=None,
        schedules=0,
        text="not known: no run can be used",
    )


class _Grid(NamedTuple):
    """Goodput by schedule (row) and rate (column); NaN where there is no run."""

    rates: Floats
    ratios: NDArray[np.float64]

    @classmethod
    def of(cls, samples: Collection[Sample]) -> _Grid:
        rates = sorted({sample.rate_rps for sample in samples})
        schedules = sorted({sample.schedule for sample in samples})
        row = {schedule: at for at, schedule in enumerate(schedules)}
        column = {rate: at for at, rate in enumerate(rates)}
        ratios = np.full((len(schedules), len(rates)), np.nan)
        for sample in samples:
            ratios[row[sample.schedule], column[sample.rate_rps]] = sample.ratio
        return cls(np.array(rates), ratios)

    @property
    def schedules(self) -> int:
        return len(self.ratios)

    def means(self, times: Floats) -> tuple[Floats, Floats]:
        """Mean ratio at each rate, each schedule counted so many times; its weight."""
        weights = times @ np.isfinite(self.ratios)
        sums = times @ np.nan_to_num(self.ratios)
        return sums / np.where(weights > 0, weights, 1), weights

    def fit(self, times: Floats) -> Floats:
        """The closest curve that never rises, at every rate with a run."""
        from scipy.optimize import isotonic_regression

        means, weights = self.means(times)
        there = weights > 0
        fitted = np.full(means.size, np.nan)
        fitted[there] = isotonic_regression(
            means[there], weights=weights[there], increasing=False
        ).x
        return fitted

    def step(self, last: int) -> tuple[float, float]:
        nearest = min(last + 1, self.rates.size - 1)
        return _rounded(self.rates[last]), _rounded(self.rates[nearest])

    def flags(self, fit: Floats, at: float, target: float) -> Iterator[str]:
        if at == math.inf:
            yield Flag.NEVER_SATURATED
        if at == 0:
            yield Flag.FAILS_AT_LOWEST
        if self._rises():
            yield Flag.NOT_MONOTONE
        last = int((fit >= target).sum()) - 1
        if 0 <= last < fit.size - 1 and fit[last] - fit[last + 1] >= CLIFF_DROP:
            yield Flag.CLIFF
        if self.schedules < MIN_SCHEDULES:
            yield Flag.FEW_SCHEDULES

    def _rises(self) -> bool:
        """Whether goodput rises with the load by more than chance would have it."""
        for higher in range(1, self.rates.size):
            rise = self.ratios[:, higher] - self.ratios[:, higher - 1]
            rise = rise[np.isfinite(rise)]
            if rise.size < 2 or rise.mean() <= MIN_RISE:
                continue
            chance = rise.std(ddof=1) / math.sqrt(rise.size)
            if rise.mean() > 2 * chance:
                return True
        return False

    def interval(
        self, at: float, target: float, seed: int
    ) -> tuple[float | None, float | None] | None:
        if self.schedules < 2:
            return None
        draws, chances = _draws(self.schedules, seed)
        knees = np.array(
            [_crossing(self.rates, self.fit(times), target) for times in draws]
        )
        order = np.argsort(knees)
        below = np.cumsum(chances[order])
        places = np.minimum(np.searchsorted(below, (0.025, 0.975)), knees.size - 1)
        drawn_low, drawn_high = (float(knees[order][place]) for place in places)
        far = self._farthest((drawn_low, drawn_high), at)
        low = at / far if drawn_low > 0 else -math.inf
        high = at * far if drawn_high < math.inf else math.inf
        return (
            _rounded(low) if low >= self.rates[0] else None,
            _rounded(high) if high <= self.rates[-1] else None,
        )

    def _farthest(self, ends: tuple[float, float], at: float) -> float:
        """The factor between the estimate and either end of its interval."""
        from scipy.stats import t

        low, high = np.clip(ends, self.rates[0], self.rates[-1])
        n = self.schedules
        stretch = math.sqrt(n / (n - 1)) * float(t.ppf(0.975, n - 1)) / _Z95
        return float(max(at / low, high / at) ** stretch)


def _draws(schedules: int, seed: int) -> tuple[NDArray[np.float64], Floats]:
    """How often each schedule is drawn, and the chance of that; all ways if few."""
    ways = math.comb(2 * schedules - 1, schedules)
    if ways > DRAWS:
        chosen = np.random.default_rng(seed).multinomial(
            schedules, np.full(schedules, 1 / schedules), size=DRAWS
        )
        return chosen.astype(np.float64), np.full(DRAWS, 1 / DRAWS)
    drawn = np.zeros((ways, schedules))
    for row, picked in enumerate(
        combinations_with_replacement(range(schedules), schedules)
    ):
        np.add.at(drawn[row], list(picked), 1)
    total = math.factorial(schedules) / schedules**schedules
    chances = [
        total / math.prod(math.factorial(int(times)) for times in row) for row in drawn
    ]
    return drawn, np.array(chances)


def _crossing(rates: Floats, fit: Floats, target: float) -> float:
    """Where the fit falls below the target; 0 below the grid, infinite above it."""
    there = np.isfinite(fit)
    rates, fit = rates[there], fit[there]
    met = int((fit >= target - 1e-12).sum())
    if met == 0:
        return 0.0
    if met == fit.size:
        return math.inf
    high, low = fit[met - 1], fit[met]
    part = (high - target) / (high - low)
    return float(rates[met - 1] + part * (rates[met] - rates[met - 1]))


def _words(knee: Knee) -> str:
    if knee.at_least_rps is not None:
        return f">= {knee.at_least_rps:g} (not reached)"
    if knee.below_rps is not None:
        return f"< {knee.below_rps:g} (missed at the lowest rate)"
    if knee.ci95 is None:
        return f"{knee.rate_rps:.4g}, no interval from one schedule"
    low, high = knee.ci95
    if low is None and high is None:
        return f"{knee.rate_rps:.4g}, not certain within the rates offered"
    if low is None or high is None:
        end = f"at least {low:.4g}" if low is not None else f"at most {high:.4g}"
        return f"{knee.rate_rps:.4g} ({end})"
    return f"{knee.rate_rps:.4g} ({low:.4g} to {high:.4g})"


def _rounded(value: float) -> float:
    return round(float(value), _DIGITS)
