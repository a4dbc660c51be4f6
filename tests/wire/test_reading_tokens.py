"""Which events are tokens, and which of their stamps are exact."""

from __future__ import annotations

from array import array
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.model import Ending
from loadgen.wire.facts import Facts
from loadgen.wire.protocols import PROTOCOLS
from loadgen.wire.reading import Reading
from loadgen.wire.tokens import ANSWER, CLOSING, EMPTY, REASONING, RUNNING, settle

R, A, E, U, C = REASONING, ANSWER, EMPTY, RUNNING, CLOSING


def settled(kinds: list[int], output_tokens: int | None) -> list[int]:
    """The indices of the events that count."""
    stamps = array("q", range(len(kinds)))
    found = settle(
        bytearray(kinds), stamps, bytearray(len(kinds)), output_tokens=output_tokens
    )
    return found.at_ns


@pytest.mark.parametrize(
    ("kinds", "output_tokens", "counted"),
    [
        ([A, A], 2, [0, 1]),
        ([A, A], None, [0, 1]),
        ([E, A, E, A], 4, [0, 1, 2, 3]),
        ([E, A, E, A], 2, [1, 3]),
        # several tokens an event: usage cannot tell
        ([E, A, E, A], 9, [1, 2, 3]),
        ([E, A, E, A, C], 9, [1, 2, 3]),
        ([E, A, E, A], None, [1, 2, 3]),
        # a placeholder first, real ones later
        ([E, A, E, A], 3, [1, 2, 3]),
        # the last token has no text: usage counts it, it is no token event
        ([E, A, A, C], 4, [0, 1, 2]),
        ([A, A, C], 3, [0, 1]),
        ([A, A, C], 2, [0, 1]),
        ([C], 1, []),
        ([E, E], 2, [0, 1]),
        ([E, E], None, []),
        ([E, R, E, A], None, [1, 2, 3]),
        ([U, A, U], 3, [0, 1, 2]),
        ([U, A, U], 7, [0, 1, 2]),
        ([], 0, []),
        ([], None, []),
    ],
)
def test_an_empty_event_counts_if_usage_bears_it_out(
    kinds: list[int], output_tokens: int | None, counted: list[int]
) -> None:
    assert settled(kinds, output_tokens) == counted


@pytest.mark.parametrize(
    ("kinds", "first_answer"),
    [
        ([R, R, A], 2),
        ([R, E, A], 1),
        ([E, A], 0),
        ([R, R], None),
        ([A, R], 0),
        ([], None),
    ],
)
def test_the_first_answer(kinds: list[int], first_answer: int | None) -> None:
    stamps = array("q", range(len(kinds)))
    clean = bytearray(len(kinds))
    found = settle(bytearray(kinds), stamps, clean, output_tokens=len(kinds))
    assert found.first_answer_ns == first_answer


@pytest.mark.parametrize(
    ("kinds", "output_tokens", "findings"),
    [
        ([A, A], 2, []),
        ([A, A], None, []),
        ([A, A], 5, ["events_ne_tokens"]),
        ([A, A, C], 3, ["last_token_without_text"]),
        ([A, A, C], 2, []),
        ([], 0, []),
        ([], 3, ["events_ne_tokens"]),
    ],
)
def test_what_differs_from_usage_is_a_finding(
    kinds: list[int], output_tokens: int | None, findings: list[str]
) -> None:
    stamps = array("q", range(len(kinds)))
    clean = bytearray(len(kinds))
    found = settle(bytearray(kinds), stamps, clean, output_tokens=output_tokens)
    assert found.findings == findings


@settings(deadline=None)
@given(st.lists(st.sampled_from([R, A, E, U, C])), st.none() | st.integers(0, 30))
def test_certain_tokens_always_count_and_closings_never(
    kinds: list[int], output_tokens: int | None
) -> None:
    counted = settled(kinds, output_tokens)
    assert [i for i in counted if kinds[i] in (R, A, U)] == [
        i for i, kind in enumerate(kinds) if kind in (R, A, U)
    ]
    assert not [i for i in counted if kinds[i] == C]
    assert all(a < b for a, b in pairwise(counted))


# Stamps ---------------------------------------------------------------------

ROLE = b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n'
TOKEN = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
BLANK = b'data: {"choices":[{"delta":{"content":""}}]}\n\n'
END = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


def read(*reads: tuple[int, bytes, bool]) -> Facts:
    reading = Reading(PROTOCOLS["openai-chat"], stream=True, keep_text=False)
    reading.head(200, [], 0)
    for at_ns, data, queue_empty in reads:
        reading.body(data)
        reading.end_of_read(at_ns, queue_empty)
    return reading.close(Ending.COMPLETE, 1000)


@pytest.mark.parametrize(
    ("reads", "exact"),
    [
        ([(1, TOKEN, True), (2, TOKEN, True)], [True, True]),
        ([(1, ROLE + TOKEN, True)], [True]),
        ([(1, TOKEN + END, True)], [False]),
        ([(1, TOKEN + TOKEN, True), (2, TOKEN, True)], [False, False, True]),
        ([(1, TOKEN, False), (2, TOKEN, True)], [False, True]),
        ([(1, TOKEN + TOKEN[:9], True), (2, TOKEN[9:], True)], [False, True]),
        ([(1, TOKEN[:9], True), (2, TOKEN[9:], True)], [True]),
        ([(1, TOKEN, True), (1, TOKEN, True), (2, TOKEN, True)], [False, False, True]),
        # the empty one before it turns out to be no token
        ([(1, BLANK + TOKEN, True)], [True]),
    ],
)
def test_a_stamp_is_exact_only_where_one_token_came_alone(
    reads: list[tuple[int, bytes, bool]], exact: list[bool]
) -> None:
    assert read(*reads).token_exact == exact


def test_several_pieces_of_one_read_are_one_read() -> None:
    reading = Reading(PROTOCOLS["openai-chat"], stream=True, keep_text=False)
    reading.head(200, [], 0)
    reading.body(TOKEN[:5])
    reading.body(TOKEN[5:])
    reading.end_of_read(7, True)
    reading.end_of_read(9, True)
    facts = reading.close(Ending.EOF, 10)
    assert (facts.token_ns, facts.token_exact) == ([7], [True])


def test_a_read_without_payload_is_no_first_byte() -> None:
    reading = Reading(PROTOCOLS["openai-chat"], stream=True, keep_text=False)
    reading.head(200, [], 3)
    reading.end_of_read(3, True)
    reading.body(b": ping\n\n")
    reading.end_of_read(4, True)
    reading.body(TOKEN)
    reading.end_of_read(5, True)
    facts = reading.close(Ending.EOF, 10)
    assert (facts.first_byte_ns, facts.first_event_ns) == (4, 5)


def test_a_last_event_without_its_blank_line_is_stamped_but_not_exact() -> None:
    facts = read((1, TOKEN, True), (2, TOKEN[:-2], True))
    assert (facts.token_ns, facts.token_exact) == ([1, 2], [True, False])


def test_running_usage_tells_placeholders_from_tokens() -> None:
    def counted(text: str, tokens: int) -> bytes:
        return (
            b'data: {"choices":[{"delta":{"content":"%b"}}],'
            b'"usage":{"prompt_tokens":9,"completion_tokens":%d}}\n\n'
        ) % (text.encode(), tokens)

    facts = read(
        (1, counted("", 0), True),
        (2, counted("", 0), True),
        (3, counted("a", 1), True),
        (4, counted("", 2), True),
        (5, counted("", 2), True),
        (6, counted("b", 3), True),
    )
    assert facts.token_ns == [3, 4, 6]
