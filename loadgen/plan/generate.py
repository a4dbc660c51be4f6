"""The prompts of a schedule, one after the other: who is asked, how long, what.

Each question draws from a stream of its own, so changing one leaves the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

import numpy as np

from loadgen.plan.draws import Ints, Stream
from loadgen.plan.groups import Group, span
from loadgen.plan.prompts import Prompt, Writer

__all__ = ["assign", "generate"]

_CHUNK = 4096


def assign(weights: Sequence[float], count: int, seed: int, *, equal: bool) -> Ints:
    """The group, by its place in ``weights``, of each of ``count`` requests.

    Args:
        weights: shares in any unit, their sum above 0.
        count: how many requests.
        seed: the schedule's seed.
        equal: deal the groups out in equal numbers, in shuffled order, and ignore
            the weights; where they do not divide, the first groups get one more.
    """
    stream = Stream(seed, "groups")
    if equal:
        order = np.argsort(stream.words(0, count), kind="stable")
        which = np.empty(count, dtype=np.int64)
        which[order] = np.arange(count) % len(weights)
        return which
    sums = list(accumulate(weights))
    limits = np.array([part / sums[-1] for part in sums])
    return np.searchsorted(limits, stream.unit(0, count), side="right").astype(np.int64)


def generate(groups: Sequence[Group], which: Ints, seed: int) -> Iterator[Prompt]:
    """Write the prompts of requests whose groups are given; memory is one chunk."""
    writer = Writer(seed)
    prefixes = [
        writer.prefix(group.name, group.shared_prefix_tokens)
        if group.shared_prefix_tokens
        else ""
        for group in groups
    ]
    prompt_spans = _Spans([group.prompt_tokens for group in groups])
    max_spans = _Spans([group.max_tokens for group in groups])
    lengths, limits = Stream(seed, "prompt lengths"), Stream(seed, "output limits")
    for start in range(0, len(which), _CHUNK):
        chosen = which[start : start + _CHUNK]
        openings = writer.openings(start, len(chosen))
        columns = zip(
            chosen.tolist(),
            openings,
            prompt_spans.draw(lengths, chosen, start),
            max_spans.draw(limits, chosen, start),
            strict=True,
        )
        for index, (at, opening, tokens, max_tokens) in enumerate(columns, start):
            group = groups[at]
            own = tokens - group.shared_prefix_tokens
            if group.kind == "question":
                text = writer.question(index, opening, own)
            else:
                text = writer.document(index, opening, own)
            yield Prompt(
                group.name, group.tenant, prefixes[at] + text, max_tokens, tokens
            )


class _Spans:
    """The lengths each group may have, drawn for many requests at once."""

    def __init__(self, lengths: Sequence[int | tuple[int, int]]) -> None:
        spans = np.array([span(length) for length in lengths], dtype=np.int64)
        self._low, self._width = spans[:, 0], spans[:, 1] - spans[:, 0] + 1

    def draw(self, stream: Stream, chosen: Ints, start: int) -> list[int]:
        drawn = stream.below(self._width[chosen], start, len(chosen))
        lengths: list[int] = (self._low[chosen] + drawn).tolist()
        return lengths
