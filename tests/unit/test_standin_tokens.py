"""The invented tokenizer and author."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.standin import tokens


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("", []),
        ("  \n ", []),
        ("the fox", ["the", "fox"]),
        ("understanding", ["understa", "nding"]),
        ("a-b, 1234x!", ["a", "-", "b", ",", "123", "4", "x", "!"]),
        ("日本é", ["日", "本", "é"]),
    ],
)
def test_pieces(text: str, pieces: list[str]) -> None:
    assert tokens.pieces(text) == pieces


def test_a_chat_costs_three_a_message_and_three_for_the_answer() -> None:
    assert len(tokens.chat_pieces(["one two", "three"])) == 2 + 1 + 3 * 3


@given(st.text(), st.text())
def test_counting_is_additive_over_white_space(left: str, right: str) -> None:
    whole = tokens.count(f"{left} {right}")
    assert whole == tokens.count(left) + tokens.count(right)


@given(st.lists(st.text(min_size=1)))
def test_ids_are_stable_and_in_range(texts: list[str]) -> None:
    ids = tokens.token_ids(texts)
    assert ids == tokens.token_ids(texts)
    assert all(0 <= number < tokens.VOCABULARY for number in ids)


@given(st.binary(), st.integers(1, 300))
def test_an_answer_counts_as_many_tokens_as_it_was_put_out_in(
    seed: bytes, length: int
) -> None:
    text = "".join(islice(tokens.answer_tokens(seed), length))
    assert tokens.count(text) == length


def test_the_seed_makes_the_words() -> None:
    def words(seed: bytes) -> list[str]:
        return list(islice(tokens.answer_tokens(seed), 20))

    assert words(b"one") == words(b"one")
    assert words(b"one") != words(b"two")
