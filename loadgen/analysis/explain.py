"""What the words of a report mean: the texts behind ``loadgen explain``."""

from __future__ import annotations

import difflib
import tomllib
from importlib import resources

import msgspec

from loadgen.errors import UsageError

__all__ = ["Topic", "find_topic", "load_topics"]


class Topic(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One word explained.

    Args:
        name: as in the report: a layer, resource, outcome or metric.
        kind: which of these it is.
        means: what it is.
        moves: which settings change it, one line each.
        hides: what it does not tell.
        unit: what it is counted in; empty where it is no quantity.
    """

    name: str
    kind: str
    means: str
    hides: str
    moves: tuple[str, ...] = ()
    unit: str = ""


def load_topics() -> dict[str, Topic]:
    """Every topic by name, in the order they are told: layers first."""
    path = resources.files("loadgen.analysis") / "explain.toml"
    tables = tomllib.loads(path.read_text("utf-8"))
    return {
        name: msgspec.convert({"name": name, **table}, Topic)
        for name, table in tables.items()
    }


def find_topic(name: str) -> Topic:
    """The topic for a word as a person types it.

    Raises:
        UsageError: no such topic; the nearest ones are named.
    """
    topics = load_topics()
    word = name.strip().lower().replace("-", "_").replace(" ", "_")
    for candidate in (word, word.removesuffix("_s")):
        if candidate in topics:
            return topics[candidate]
    near = difflib.get_close_matches(word, topics, n=3, cutoff=0.5)
    near = near or [topic for topic in topics if word in topic][:3]
    remedy = f"did you mean {', '.join(near)}?" if near else "see loadgen explain"
    raise UsageError(f"nothing is called {name!r} in a report", remedy)
