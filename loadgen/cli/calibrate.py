"""``loadgen calibrate``: what this machine can offer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Option

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from loadgen.control.capacity import Calibration, Most

__all__ = ["calibrate"]


def calibrate(
    processes: Annotated[
        int, Option(min=1, help="Issuing processes to measure together.")
    ] = 1,
    json_: Annotated[
        bool, Option("--json", help="Print what was measured as JSON.")
    ] = False,
    quiet: Annotated[bool, Option("--quiet", "-q", help="No progress.")] = False,
) -> int:
    """Measure, in under a minute, what this machine can offer, and remember it.

    Requests go to a server without an engine, started on loopback. The runs that
    follow are held against the result before they start; let nothing else run.
    """
    import asyncio
    import os
    import sys

    import msgspec

    from loadgen.control.calibrate import calibrate as measure
    from loadgen.control.capacity import calibration_path, write_calibration
    from loadgen.errors import ExitCode
    from loadgen.issue.limits import raise_descriptor_limit

    def say(line: str) -> None:
        if not quiet:
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()

    raise_descriptor_limit()
    found = asyncio.run(measure(processes, say))
    path = calibration_path(os.environ, found.machine)
    write_calibration(path, found)
    if json_:
        raw = msgspec.json.format(msgspec.json.encode(found), indent=2)
        sys.stdout.write(raw.decode() + "\n")
    else:
        sys.stdout.write("\n".join(_words(found, path)) + "\n")
    return ExitCode.OK


def _words(found: Calibration, path: Path) -> Iterator[str]:
    from loadgen.units import format_duration

    machine = found.machine
    each = "one issuing process"
    if found.processes > 1:
        each = f"each of {found.processes} issuing processes"
    tokens = f"{found.tokens_per_s:,.0f} tokens/s"
    yield f"{machine.processor}, {machine.processors} processors, {machine.python}"
    yield f"Beyond doubt, {each} can offer"
    yield f"  {found.requests.rate_rps:>8,.0f} requests/s  {_limit(found.requests)}"
    yield f"  {found.streams.rate_rps:>8,.0f} streams/s   {_limit(found.streams)}"
    yield f"           of {found.stream_tokens} tokens, 10 ms apart: {tokens}"
    yield "Errors below that"
    yield "  streams/s   tokens/s   send lag p50/p99      stamp error p50/p99  inexact"
    for level in found.levels:
        lag, error = (
            f"{format_duration(p50)} / {format_duration(p99)}"
            for p50, p99 in (
                (level.send_lag_p50_ns, level.send_lag_p99_ns),
                (level.stamp_error_p50_ns, level.stamp_error_p99_ns),
            )
        )
        rates = (
            f"{level.rate_rps:>6,.0f} {level.share:>3.0%} {level.tokens_per_s:>9,.0f}"
        )
        yield f"{rates}   {lag:<20}  {error:<19} {level.coalesced_share:>7.2%}"
    if found.others_busy is not None and not found.quiet:
        yield (
            f"Other programs took {found.others_busy:.0%} of the processors meanwhile: "
            "measure again when they are quiet"
        )
    yield f"Measured in {found.took_s:.0f} s and kept in {path}"


def _limit(most: Most) -> str:
    return {
        "client": "then sends come late or tokens merge",
        "server": "then the null server was too slow: the client may manage more",
        "machine": "then there was no processor free: something else runs here",
        "time": "measuring ended there: the client may manage more",
    }[most.limited_by]
