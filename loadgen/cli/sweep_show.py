"""What a person sees of a sweep: progress on stderr, the result on stdout."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TextIO

import msgspec

from loadgen.analysis.curve import SweepSummary
from loadgen.analysis.variants import VariantsSummary
from loadgen.cli.options import OutputFlags
from loadgen.cli.pages import write_page
from loadgen.cli.show import Show, screen_of
from loadgen.cli.sweep_plan import Asking
from loadgen.cli.sweep_source import Schedules
from loadgen.control.journal import State
from loadgen.report.sweep_line import plan_lines, run_line, surge_line
from loadgen.units import NS_PER_S

__all__ = ["SweepShow", "encode_sweep"]


def encode_sweep(summary: msgspec.Struct) -> bytes:
    """Strict JSON (RFC 8259), indented; a float that is no number becomes null."""
    return msgspec.json.format(msgspec.json.encode(summary), indent=2) + b"\n"


class SweepShow:
    """The person's side of a sweep.

    Args:
        output: how much is wanted.
        result: gets the result alone.
        aside: gets progress, notes and warnings.
    """

    def __init__(self, output: OutputFlags, result: TextIO, aside: TextIO) -> None:
        self._output = output
        self._result = result
        self._aside = aside
        self._runs_shown = 0
        self._folder: Path | None = None

    def note(self, line: str) -> None:
        """Say something beside the result, unless quiet."""
        if not self._output.quiet:
            self._aside.write(f"{line}\n")
            self._aside.flush()

    def of_run(self) -> Show:
        """What is shown while a run goes on: nothing where it could not move."""
        moving = screen_of(self._aside).moving
        quiet = replace(self._output, quiet=self._output.quiet or not moving)
        return Show(quiet, self._result, self._aside)

    def plan(self, asking: Asking, schedules: Schedules) -> None:
        """A dry run's result: what would be offered."""
        for line in _plan_lines(asking, schedules):
            self._result.write(f"{line}\n")
        self._result.write("nothing was sent\n")

    def begins(self, asking: Asking, schedules: Schedules) -> None:
        for line in _plan_lines(asking, schedules):
            self.note(line)

    def folder(self, folder: Path, resume: Path) -> None:
        """Where the results go, and what to name to go on after a break."""
        self._folder = folder
        self.note(f"results go to {folder}; go on after a break with --resume {resume}")

    def progress(self, state: State, planned: int) -> None:
        """One line a run that ended."""
        done = len(state.runs) + len(state.overloads)
        if done == self._runs_shown:
            return
        self._runs_shown = done
        last = (
            surge_line(state.overloads[-1])
            if state.overloads
            else run_line(state.runs[-1])
        )
        self.note(f"[{done}/{planned}] {last}")

    def result(self, summary: SweepSummary, folder: Path | None = None) -> None:
        """The judgement, as JSON alone or as the report for people; and the page."""
        if self._output.json_:
            self._result.write(encode_sweep(summary).decode())
        else:
            from loadgen.report.curve import sweep_text

            self._result.write(sweep_text(summary, screen_of(self._result)))
        self._result.flush()
        if self._output.html is not None:
            from loadgen.report.html.sweep_page import sweep_page

            where = folder or self._folder
            page = sweep_page(summary, None if where is None else str(where))
            write_page(page, self._output.html)

    def variants(self, summary: VariantsSummary) -> None:
        """All variants, as JSON alone or side by side."""
        if self._output.json_:
            self._result.write(encode_sweep(summary).decode())
        else:
            from loadgen.report.variants import variants_text

            self._result.write(variants_text(summary, screen_of(self._result)))
        self._result.flush()
        if self._output.html is not None:
            from loadgen.report.html.variants_page import variants_page

            write_page(variants_page(summary), self._output.html)


def _plan_lines(asking: Asking, schedules: Schedules) -> list[str]:
    plan = asking.plan
    counts = [
        len(schedules.at_rate(rate, plan.seeds[0], plan.run_ns).at_ns)
        for rate in (*plan.rates_rps[:1], *plan.rates_rps[-1:])
    ]
    return plan_lines(
        rates=plan.rates,
        rates_rps=plan.rates_rps,
        schedules=plan.schedules,
        run_s=plan.run_ns / NS_PER_S,
        takes_s=asking.takes_ns / NS_PER_S,
        expected=plan.expected,
        requests=(counts[0], counts[-1]) if counts else None,
        overload=plan.overload,
    )
