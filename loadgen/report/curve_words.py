"""A sweep in words: the headline, and what its flags mean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loadgen.analysis.curve import Overload, Point, SweepSummary
from loadgen.analysis.knee import Flag, Knee
from loadgen.report.escape import safe
from loadgen.report.headline import slo_words
from loadgen.report.numbers import NOTHING, interval, percent, rate, seconds
from loadgen.report.words import BASIS_WORDS

__all__ = [
    "flag_words",
    "knee_ends",
    "knee_interval",
    "knee_short",
    "overload_words",
    "sweep_headline",
]

_FLAGS = {
    Flag.NEVER_SATURATED: "never saturated: the highest rate still met the target, so "
    "this is a bound and no capacity; offer more",
    Flag.FAILS_AT_LOWEST: "missed at the lowest rate: offer less, or ask for less "
    "(--slo, --target)",
    Flag.NOT_MONOTONE: "not monotone: goodput rose with the load somewhere, by more "
    "than chance; look for a cache that warmed up or another user of the server",
    Flag.CLIFF: "cliff: goodput breaks down within one step of the rates; the knee is "
    "only known to lie between the two",
    Flag.CLIENT_LIMITED: "client-limited: some runs were left out because this machine "
    "could not offer them; the curve ends where the client does",
    Flag.ENGINE_RESTARTED: "the engine restarted during the sweep",
    Flag.FEW_SCHEDULES: "few schedules: below three, an interval means little",
}


def sweep_headline(summary: SweepSummary) -> str:
    """What a person should remember of the sweep."""
    parts = [*BASIS_WORDS.get(summary.basis, ())]
    status = summary.progress.status
    if status != "complete":
        parts.append(f"Not complete ({safe(summary.progress.text, 200)}).")
    parts.append(_capacity(summary))
    return " ".join(parts)


def _capacity(summary: SweepSummary) -> str:
    knee = summary.knee
    good = f"at least {percent(knee.target)} of the offered requests are good"
    if summary.slo:
        good += f" ({slo_words(summary.slo)})"
    if knee.rate_rps is not None:
        return (
            f"Up to {rate(knee.rate_rps)} {good}; {knee_interval(knee)}. "
            f"{_beyond(summary.curve, knee)}"
        )
    if knee.at_least_rps is not None:
        return (
            f"Up to {rate(knee.at_least_rps)}, the highest rate offered, {good}. The "
            "capacity is above that; how far is not known."
        )
    if knee.below_rps is not None:
        return (
            f"Already at {rate(knee.below_rps)}, the lowest rate offered, less than "
            f"{percent(knee.target)} of the offered requests are good."
        )
    return "No run can be used, so nothing is known of the capacity."


def _beyond(curve: Sequence[Point], knee: Knee) -> str:
    """What comes of more load than that."""
    most = max(curve, key=lambda point: point.offered_rps, default=None)
    if most is None or knee.rate_rps is None or most.offered_rps <= knee.rate_rps:
        return ""
    return (
        f"At {rate(most.offered_rps)} {percent(most.goodput.ratio)} are good, "
        f"{rate(most.goodput.rate_rps)}."
    )


def knee_interval(knee: Knee) -> str:
    """The interval in words."""
    if knee.ci95 is None:
        return "one schedule gives no interval"
    low, high = knee.ci95
    if low is None and high is None:
        return "the 95% interval is wider than the rates offered"
    if low is None:
        return f"95% interval up to {rate(high)}, its lower end is below the rates"
    if high is None:
        return f"95% interval from {rate(low)}, its upper end is above the rates"
    return f"95% interval {rate(low)} to {rate(high)}"


def knee_ends(knee: Knee) -> str:
    """The interval in a table's cell; an end that is not known is open."""
    if knee.ci95 is None:
        return NOTHING
    low, high = knee.ci95
    if low is None and high is None:
        return "wider than the rates"
    if low is None or high is None:
        return f"up to {rate(high)}" if low is None else f"{rate(low)} or more"
    return f"{rate(low)} to {rate(high)}"


def knee_short(knee: Knee) -> str:
    """The knee in a table's cell."""
    if knee.rate_rps is not None:
        return rate(knee.rate_rps)
    if knee.at_least_rps is not None:
        return f">= {rate(knee.at_least_rps)}"
    return f"< {rate(knee.below_rps)}" if knee.below_rps is not None else "-"


def flag_words(flags: Sequence[str]) -> Iterator[str]:
    """Each flag as a sentence; one of a newer version as it is named."""
    for flag in flags:
        yield _FLAGS.get(flag, safe(flag, 60))


def overload_words(overload: Overload) -> Iterator[str]:
    """What the step past capacity and back has shown."""
    yield (
        f"{seconds(overload.phase_s[0])} each of {rate(overload.base_rps)}, "
        f"{rate(overload.peak_rps)} and {rate(overload.base_rps)} again: "
        f"{percent(overload.before.value)} good, then "
        f"{percent(overload.during.value)}, then {percent(overload.after.value)}"
    )
    yield _time(
        "drained",
        "no more open than before",
        overload.drain_s.value,
        overload.not_drained,
        overload.before.n,
    )
    yield _time(
        "recovered",
        "as good as before",
        overload.recovery_s.value,
        overload.not_recovered,
        overload.before.n,
    )
    lost = overload.hysteresis
    if lost.value is not None and lost.ci95 is not None and lost.ci95[0] > 0:
        yield (
            f"hysteresis: at the same load {percent(lost.value)} fewer are good "
            f"afterwards ({interval(lost.ci95)})"
        )


def _time(what: str, meaning: str, value_s: float | None, never: int, runs: int) -> str:
    if value_s is None:
        return f"{what} ({meaning}): in none of {runs} runs before the end"
    words = f"{what} ({meaning}) {seconds(value_s)} after the peak"
    return words + (f", but not in {never} of {runs} runs" if never else "")
