"""Which of the stamped events were tokens, decided when the answer has ended.

An empty string in a stream is either a placeholder or a token whose bytes are
not yet a character. Only the whole answer tells which.
"""

from __future__ import annotations

from array import array
from itertools import pairwise
from typing import NamedTuple

__all__ = [
    "ANSWER",
    "CLEAN",
    "CLOSING",
    "EMPTY",
    "REASONING",
    "RUNNING",
    "Tokens",
    "parted",
    "settle",
]

# What a stamped event carried, one byte an event.
REASONING = 0
ANSWER = 1
EMPTY = 2  # an empty string: see above
RUNNING = 3  # an empty string by which running usage rose: a token
CLOSING = 4  # an empty string beside a finish reason: no token event

# Beside it: the read that ended the event left nothing behind, neither in the
# socket nor of a later event. One byte holds both while thousands are in flight.
CLEAN = 0x80
_KIND_OF = bytes(mark & ~CLEAN for mark in range(256))
_CLEAN_OF = bytes(mark >= CLEAN for mark in range(256))


class Tokens(NamedTuple):
    """The token events of one answer, in order.

    ``exact[i]`` is False where ``at_ns[i]`` is only an upper bound.
    ``first_answer_ns`` is the first that is not reasoning; None if none is.
    """

    at_ns: list[int]
    exact: list[bool]
    first_answer_ns: int | None
    findings: list[str]


def parted(marks: bytearray) -> tuple[bytearray, bytearray]:
    """Kinds, and for each 1 where its read was clean."""
    return marks.translate(_KIND_OF), marks.translate(_CLEAN_OF)


def settle(
    kinds: bytearray,
    stamps: array[int],
    clean: bytearray,
    *,
    output_tokens: int | None,
) -> Tokens:
    """Decide which stamped events count.

    Args:
        kinds: what each event carried.
        stamps: when the read that completed it arrived, ns since t0.
        clean: 1 where that read left nothing behind, neither in the socket nor
            of a later event.
        output_tokens: the server's own count; None if it gave none.
    """
    closing = kinds.count(CLOSING)
    if closing or EMPTY in kinds:
        begin = _empties_count_from(kinds, output_tokens, closing)
        chosen = [
            i
            for i, kind in enumerate(kinds)
            if kind != CLOSING and (kind != EMPTY or i >= begin)
        ]
        kinds = bytearray(kinds[i] for i in chosen)
        at_ns = [stamps[i] for i in chosen]
        clean = bytearray(clean[i] for i in chosen)
    else:
        at_ns = stamps.tolist()
    first = _first_answer(kinds)
    alone = len(set(at_ns)) == len(at_ns)  # no read ended two of them
    return Tokens(
        at_ns,
        [True] * len(at_ns) if alone and 0 not in clean else _exact(at_ns, clean),
        None if first is None else at_ns[first],
        _findings(at_ns, output_tokens, closing, together=not alone),
    )


def _empties_count_from(
    kinds: bytearray, output_tokens: int | None, closing: int
) -> int:
    """The index from which empty events are tokens; past the end: none is.

    vLLM ends on an empty event with the finish reason when the last token has no
    text. That is no token event, but usage counts its token: both totals fit.
    Under load it also puts several tokens into one event; events then stay below
    usage, which so cannot tell, and the rule for answers without usage holds.
    """
    words = (i for i, k in enumerate(kinds) if k not in (EMPTY, CLOSING))
    after_first = next(words, len(kinds))
    if output_tokens is None:
        return after_first
    certain = len(kinds) - kinds.count(EMPTY) - closing
    for begin in (0, after_first):
        events = certain + kinds.count(EMPTY, begin)
        if output_tokens in (events, events + closing):
            return begin
    return after_first if len(kinds) < output_tokens else len(kinds)


def _first_answer(kinds: bytearray) -> int | None:
    """The index of the first event that is not reasoning.

    An empty event belongs to the text that follows: it is that text's first bytes.
    """
    first = kinds.find(ANSWER)
    if first < 0:
        return None
    while first and kinds[first - 1] in (EMPTY, RUNNING):
        first -= 1
    return first


def _exact(at_ns: list[int], clean: bytearray) -> list[bool]:
    """Clean reads whose stamp no neighbour shares: one token came in each."""
    before = [None, *at_ns]
    after = [*at_ns[1:], None]
    return [
        bool(tidy) and stamp != last and stamp != following
        for tidy, stamp, last, following in zip(
            clean, at_ns, before, after, strict=False
        )
    ]


def _findings(
    at_ns: list[int], output_tokens: int | None, closing: int, *, together: bool
) -> list[str]:
    found = []
    events = len(at_ns)
    if output_tokens is not None and output_tokens != events:
        whole = output_tokens == events + closing
        found.append("last_token_without_text" if whole else "events_ne_tokens")
    gaps = events - 1
    if together and gaps >= 2 and sum(a == b for a, b in pairwise(at_ns)) * 2 > gaps:
        found.append("buffering_suspected")
    return found
