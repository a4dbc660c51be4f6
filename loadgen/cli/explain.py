"""``loadgen explain``: the reference behind every word of a report."""

from __future__ import annotations

import sys
from typing import Annotated

from typer import Argument

__all__ = ["explain"]


def explain(
    word: Annotated[
        str | None,
        Argument(help="A layer, resource, outcome or metric; without it, the list."),
    ] = None,
) -> int:
    """Say what a word of the report means, which flag moves it, what it hides."""
    from loadgen.analysis.explain import find_topic, load_topics
    from loadgen.cli.show import screen_of
    from loadgen.report.topics import topic_list, topic_text

    screen = screen_of(sys.stdout)
    if word is None:
        sys.stdout.write(topic_list(load_topics().values(), screen))
    else:
        sys.stdout.write(topic_text(find_topic(word), screen))
    return 0
