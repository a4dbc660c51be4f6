"""What the place a report goes to can show, and text made ready for it."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from loadgen.report.escape import ascii_only

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["Screen", "screen_for", "to_text"]

MIN_WIDTH = 60
MAX_WIDTH = 120
DEFAULT_WIDTH = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """A terminal, a file or a pipe.

    Attributes:
        width: columns to fill at most.
        colour: whether colours and bold may be used; nothing depends on them.
        utf8: whether anything but ASCII survives.
        moving: whether lines can be drawn over again.
    """

    width: int = DEFAULT_WIDTH
    colour: bool = False
    utf8: bool = True
    moving: bool = False

    def text(self, text: str) -> str:
        """The text as this place can show it."""
        return text if self.utf8 else ascii_only(text)


def screen_for(
    environ: Mapping[str, str],
    *,
    is_terminal: bool,
    encoding: str | None,
    columns: int | None,
) -> Screen:
    """Judge an output stream by what is known of it.

    Args:
        environ: ``NO_COLOR``, ``TERM`` and ``COLUMNS`` are looked at.
        is_terminal: whether the stream is one.
        encoding: of the stream; None is taken as ASCII.
        columns: the terminal's width if known.
    """
    dumb = environ.get("TERM", "") in ("dumb", "unknown")
    moving = is_terminal and not dumb
    asked = environ.get("COLUMNS", "")
    if asked.isascii() and asked.isdigit():
        columns = int(asked)
    return Screen(
        width=min(max(columns or DEFAULT_WIDTH, MIN_WIDTH), MAX_WIDTH),
        colour=moving and not environ.get("NO_COLOR"),
        utf8=(encoding or "").lower().replace("-", "").startswith("utf"),
        moving=moving,
    )


def to_text(content: RenderableType, screen: Screen) -> str:
    """Lay content out for a screen; each line ends in a newline, none in spaces."""
    from rich.console import Console

    buffer = io.StringIO()
    console = Console(
        file=buffer,
        width=screen.width,
        force_terminal=screen.colour,
        color_system="standard" if screen.colour else None,
        no_color=not screen.colour,
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
        _environ={},
    )
    console.print(content, crop=False)
    lines = buffer.getvalue().removesuffix("\n").split("\n")
    return "".join(f"{line.rstrip(' ')}\n" for line in lines)
