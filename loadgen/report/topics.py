"""The topics of ``loadgen explain``, set for a screen."""

from __future__ import annotations

from collections.abc import Iterable

from loadgen.analysis.explain import Topic
from loadgen.report.layout import INDENT, paragraph
from loadgen.report.screen import Screen

__all__ = ["topic_list", "topic_text"]


def topic_text(topic: Topic, screen: Screen) -> str:
    """One word: what it is, what moves it, what it does not tell."""
    unit = f", counted in {topic.unit}" if topic.unit else ""
    lines = [f"{topic.name} ({topic.kind}{unit})", *_part(topic.means, screen)]
    if topic.moves:
        lines += ["", "What moves it"]
        for move in topic.moves:
            lines += paragraph(f"- {move}", screen, indent=INDENT, hanging=INDENT * 2)
    lines += ["", "What it does not tell", *_part(topic.hides, screen)]
    return "".join(f"{screen.text(line)}\n" for line in lines)


def topic_list(topics: Iterable[Topic], screen: Screen) -> str:
    """Every word there is, by kind."""
    by_kind: dict[str, list[str]] = {}
    for topic in topics:
        by_kind.setdefault(topic.kind, []).append(topic.name)
    lines = ["loadgen explain WORD, where WORD is one of"]
    for kind, names in by_kind.items():
        lines += paragraph(
            f"{kind}: {', '.join(names)}", screen, indent=INDENT, hanging=INDENT * 2
        )
    return "".join(f"{line}\n" for line in lines)


def _part(text: str, screen: Screen) -> list[str]:
    return paragraph(text, screen, indent=INDENT)
