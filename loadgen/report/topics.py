"""``loadgen explain`` on a screen: one word in full, or all of them in a line each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby

from loadgen.analysis.explain import Topic
from loadgen.report.escape import clip
from loadgen.report.layout import INDENT, Line, paragraph
from loadgen.report.screen import Screen
from loadgen.report.terminal import drawn

__all__ = ["topic_list", "topic_text"]

_KINDS = {
    "layer": "Layers: who lost the request",
    "resource": "Resources: what ran out",
    "outcome": "Outcomes: how a request ended",
    "metric": "Numbers and marks",
}
_NAME_CELLS = 22


def topic_text(topic: Topic, screen: Screen) -> str:
    """Everything about one word."""
    return drawn(list(_topic(topic, screen)), screen)


def _topic(topic: Topic, screen: Screen) -> Iterator[Line]:
    unit = f", counted in {topic.unit}" if topic.unit else ""
    for line in paragraph(f"{topic.name} ({topic.kind}{unit})", screen):
        yield Line(line, "strong")
    yield from _set(topic.means, screen, hanging=INDENT)
    if topic.moves:
        yield from (Line(""), Line("What moves it", "strong"))
        for setting in topic.moves:
            yield from _set(f"- {setting}", screen, hanging=INDENT * 2)
    yield from (Line(""), Line("What it does not tell", "strong"))
    yield from _set(topic.hides, screen, hanging=INDENT)


def topic_list(topics: Iterable[Topic], screen: Screen) -> str:
    """Every word with the beginning of what it means."""
    lines = []
    for kind, members in groupby(topics, key=_first_kind):
        lines.append(Line(screen.text(_KINDS.get(kind, kind)), "strong"))
        for topic in members:
            gist = re.split(r"[.:;](?: |$)", topic.means, maxsplit=1)[0]
            line = f"{INDENT}{topic.name:<{_NAME_CELLS}}{gist}"
            lines.append(Line(clip(screen.text(line), screen.width)))
        lines.append(Line(""))
    lines.append(Line("loadgen explain WORD says it in full"))
    return drawn(lines, screen)


def _first_kind(topic: Topic) -> str:
    return topic.kind.partition(",")[0]


def _set(text: str, screen: Screen, *, hanging: str) -> Iterator[Line]:
    for line in paragraph(text, screen, indent=INDENT, hanging=hanging):
        yield Line(line)
