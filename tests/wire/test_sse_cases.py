"""Streams of real servers, each read whole, cut at every byte, and one by one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from loadgen.model import Ending, Outcome
from loadgen.units import NS_PER_MS
from loadgen.wire.facts import Facts
from loadgen.wire.framing import Event, NdjsonFramer, SseFramer
from loadgen.wire.protocols import PROTOCOLS
from loadgen.wire.reading import Reading
from tests.cases import Case, cases

CASES = cases("sse")

# The cases' words in ours. "error" is both of ours; `layer` tells which.
OUTCOMES: dict[str, set[Outcome]] = {
    "ok": {Outcome.OK},
    "ok_or_missing_finish": {Outcome.OK, Outcome.TRUNCATED},
    "error": {Outcome.IN_STREAM_REJECT, Outcome.IN_STREAM_ERROR},
    "truncated": {Outcome.TRUNCATED},
}
LAYER_OUTCOMES: dict[str, set[Outcome]] = {
    "server": {Outcome.IN_STREAM_ERROR},
    "server_admission": {Outcome.IN_STREAM_REJECT},
    "request": {Outcome.IN_STREAM_REJECT},
    "gateway": {Outcome.IN_STREAM_ERROR},
    "network_or_server": {Outcome.TRUNCATED},
}
PROTOCOL_OF_DIALECT = {"responses": "openai-responses", "ollama": "ollama"}
ENDINGS = {"clean_eof": Ending.COMPLETE}
LARGE_BYTES = 100_000


def ms(instant_ns: int | None) -> float | None:
    return None if instant_ns is None else instant_ns / NS_PER_MS


def gaps_ms(facts: Facts) -> list[float]:
    return [(b - a) / NS_PER_MS for a, b in pairwise(facts.token_ns)]


def tpot_ms(facts: Facts) -> float | None:
    """By the definition; analysis says when it must not be published."""
    if facts.output_tokens is None or facts.output_tokens < 2 or not facts.token_ns:
        return None
    span_ns = facts.token_ns[-1] - facts.token_ns[0]
    return span_ns / NS_PER_MS / (facts.output_tokens - 1)


READINGS: dict[str, Callable[[Facts], Any]] = {
    "anomaly": lambda f: (
        "content_type_mismatch" in f.findings and "content_type_mismatch"
    ),
    "bad_events": lambda f: f.bad_events,
    "buffering_suspected": lambda f: "buffering_suspected" in f.findings,
    "comments": lambda f: f.comments,
    "done": lambda f: f.done,
    "error_code": lambda f: f.error and f.error.code,
    "error_message": lambda f: f.error and f.error.message,
    "finish": lambda f: f.finish_reason,
    "finish_reason": lambda f: f.finish_reason,
    "first_byte_ms": lambda f: ms(f.first_byte_ns),
    "gaps_expected_ms": gaps_ms,
    "gaps_ms": gaps_ms,
    "gaps_nonzero": lambda f: sum(gap > 0 for gap in gaps_ms(f)),
    "is_rejection": lambda f: f.outcome is Outcome.IN_STREAM_REJECT,
    "last_token_ms": lambda f: ms(f.last_token_ns),
    "output_tokens": lambda f: f.output_tokens,
    "partial_tokens": lambda f: len(f.token_ns),
    "prompt_tokens": lambda f: f.prompt_tokens,
    "replacement_chars": lambda f: (f.text or "").count("\N{REPLACEMENT CHARACTER}"),
    "status": lambda f: f.status,
    "text": lambda f: f.text,
    "text_expected": lambda f: f.text,
    "text_length": lambda f: len(f.text or ""),
    "token_events": lambda f: len(f.token_ns),
    "ttft_any_ms": lambda f: ms(f.first_token_ns),
    "ttft_any_ms_expected": lambda f: ms(f.first_token_ns),
    "ttft_content_ms": lambda f: ms(f.first_answer_ns),
    "ttft_content_ms_expected": lambda f: ms(f.first_answer_ns),
    "visible_gap_ms": gaps_ms,
}
# Judged elsewhere: by analysis, from the record; or not to be seen from here.
ELSEWHERE = {
    "counts_as_offered",
    "counts_in_goodput",
    "counts_in_latency_percentiles",
    "dialect",
    "layer",
    "mean_event_gap_ms",
    "not",
    "outcome",
    "output_tokens_source",
    "per_choice_gaps_ms",
    "reasoning",
    "reconnects",
    "tokens_before_first_event",
    "tokens_per_event",
    "tpot_measurable",
    "tpot_ms",
    "units",
    "why",
}


def payload(piece: str | dict[str, Any]) -> bytes:
    """A chunk's bytes: text of Latin-1, or a repetition too long to write out."""
    if isinstance(piece, str):
        return piece.encode("latin-1")
    text = piece["prefix"] + piece["repeat"] * piece["times"] + piece["suffix"]
    return str(text).encode("latin-1")


def body_of(case: Case) -> bytes:
    return b"".join(payload(piece) for _, piece in case["input"]["chunks"])


def reading_of(case: Case) -> Reading:
    dialect = PROTOCOL_OF_DIALECT.get(case["expect"].get("dialect", ""))
    if dialect is None:
        text = b'"text_completion"' in body_of(case)
        dialect = "openai-completions" if text else "openai-chat"
    reading = Reading(PROTOCOLS[dialect], stream=True, keep_text=True)
    given = case["input"]
    for at, _ in given.get("interim", []):
        reading.head(100, [], at * NS_PER_MS)
    headers = {"content-type": given["content_type"], **given.get("headers", {})}
    pairs = [(k.encode(), v.encode()) for k, v in headers.items()]
    reading.head(given["status"], pairs, 0)
    return reading


def read(case: Case) -> Facts:
    """As the case says: each chunk is one read at its own time."""
    reading = reading_of(case)
    for at, piece in case["input"]["chunks"]:
        reading.body(payload(piece))
        reading.end_of_read(at * NS_PER_MS, True)
    end = case["input"]["end"]
    return reading.close(ENDINGS[end["how"]], end["t"] * NS_PER_MS)


def read_in_pieces(case: Case, pieces: list[bytes]) -> Facts:
    """All in one instant, cut otherwise; no stamp is exact, as that is the reads'."""
    reading = reading_of(case)
    for piece in pieces:
        reading.body(piece)
        reading.end_of_read(0, False)
    return reading.close(Ending.COMPLETE, 0)


def framed(case: Case, pieces: list[bytes]) -> list[Event]:
    ndjson = case["expect"].get("dialect") == "ollama"
    framer = NdjsonFramer() if ndjson else SseFramer()
    events = [event for piece in pieces for event in framer.feed(piece)]
    return events + framer.flush()


def cut(body: bytes, size: int) -> list[bytes]:
    return [body[i : i + size] for i in range(0, len(body), size)]


@pytest.mark.parametrize("name", CASES)
def test_a_case_comes_out_as_it_must(name: str) -> None:
    case = CASES[name]
    expected, facts = case["expect"], read(case)
    assert facts.outcome in OUTCOMES[expected["outcome"]]
    if "layer" in expected:
        assert facts.outcome in LAYER_OUTCOMES[expected["layer"]]
    for key, wanted in expected.items():
        if key not in ELSEWHERE:
            assert READINGS[key](facts) == wanted, key
    if expected.get("tpot_ms") is not None:
        assert tpot_ms(facts) == pytest.approx(expected["tpot_ms"])


@pytest.mark.parametrize("name", CASES)
def test_every_word_of_a_case_is_known(name: str) -> None:
    assert set(CASES[name]["expect"]) <= READINGS.keys() | ELSEWHERE


def test_what_analysis_needs_for_the_rest_is_found() -> None:
    hidden = read(CASES["sse-24-hidden-reasoning"])
    assert {"hidden_reasoning", "events_ne_tokens"} <= set(hidden.findings)
    assert "several_choices" in read(CASES["sse-56-n2-interleaved"]).findings
    assert read(CASES["sse-27-no-usage-at-all"]).output_tokens_source == "unknown"
    assert "events_after_done" in read(CASES["sse-70-tokens-after-done"]).findings


@pytest.mark.parametrize("name", CASES)
def test_framing_is_the_same_at_every_split(name: str) -> None:
    case = CASES[name]
    body = body_of(case)
    whole = framed(case, [body])
    assert whole
    points = (
        range(len(body) + 1)
        if len(body) < LARGE_BYTES
        else [*range(0, 70, 5), 1 << 20, *range(len(body) - 60, len(body), 5)]
    )
    for point in points:
        assert framed(case, [body[:point], body[point:]]) == whole, point


@pytest.mark.parametrize("name", CASES)
def test_facts_do_not_depend_on_how_the_body_is_cut(name: str) -> None:
    case = CASES[name]
    body = body_of(case).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    # A lone CR ends no line of NDJSON.
    ndjson = case["expect"].get("dialect") == "ollama"
    for line_end in (b"\n", b"\r\n") if ndjson else (b"\n", b"\r\n", b"\r"):
        same = body.replace(b"\n", line_end)
        whole = read_in_pieces(case, [same])
        assert whole.outcome in OUTCOMES[case["expect"]["outcome"]]
        for size in (1, 3, 7, 64) if len(same) < LARGE_BYTES else (4096,):
            assert read_in_pieces(case, cut(same, size)) == whole, (line_end, size)
