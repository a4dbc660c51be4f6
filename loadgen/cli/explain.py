"""``loadgen explain``: the reference behind every word of a report."""

from __future__ import annotations

from typing import Annotated

from typer import Argument

__all__ = ["explain"]


def explain(
    topic: Annotated[
        str | None, Argument(help="A layer, resource, outcome or metric.")
    ] = None,
) -> int:
    """Say what a word of the report means, which flag moves it, what it hides."""
    return 0
