"""The run while it is going: counters in, one picture or one line out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from loadgen.model import Outcome
from loadgen.report.escape import safe
from loadgen.report.numbers import NOTHING, seconds
from loadgen.report.screen import Screen
from loadgen.report.words import REFUSED, basis_tag, layer_words
from loadgen.units import NS_PER_S

if TYPE_CHECKING:
    from rich.console import Group

__all__ = ["Live", "live_line", "live_view"]

NAME_CELLS = 24
TARGET_CELLS = 40
LAYERS_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """One moment of a run.

    Attributes:
        name: of the run or its workload.
        target: where the requests go, as the user wrote it.
        basis: ``measured``, ``stand-in`` or ``simulated``.
        offered: requests in the whole schedule.
        duration_ns: length of the schedule.
        elapsed_ns: since t0; negative before it.
        counters: the issuer's progress block by name; an absent one counts as 0.
        lost_by_layer: requests that are not ok so far by layer, where known.
    """

    name: str
    target: str
    basis: str
    offered: int
    duration_ns: int
    elapsed_ns: int
    counters: Mapping[str, int]
    lost_by_layer: Mapping[str, int] = field(default_factory=dict)

    def count(self, name: str) -> int:
        return self.counters.get(name, 0)

    def ended_as(self, *outcomes: Outcome) -> int:
        return sum(self.count(f"outcome_{outcome}") for outcome in outcomes)

    @property
    def ok(self) -> int:
        return self.ended_as(Outcome.OK)

    @property
    def refused(self) -> int:
        return self.ended_as(*REFUSED)

    @property
    def failed(self) -> int:
        return self.ended_as(*Outcome) - self.ok - self.refused

    @property
    def waiting(self) -> bool:
        """Whether everything was offered and only answers are awaited."""
        return bool(self.count("draining")) or self.count("due") >= self.offered

    @property
    def doing(self) -> str:
        """``28 of 40 offered``; afterwards that answers are awaited."""
        due = self.count("due")
        part = f"{due:,} of" if due < self.offered else "all"
        rest = ", waiting for answers" if self.waiting else ""
        return f"{part} {self.offered:,} offered{rest}"

    @property
    def ttft_mean_s(self) -> float | None:
        tokens = self.count("ttft_count")
        return self.count("ttft_sum_ns") / tokens / NS_PER_S if tokens else None

    @property
    def ttft_last_s(self) -> float | None:
        return _if_any(self.count("ttft_count"), self.count("ttft_last_ns"))

    @property
    def lag_last_s(self) -> float | None:
        return _if_any(self.count("sent"), self.count("send_lag_last_ns"))

    @property
    def lag_max_s(self) -> float | None:
        return _if_any(self.count("sent"), self.count("send_lag_max_ns"))

    @property
    def clock(self) -> str:
        """``1.4 of 2.0 s``; past the schedule's end only what has passed."""
        elapsed_s = max(0, self.elapsed_ns) / NS_PER_S
        if self.elapsed_ns > self.duration_ns:
            return f"{elapsed_s:.1f} s"
        return f"{elapsed_s:.1f} of {self.duration_ns / NS_PER_S:.1f} s"

    @property
    def layers(self) -> str:
        """``engine admission 15, network 2``; empty when nothing was lost."""
        most = sorted(self.lost_by_layer.items(), key=lambda item: (-item[1], item[0]))
        named = [f"{safe(layer_words(name), 20)} {n:,}" for name, n in most if n]
        rest = len(named) - LAYERS_SHOWN
        return ", ".join(named[:LAYERS_SHOWN]) + (f", +{rest} more" if rest > 0 else "")


def live_line(live: Live, screen: Screen) -> str:
    """One line without a newline, for logs and pipes; complete by itself."""
    by = f" ({live.layers})" if live.layers else ""
    parts = [
        f"{live.clock}:",
        f"offered {live.count('due'):,}/{live.offered:,},",
        f"in flight {live.count('in_flight'):,},",
        f"ok {live.ok:,},",
        f"refused {live.refused:,}{'' if live.failed else by},",
        *([f"failed {live.failed:,}{by},"] if live.failed else []),
        f"TTFT {seconds(live.ttft_mean_s)}{basis_tag(live.basis)}",
    ]
    return screen.text(" ".join(parts))


def live_view(live: Live, screen: Screen) -> Group:
    """Six short lines for a terminal that can draw over them."""
    from rich.console import Group
    from rich.text import Text

    target = f" to {safe(live.target, TARGET_CELLS)}" if live.target else ""
    columns = _columns(live)
    lines = [
        f"{safe(live.name, NAME_CELLS)}{target}{basis_tag(live.basis)}",
        f"{_bar(live, screen)}  {live.clock}  {live.doing}",
        *("  ".join(row).rstrip() for row in zip(*columns, strict=True)),
        f"lost at: {live.layers or NOTHING}",
    ]
    styles = ["bold", "", "dim", *[""] * len(lines)]
    return Group(
        *(
            Text(screen.text(line), style=style, no_wrap=True, overflow="crop")
            for line, style in zip(lines, styles, strict=False)
        )
    )


def _columns(live: Live) -> list[list[str]]:
    """Columns of three lines each; as wide from the start as they will ever be."""
    wide = len(str(live.offered))
    counts = {
        "sent": live.count("sent"),
        "in flight": live.count("in_flight"),
        "ok": live.ok,
        "refused": live.refused,
        "failed": live.failed,
    }
    columns = [
        [f"{cell:>{max(wide, len(name))}}" for cell in (name, str(number), "")]
        for name, number in counts.items()
    ]
    ttft = seconds(live.ttft_mean_s), seconds(live.ttft_last_s)
    lag = seconds(live.lag_max_s), seconds(live.lag_last_s)
    return [
        *columns,
        [f"{'first token':>13}", f"mean {ttft[0]:>8}", f"last {ttft[1]:>8}"],
        [f"{'send lag':>13}", f"max  {lag[0]:>8}", f"last {lag[1]:>8}"],
    ]


def _bar(live: Live, screen: Screen, cells: int = 16) -> str:
    full, empty = ("█", "░") if screen.utf8 else ("#", ".")
    share = live.count("due") / live.offered if live.offered else 1.0
    done = min(cells, int(share * cells))
    return full * done + empty * (cells - done)


def _if_any(count: int, value_ns: int) -> float | None:
    return value_ns / NS_PER_S if count else None
