"""Prompts written by a seeded generator: short questions and long documents.

Each opens with eight words that write a 64-bit number no other prompt of the
schedule has, so that no two share their first block and a prefix cache cannot
flatter the result. A prefix is shared only where a group asks for it.

Lengths are an **estimate**, made to be near the byte-pair tokenizers in use: a word
of up to ten letters is one token (longer: one a started ten), so is a digit, a
punctuation mark or a paragraph break; any other character is one. What the chat
template adds is the server's and is not in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np

from loadgen.plan.draws import Ints, Stream
from loadgen.plan.words import ADJECTIVES, KEYS, NOUNS, PLACES, VERBS

__all__ = [
    "MIN_DOCUMENT_TOKENS",
    "MIN_PREFIX_TOKENS",
    "MIN_QUESTION_TOKENS",
    "Prompt",
    "Writer",
    "estimate_tokens",
]

_PIECE = re.compile(r"[A-Za-z]+|\n+|[^\sA-Za-z]")
_LETTERS_PER_TOKEN = 10


class Prompt(NamedTuple):
    """What one request asks.

    ``prompt_tokens`` is an estimate (see the module). ``max_tokens`` is None where
    the server's own limit is meant. ``messages`` is the JSON of a chat's messages,
    offered byte for byte where the user gave them; ``text`` is empty then.
    """

    group: str
    tenant: str | None
    text: str
    max_tokens: int | None
    prompt_tokens: int
    messages: bytes | None = None


def estimate_tokens(text: str) -> int:
    """The estimated length of a text in tokens, by the rule of this module."""
    return sum(
        -(-len(piece) // _LETTERS_PER_TOKEN) if piece[0].isalpha() else 1
        for piece in _PIECE.findall(text)
    )


_OPENING = "About"
_KEY_WORDS = 8
_OPENING_TOKENS = 1 + _KEY_WORDS + 1  # About, the words, a colon
_CLOSING = "\n\nSummarize the whole text above in three short sentences."
_CLOSING_TOKENS = estimate_tokens(_CLOSING)
_PREFIX_OPENING = "Context:"
_PREFIX_FRAME_TOKENS = 3  # Context, a colon, a paragraph break
_SHORTEST_SENTENCE = 6  # tokens, like all lengths here
_LONGEST_SENTENCE = 20
_SENTENCES = 512
_PARAGRAPH_EVERY = 8
_QUESTIONS = 64
#: Counters set aside for the sentences of one document.
_DRAWS_PER_DOCUMENT = 1 << 22

MIN_QUESTION_TOKENS = _OPENING_TOKENS + 4
MIN_DOCUMENT_TOKENS = _OPENING_TOKENS + _SHORTEST_SENTENCE + _CLOSING_TOKENS
MIN_PREFIX_TOKENS = _SHORTEST_SENTENCE + _PREFIX_FRAME_TOKENS


class Writer:
    """Writes the prompts of one schedule; the same seed writes the same bytes.

    Args:
        seed: the schedule's seed.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._keys = Stream(seed, "prompt keys")
        self._choices = Stream(seed, "prompt sentences")
        self._questions: dict[int, list[str]] = {}
        self._tails: dict[int, str] = {}

    def openings(self, start: int, count: int) -> list[str]:
        """The unique first words of requests ``start`` to ``start + count``."""
        raw = self._keys.words(start, count).astype("<u8").tobytes()
        word = KEYS.__getitem__
        return [
            f"{_OPENING} {' '.join(map(word, raw[at : at + _KEY_WORDS]))}:"
            for at in range(0, len(raw), _KEY_WORDS)
        ]

    def question(self, index: int, opening: str, tokens: int) -> str:
        """The question of request ``index``, ``tokens`` long in all."""
        known = self._questions.get(tokens)
        if known is None:
            speech = _Speech(Stream(self._seed, f"questions of {tokens}"))
            words = tokens - _OPENING_TOKENS - 1
            known = [f" {speech.clause('which', words)}?" for _ in range(_QUESTIONS)]
            self._questions[tokens] = known
        return opening + known[index % _QUESTIONS]

    def document(self, index: int, opening: str, tokens: int) -> str:
        """The document of request ``index``, ``tokens`` long in all."""
        prose = tokens - _OPENING_TOKENS - _CLOSING_TOKENS
        return opening + self._prose(self._choices, index, prose) + _CLOSING

    def of_length(self, index: int, opening: str, tokens: int) -> str:
        """A text of any asked length, as a trace asks for.

        One too short for a whole opening is the opening's first words, and shares
        them with others.
        """
        if tokens >= MIN_DOCUMENT_TOKENS:
            return self.document(index, opening, tokens)
        if tokens >= MIN_QUESTION_TOKENS:
            return self.question(index, opening, tokens)
        return " ".join((opening[:-1].split() + ["thing"] * 4)[:tokens])

    def prefix(self, group: str, tokens: int) -> str:
        """The text that all prompts of a group share; it ends a paragraph."""
        stream = Stream(self._seed, f"shared prefix of {group}")
        prose = self._prose(stream, 0, tokens - _PREFIX_FRAME_TOKENS)
        return f"{_PREFIX_OPENING}{prose}\n\n"

    def _prose(self, stream: Stream, index: int, tokens: int) -> str:
        """Sentences of ``tokens`` in all, each led by its space or break."""
        sentences, lengths = self._pool
        most = tokens // _SHORTEST_SENTENCE + 1
        chosen = stream.below(len(lengths), index * _DRAWS_PER_DOCUMENT, most)
        totals = np.cumsum(lengths[chosen])
        whole = int(np.searchsorted(totals, tokens - _SHORTEST_SENTENCE, side="right"))
        rest = tokens - (int(totals[whole - 1]) if whole else 0)
        text = "".join(map(sentences.__getitem__, chosen[:whole].tolist()))
        return text + self._tail(rest)

    def _tail(self, tokens: int) -> str:
        if tokens not in self._tails:
            speech = _Speech(Stream(self._seed, f"last sentence of {tokens}"))
            self._tails[tokens] = f" {speech.sentence(tokens)}"
        return self._tails[tokens]

    @cached_property
    def _pool(self) -> tuple[list[str], Ints]:
        """The sentences documents are made of, and what each costs."""
        speech = _Speech(Stream(self._seed, "sentences"))
        spread = _LONGEST_SENTENCE - _SHORTEST_SENTENCE + 1
        sentences, lengths = [], []
        for number in range(_SENTENCES):
            tokens = _SHORTEST_SENTENCE + number % spread
            breaks = number % _PARAGRAPH_EVERY == 0
            lead = "\n\n" if breaks else " "
            sentences.append(lead + speech.sentence(tokens))
            lengths.append(tokens + breaks)
        return sentences, np.array(lengths, dtype=np.int64)


_CLAUSE = (
    *(ADJECTIVES, NOUNS, VERBS, ("the",), NOUNS, PLACES, ("the",)),
    *(ADJECTIVES, NOUNS, ("and",), ("the",)),
)


class _Speech:
    """Clauses of an asked number of words that read like English."""

    def __init__(self, stream: Stream) -> None:
        self._draws = _numbers(stream)

    def clause(self, first: str, words: int) -> str:
        """A clause led by ``first`` and ended by a noun."""
        middle = [self._pick(_CLAUSE[at % len(_CLAUSE)]) for at in range(words - 2)]
        return " ".join([first, *middle, self._pick(NOUNS)])

    def sentence(self, tokens: int) -> str:
        return self.clause("The", tokens - 1) + "."

    def _pick(self, words: tuple[str, ...]) -> str:
        return words[next(self._draws) * len(words) >> 31]


def _numbers(stream: Stream) -> Iterator[int]:
    """Numbers in [0, 2^31), as many as are asked for."""
    start = 0
    while True:
        yield from stream.below(1 << 31, start, 256).tolist()
        start += 256
