"""A secret in whatever spelling a server says it back."""

from __future__ import annotations

import html
import json
from urllib.parse import quote

import pytest

from loadgen.wire.redact import redacted, spellings

KEY = 'sk/a+b="c&d<e>\\f'


@pytest.mark.parametrize(
    "said",
    [
        KEY,
        json.dumps(KEY),
        json.dumps(KEY).replace("/", "\\/"),
        quote(KEY),
        quote(KEY, safe=""),
        html.escape(KEY),
    ],
)
def test_every_spelling_is_found(said: str) -> None:
    words = redacted(f"bad key {said}, sorry", spellings([KEY]))
    assert words.replace('"', "") == "bad key [redacted], sorry"


def test_a_secret_in_another_goes_whole() -> None:
    spelled = spellings(["abcdefgh", "Bearer abcdefgh"])
    assert redacted("Bearer abcdefgh.", spelled) == "[redacted]."


def test_the_beginning_of_one_cut_off_goes_too() -> None:
    assert redacted("key: 0123456789", spellings(["0123456789abcdef"])) == (
        "key: [redacted]"
    )


def test_what_is_too_short_to_hide_anything_stays() -> None:
    assert spellings(["", "1", "true"]) == []
