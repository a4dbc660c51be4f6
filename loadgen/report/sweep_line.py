"""A sweep in single lines: what is planned, and each run as it ends."""

from __future__ import annotations

from collections.abc import Sequence

from loadgen.analysis.curve import RunPoint
from loadgen.analysis.recovery import RunRecovery
from loadgen.report.escape import safe
from loadgen.report.numbers import count, percent, rate, seconds, share
from loadgen.report.words import layer_words, plural

__all__ = ["plan_lines", "run_line", "surge_line"]

LAYERS_NAMED = 2


def plan_lines(
    *,
    rates: str,
    rates_rps: Sequence[float],
    schedules: int,
    run_s: float,
    takes_s: float,
    expected: str | None,
    requests: tuple[int, int] | None,
    overload: bool,
) -> list[str]:
    """What a sweep will do, for a person to agree to."""
    if rates_rps:
        named = ", ".join(rate(one) for one in rates_rps)
        runs = len(rates_rps) * schedules
        what = f"{plural(len(rates_rps), 'rate')} ({named})"
    else:
        runs = 0
        what = f"rates to be found ({safe(rates, 40)})"
    lines = [
        f"would offer {what}, {plural(schedules, 'schedule')} at each, "
        f"{seconds(run_s)} a run"
        + (f", {runs} runs in all" if runs else "")
        + (", then past capacity and back" if overload else "")
    ]
    if requests is not None:
        low, high = requests
        lines.append(
            f"requests a run: {count(low)} at the lowest rate, "
            f"{count(high)} at the highest"
        )
    lines.append(f"it takes about {minutes(takes_s)}, drains and rests included")
    if expected is not None:
        lines.append(f"precision to expect: {expected}")
    return lines


def minutes(value_s: float) -> str:
    """``45 s``, ``12 min``, ``1 h 20 min``: how long to wait, not a measure."""
    if value_s < 90:
        return f"{value_s:.0f} s"
    whole = round(value_s / 60)
    return f"{whole} min" if whole < 90 else f"{whole // 60} h {whole % 60} min"


def run_line(run: RunPoint) -> str:
    """One run in a line."""
    part = run.all
    words = [
        f"{rate(run.rate_rps)} schedule {run.schedule + 1}:",
        f"{share(part.good, part.offered)} good",
        f"({count(part.good)} of {count(part.offered)})",
    ]
    ttft = part.latency["ttft_s"].p95
    if ttft.value is not None:
        words.append(f"TTFT p95 {seconds(ttft.value)}")
    elif ttft.above_s is not None:
        words.append(f"TTFT p95 > {seconds(ttft.above_s)}")
    shed = [
        f"{count(lost)} lost at {safe(layer_words(layer), 24)}"
        for layer, lost in list(part.shed.items())[:LAYERS_NAMED]
    ]
    line = " ".join(words) + "".join(f", {lost}" for lost in shed)
    if not run.usable:
        line += f"; left out: {safe(run.why_not or 'invalid', 120)}"
    if run.settle is not None and run.settle.how == "not empty":
        line += f"; began unsettled: {safe(run.settle.note or '', 60)}"
    return line


def surge_line(run: RunRecovery) -> str:
    """One step past capacity in a line."""
    back = (
        f"recovered after {seconds(run.recovery_s)}"
        if run.recovery_s is not None
        else "did not recover in time"
    )
    return (
        f"{rate(run.base_rps)} to {rate(run.peak_rps)} and back, schedule "
        f"{run.schedule + 1}: {percent(run.before)}, {percent(run.during)}, "
        f"{percent(run.after)} good; {back}"
    )
