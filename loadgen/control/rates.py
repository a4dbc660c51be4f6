"""Which rates a sweep offers, and in which order.

A course says what comes next from what was done, and remembers nothing: that is
what lets a sweep go on where it was interrupted.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from loadgen.analysis.knee import Sample, find_knee
from loadgen.errors import UsageError, naming
from loadgen.units import parse_rate_rps

__all__ = [
    "DEFAULT_COUNT",
    "Course",
    "Done",
    "Grid",
    "Search",
    "Step",
    "geometric",
    "parse_rates",
]

DEFAULT_COUNT = 9
MIN_COUNT, MAX_COUNT = 2, 100
SEARCH_POINTS = 6
MAX_DOUBLINGS = 16
MAX_HALVINGS = 8
MAX_EXTENSIONS = 2
_AUTO_START_RPS = 1.0


class Step(NamedTuple):
    """One run to make."""

    rate_rps: float
    schedule: int


class Done(NamedTuple):
    """One run that was made; ``ratio`` is None where it cannot be used."""

    rate_rps: float
    schedule: int
    ratio: float | None


class Course(Protocol):
    """A way through the rates.

    Attributes:
        text: as it was asked for.
        schedules: how many there are, each offered at every rate.
    """

    @property
    def text(self) -> str: ...
    @property
    def schedules(self) -> int: ...
    @property
    def rates_rps(self) -> tuple[float, ...]:
        """The rates known beforehand; none where they are to be found."""
        ...

    def next(self, done: Collection[Done]) -> Step | None:
        """What to offer now; None when the course is through."""
        ...

    def planned(self, done: Collection[Done]) -> int:
        """Runs in all, as far as is known by now."""
        ...


def geometric(low: float, high: float, count: int) -> tuple[float, ...]:
    """Rates in equal ratios, rounded to three digits, both ends as they are."""
    inner = (
        float(f"{low * (high / low) ** (at / (count - 1)):.3g}")
        for at in range(1, count - 1)
    )
    return (low, *(rate for rate in inner if low < rate < high), high)


def parse_rates(text: str) -> tuple[float, ...] | tuple[float, float, int | None]:
    """Read ``2/s,4/s,8/s`` or ``2/s..40/s`` or ``2/s..40/s:8``.

    Returns:
        The rates, rising; of a range without a count ``(low, high, None)``.

    Raises:
        UsageError: none of these, a rate twice, or an empty range.
    """
    with naming("--rates"):
        if ".." not in text:
            rates = sorted(parse_rate_rps(part) for part in text.split(","))
            if len(set(rates)) < len(rates):
                raise UsageError(f"{text!r} names a rate twice")
            return tuple(rates)
        span, colon, counted = text.partition(":")
        low, high = (parse_rate_rps(end) for end in span.split("..", 1))
        if low >= high:
            raise UsageError(f"{text!r} does not rise", "write 2/s..40/s")
        if not colon:
            return low, high, None
        if not (counted.strip().isdecimal() and MIN_COUNT <= int(counted) <= MAX_COUNT):
            raise UsageError(
                f"{counted!r} is no number of rates", f"{MIN_COUNT} to {MAX_COUNT}"
            )
        return geometric(low, high, int(counted))


def _interleaved(rates: Sequence[float], schedules: int) -> list[Step]:
    """Round by round, each schedule once at every rate, each round shuffled.

    So that a server that drifts, or a sweep that is interrupted, leaves no rate
    with all of the harm.
    """
    steps = []
    for schedule in range(schedules):
        order = list(rates)
        random.Random(schedule).shuffle(order)  # the same order on a resume
        steps += [Step(rate, schedule) for rate in order]
    return steps


class Grid:
    """Rates that are known beforehand."""

    def __init__(self, text: str, rates_rps: Sequence[float], schedules: int) -> None:
        self.text = text
        self.rates_rps = tuple(rates_rps)
        self.schedules = schedules
        self._steps = _interleaved(self.rates_rps, schedules)

    def next(self, done: Collection[Done]) -> Step | None:
        made = {Step(one.rate_rps, one.schedule) for one in done}
        return next((step for step in self._steps if step not in made), None)

    def planned(self, done: Collection[Done]) -> int:
        return len(self._steps)


class Search:
    """Rates that are found: doubling until goodput breaks, then a grid around it.

    One run overstates capacity, so the bracket only places the grid; if the knee
    then lies beyond its edge, the grid is extended to that side.

    Args:
        text: as it was asked for.
        target: the goodput ratio that the knee is sought for.
        schedules: how many each rate of the grid gets.
        start_rps: where doubling begins.
    """

    rates_rps: tuple[float, ...] = ()

    def __init__(
        self,
        text: str,
        target: float,
        schedules: int,
        start_rps: float = _AUTO_START_RPS,
    ) -> None:
        self.text = text
        self.schedules = schedules
        self._target = target
        self._start_rps = start_rps

    def next(self, done: Collection[Done]) -> Step | None:
        ratios = {one.rate_rps: one.ratio for one in done if one.schedule == 0}
        probe = self._probe(ratios)
        if probe is not None:
            return Step(probe, 0)
        return self._grid(done).next(done)

    def planned(self, done: Collection[Done]) -> int:
        ratios = {one.rate_rps: one.ratio for one in done if one.schedule == 0}
        if self._probe(ratios) is not None:
            return len(done) + 1 + SEARCH_POINTS * self.schedules
        rates = self._grid(done).rates_rps
        outside = sum(one.rate_rps not in rates for one in done)
        return outside + len(rates) * self.schedules

    def _probe(self, ratios: dict[float, float | None]) -> float | None:
        """The next rate of the bracket; None when it is closed."""
        rate = self._start_rps
        if self._fails(ratios.get(rate, 1.0)):
            for _ in range(MAX_HALVINGS):
                rate = _rounded(rate / 2)
                if rate not in ratios:
                    return rate
                if not self._fails(ratios[rate]):
                    return None
            return None
        for _ in range(MAX_DOUBLINGS):
            if rate not in ratios:
                return rate
            if self._fails(ratios[rate]):
                return None
            rate = _rounded(rate * 2)
        return None

    def _fails(self, ratio: float | None) -> bool:
        """A run that cannot be used ends the climb too: the client is at its end."""
        return ratio is None or ratio < self._target

    def _grid(self, done: Collection[Done]) -> Grid:
        """The bracket in six, extended while the knee lies at or over an edge."""
        low, high = self._bracket(done)
        rates = list(geometric(low, high, SEARCH_POINTS))
        for _ in range(MAX_EXTENSIONS):
            grid = Grid(self.text, rates, self.schedules)
            if grid.next(done) is not None:
                return grid
            inside = [one for one in done if one.rate_rps in set(rates)]
            samples = [
                Sample(one.rate_rps, one.schedule, one.ratio)
                for one in inside
                if one.ratio is not None
            ]
            knee = find_knee(samples, self._target)
            step = rates[1] / rates[0]
            if knee.below_rps is not None:
                rates = [_rounded(rates[0] / step**at) for at in (3, 2, 1)] + rates
            elif any(sample.rate_rps == rates[-1] for sample in samples) and (
                knee.at_least_rps is not None
            ):
                rates = rates + [_rounded(rates[-1] * step**at) for at in (1, 2, 3)]
            else:
                return grid
        return Grid(self.text, rates, self.schedules)

    def _bracket(self, done: Collection[Done]) -> tuple[float, float]:
        first = {one.rate_rps: one.ratio for one in done if one.schedule == 0}
        probed = {rate: first[rate] for rate in self._probes(first)}
        met = [rate for rate, ratio in probed.items() if not self._fails(ratio)]
        missed = [rate for rate, ratio in probed.items() if self._fails(ratio)]
        if not met:
            lowest = min(missed)
            return _rounded(lowest / 2), lowest
        if not missed:
            highest = max(met)
            return _rounded(highest / 2), highest
        high = min(missed)
        return max(rate for rate in met if rate < high), high

    def _probes(self, first: dict[float, float | None]) -> list[float]:
        """The rates that doubling or halving from the start has visited."""
        up = [_rounded(self._start_rps * 2**at) for at in range(MAX_DOUBLINGS)]
        down = [_rounded(self._start_rps / 2**at) for at in range(MAX_HALVINGS + 1)]
        return [rate for rate in {*up, *down} if rate in first]


def _rounded(rate_rps: float) -> float:
    return float(f"{rate_rps:.4g}")
