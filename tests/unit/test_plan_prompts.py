"""Generated prompts: length, uniqueness, and that they read like text."""

from __future__ import annotations

import hashlib

from loadgen.plan.draws import Stream
from loadgen.plan.generate import generate
from loadgen.plan.groups import Group
from loadgen.plan.prompts import (
    MIN_DOCUMENT_TOKENS,
    MIN_PREFIX_TOKENS,
    MIN_QUESTION_TOKENS,
    Writer,
    estimate_tokens,
)
from loadgen.plan.words import ADJECTIVES, KEYS, NOUNS, PLACES, VERBS
from loadgen.plan.workload import builtin_names, builtin_text, parse_workload

FIRST_BLOCK_WORDS = 9


def test_the_vocabulary_is_what_its_rules_say() -> None:
    assert len(KEYS) == 256
    for words in (ADJECTIVES, NOUNS, PLACES, VERBS):
        assert len(set(words)) == len(words)
        assert all(word.isascii() and word.islower() for word in words)
        assert all(estimate_tokens(word) == 1 for word in words)


def test_the_rule_of_the_estimate() -> None:
    assert estimate_tokens("") == 0
    assert estimate_tokens("How does it work?") == 5
    assert estimate_tokens("internationalization") == 2
    assert estimate_tokens("In 2026:\n\nyes") == 8
    assert estimate_tokens("日本") == 2


def test_golden_prompts() -> None:
    """Pinned: the same seed writes the same bytes in every version."""
    digests = {}
    for name in builtin_names():
        digest = hashlib.sha256()
        for prompt in parse_workload(builtin_text(name), name).prompts(200, seed=7):
            facts = (prompt.group, prompt.max_tokens, prompt.prompt_tokens, prompt.text)
            digest.update("|".join(map(str, facts)).encode())
        digests[name] = digest.hexdigest()[:16]
    assert digests == GOLDEN


def test_documents_have_the_asked_length() -> None:
    writer = Writer(7)
    for index, opening in enumerate(writer.openings(0, 300)):
        tokens = MIN_DOCUMENT_TOKENS + index * index // 7
        text = writer.document(index, opening, tokens)
        assert estimate_tokens(text) == tokens
        assert text.isascii()


def test_texts_of_any_length_have_it() -> None:
    writer = Writer(7)
    for index, opening in enumerate(writer.openings(0, 100)):
        assert estimate_tokens(writer.of_length(index, opening, index + 1)) == index + 1


def test_no_two_prompts_share_their_first_block() -> None:
    """The openings write the words of a bijection: no chance is involved."""
    count = 50_000
    openings = Writer(7).openings(0, count)
    assert len(set(openings)) == count
    assert all(estimate_tokens(opening) == 10 for opening in openings[:1000])
    words = Stream(7, "prompt keys").words(0, count)
    assert len(set(words.tolist())) == count


def test_another_seed_shares_no_opening() -> None:
    assert not set(Writer(7).openings(0, 9000)) & set(Writer(8).openings(0, 9000))


def test_a_shared_prefix_is_shared_on_purpose_only() -> None:
    chat = Group(
        name="chat",
        kind="question",
        prompt_tokens=MIN_PREFIX_TOKENS + 93 + MIN_QUESTION_TOKENS,
        max_tokens=8,
        shared_prefix_tokens=MIN_PREFIX_TOKENS + 93,
    )
    first, second, *_ = generate([chat], Stream(7, "x").below(1, 0, 9), seed=7)
    prefix = Writer(7).prefix("chat", chat.shared_prefix_tokens)
    assert estimate_tokens(prefix) == chat.shared_prefix_tokens
    assert first.text.startswith(prefix)
    assert second.text.startswith(prefix)
    own = [prompt.text.removeprefix(prefix) for prompt in (first, second)]
    assert own[0].split()[:FIRST_BLOCK_WORDS] != own[1].split()[:FIRST_BLOCK_WORDS]
    assert estimate_tokens(first.text) == first.prompt_tokens == chat.prompt_tokens
    assert Writer(7).prefix("other", 100) != prefix


GOLDEN = {
    "agent-burst": "9fe575f961deca49",
    "long-documents": "21181ecf0e8ffb40",
    "mixed": "cde79e09d4949a21",
    "short-questions": "817ee96903e8a977",
}
