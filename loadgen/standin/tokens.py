"""An invented tokenizer and an invented author.

A token is a run of up to eight ASCII letters, of up to three digits, or any one
other character that is not white space. English comes to a little over one token a
word, near what trained tokenizers give; other scripts come to one token a
character. White space costs nothing. A chat adds three tokens a message and three
for the head of the answer.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from random import Random

__all__ = ["answer_tokens", "chat_pieces", "count", "pieces", "token_ids"]

VOCABULARY = 32_000
_PIECE = re.compile(r"[A-Za-z]{1,8}|[0-9]{1,3}|[^\sA-Za-z0-9]")
_MESSAGE_HEAD = ("<|start|>", "<|head|>", "<|end|>")


def pieces(text: str) -> list[str]:
    """The tokens of a text, as text."""
    return _PIECE.findall(text)


def count(text: str) -> int:
    """How many tokens a text has."""
    return len(pieces(text))


def chat_pieces(texts: Iterable[str]) -> list[str]:
    """The tokens of a chat's messages, with what the template adds."""
    tokens: list[str] = []
    for text in texts:
        tokens += _MESSAGE_HEAD
        tokens += pieces(text)
    return [*tokens, *_MESSAGE_HEAD]


def token_ids(tokens: Iterable[str]) -> list[int]:
    """A number for each token, the same for the same text."""
    return [zlib.crc32(token.encode()) % VOCABULARY for token in tokens]


# Each is one piece, so an answer counts as many tokens as were put out.
_WORDS = pieces(
    "the of and a to in it is was that on for as with at by be this had not are but"
    " from or have an they which one you were her all she there would their we him"
    " been has when who will more no if out so said what up its about into than them"
    " can only other new some could time these two may then do first any my now such"
    " like our over man me even most made after also did many before must well back"
)


def answer_tokens(seed: bytes) -> Iterator[str]:
    """Words without end; the same seed gives the same ones.

    An answer of fewer tokens is the beginning of a longer one.
    """
    rng = Random(seed)
    yield rng.choice(_WORDS).capitalize()
    while True:
        yield f" {rng.choice(_WORDS)}"
