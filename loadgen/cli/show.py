"""What is written where: results to stdout, everything else to stderr."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from loadgen.analysis.summary import encode
from loadgen.cli.options import OutputFlags
from loadgen.cli.pages import page_of, reduced_of, write_page
from loadgen.control.judging import Judged, open_schedule
from loadgen.control.offer import Snapshot
from loadgen.control.run import OfferedRun
from loadgen.control.tail import LayerTail
from loadgen.report.live import Live, live_line, live_view
from loadgen.report.model import build
from loadgen.report.screen import Screen, screen_for
from loadgen.report.terminal import report_text
from loadgen.store import RunDir
from loadgen.units import NS_PER_S

__all__ = ["Show", "screen_of"]

PLAIN_EVERY_NS = 2 * NS_PER_S

OnTick = Callable[[Snapshot], None]


class Show:
    """The person's side of a run.

    Args:
        output: how much is wanted.
        result: gets the result alone.
        aside: gets progress, notes and warnings.
    """

    def __init__(self, output: OutputFlags, result: TextIO, aside: TextIO) -> None:
        self._output = output
        self._result = result
        self._aside = aside

    def note(self, line: str) -> None:
        """Say something beside the result, unless quiet."""
        if not self._output.quiet:
            self._aside.write(f"{line}\n")
            self._aside.flush()

    def plan(self, path: Path, *, model_known: bool) -> None:
        """A dry run's result: what would be offered."""
        schedule = open_schedule(path)
        is_ = schedule.realised()
        asked = schedule.header.asked
        groups = ", ".join(f"{name} {count:,}" for name, count in is_.groups.items())
        self._result.write(
            f"would offer {is_.requests:,} requests in {is_.duration_s:g} s "
            f"({is_.rate_rps:.4g}/s; asked {asked.rate_rps:.4g}/s): {groups}\n"
        )
        if model_known:
            self._result.write(f"{schedule.digest}\n")
        self._result.write("nothing was sent\n")

    @contextmanager
    def live(
        self, run: OfferedRun, at_ns: Sequence[int], tail: LayerTail
    ) -> Iterator[OnTick]:
        """Show progress: drawn over on a terminal, a line every 2 s elsewhere."""
        if self._output.quiet:
            yield lambda _: None
            return

        def moment(snapshot: Snapshot) -> Live:
            t0_ns = snapshot["t0_ns"]
            return Live(
                name=run.name,
                target=run.server.target.url,
                basis=run.server.basis,
                offered=len(at_ns),
                duration_ns=run.duration_ns,
                elapsed_ns=time.monotonic_ns() - t0_ns if t0_ns else 0,
                counters=snapshot,
                lost_by_layer={str(k): n for k, n in tail.tick().items()},
            )

        screen = screen_of(self._aside)
        show = self._drawn if screen.moving else self._lines
        with show(screen, moment) as on_tick:
            yield on_tick
        tail.close()

    @contextmanager
    def _drawn(
        self, screen: Screen, moment: Callable[[Snapshot], Live]
    ) -> Iterator[OnTick]:
        from rich.console import Console
        from rich.live import Live as Drawn

        console = Console(file=self._aside, highlight=False, markup=False)
        with Drawn(console=console, auto_refresh=False, transient=True) as drawn:
            yield lambda snapshot: drawn.update(
                live_view(moment(snapshot), screen), refresh=True
            )

    @contextmanager
    def _lines(
        self, screen: Screen, moment: Callable[[Snapshot], Live]
    ) -> Iterator[OnTick]:
        said_ns = time.monotonic_ns()

        def on_tick(snapshot: Snapshot) -> None:
            nonlocal said_ns
            if time.monotonic_ns() - said_ns >= PLAIN_EVERY_NS:
                said_ns = time.monotonic_ns()
                self.note(live_line(moment(snapshot), screen))

        yield on_tick

    def result(self, judged: Judged, run: RunDir) -> None:
        """The judgement, as JSON alone or as the report for people; and the page."""
        manifest, html = run.read_manifest(), self._output.html
        drawn = None
        if html is not None or not self._output.json_:
            drawn = reduced_of(judged, manifest)
        if self._output.json_:
            self._result.write(encode(judged.summary).decode())
        else:
            model = build(judged.summary, manifest, str(run.path), drawn)
            self._result.write(report_text(model, screen_of(self._result)))
        self._result.flush()
        if html is not None and drawn is not None:
            write_page(page_of(judged, run, manifest, drawn), html)


def screen_of(stream: TextIO) -> Screen:
    """What a stream can show, judged by what is known of it."""
    return screen_for(
        os.environ,
        is_terminal=stream.isatty(),
        encoding=getattr(stream, "encoding", None),
        columns=shutil.get_terminal_size().columns if stream.isatty() else None,
    )
